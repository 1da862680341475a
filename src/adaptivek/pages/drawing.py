"""Small drawings as SVG inside the page: its fonts, its colours in light and dark, no text from records."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

try:
    from matplotlib import rc_context
    from matplotlib.axes import Axes as Axes
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import Formatter, MaxNLocator
except ImportError:
    raise ImportError("the report needs matplotlib: pip install 'adaptivek[report]'") from None

#: drawn in the colour on the left, which the page replaces by its own for light and dark
INK, MUTED, RULE, CLEAN, NOISY = "#100001", "#100002", "#100003", "#100004", "#100005"
METHOD_COLOURS = tuple(f"#2000{number:02x}" for number in range(10))
SHADES = tuple(f"#3000{number:02x}" for number in range(5))
VARIABLES = {
    INK: "ink", MUTED: "muted", RULE: "rule", CLEAN: "clean", NOISY: "noisy",
    **{colour: f"method-{number}" for number, colour in enumerate(METHOD_COLOURS)},
    **{colour: f"shade-{number}" for number, colour in enumerate(SHADES)},
}  # fmt: skip
#: lines and marks of the legend: those of matplotlib, so that methods can be told apart without colour
STROKES = {"-": "none", "--": "6 4", ":": "2 3", "-.": "8 3 2 3"}
SHAPES = {
    "D": "M15 1L20 6L15 11L10 6Z", "s": "M11 2H19V10H11Z", "^": "M15 1L20 10H10Z", "v": "M15 11L20 2H10Z",
    "o": "M11 6A4 4 0 1 0 19 6A4 4 0 1 0 11 6Z", "P": "M13 1H17V4H20V8H17V11H13V8H10V4H13Z",
    "<": "M10 6L19 1V11Z", ">": "M20 6L11 1V11Z",
    "X": "M11 1L15 4L19 1L20 2L17 6L20 10L19 11L15 8L11 11L10 10L13 6L10 2Z",
    "h": "M15 1L19.3 3.5V8.5L15 11L10.7 8.5V3.5Z",
}  # fmt: skip
MARKERS = tuple(SHAPES)
NARROW, WIDE = (3.9, 2.6), (5.2, 3.0)  # inches: a third and a half of the page
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "font.size": 9.5, "axes.edgecolor": RULE, "axes.labelcolor": MUTED, "text.color": INK,
    "xtick.color": RULE, "ytick.color": RULE, "xtick.labelcolor": MUTED, "ytick.labelcolor": MUTED,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": RULE,
    "grid.linewidth": 0.6, "axes.axisbelow": True, "lines.linewidth": 1.7, "lines.solid_capstyle": "round",
}  # fmt: skip


@dataclass(frozen=True)
class Key:
    """An entry of a legend: what a line or mark stands for."""

    label: str
    colour: str  #: a variable of the page
    line: str = "-"  #: as matplotlib has it; "" is a band
    marker: str = ""

    @property
    def svg(self) -> str:
        """A short piece of the line, as it is in the drawings."""
        ink = f"var(--{self.colour})"
        if not self.line:
            return f'<svg viewBox="0 0 30 12"><rect width="30" height="12" style="fill: {ink}; opacity: .12"/></svg>'
        line = f'<path d="M1 6H29" style="stroke: {ink}; stroke-width: 2; stroke-dasharray: {STROKES[self.line]}"/>'
        marker = f'<path d="{SHAPES[self.marker]}" style="fill: {ink}"/>' if self.marker else ""
        return f'<svg viewBox="0 0 30 12">{line}{marker}</svg>'


@dataclass(frozen=True)
class Panel:
    """One drawing with its heading."""

    title: str
    svg: str


@dataclass(frozen=True)
class Picture:
    """Panels that are read together."""

    name: str
    title: str
    reading: str  #: what is drawn and how to read it
    keys: tuple[Key, ...]
    panels: tuple[Panel, ...]
    wide: bool = False


def panel(size: tuple[float, float], x: str, y: str, left: float = 0.74) -> tuple[Figure, Axes]:
    """Empty axes with room for their labels; nothing global is touched."""
    with rc_context(STYLE):
        figure = Figure(figsize=size)
        FigureCanvasSVG(figure)
        width, height = size
        # margins in inches, not found by trial drawings: that takes twice as long
        axes = figure.add_axes((left / width, 0.48 / height, (width - left - 0.22) / width, (height - 0.6) / height))
        axes.set(xlabel=x, ylabel=y)
        axes.tick_params(length=0, pad=5)
    return figure, axes


class Percents(Formatter):
    """Shares in percent, with as many decimals as it takes to tell the marks of an axis apart."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return self.format_ticks([x])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        marks = [100 * mark for mark in values]
        enough = (places for places in range(4) if all(abs(mark - round(mark, places)) < 1e-6 for mark in marks))
        places = next(enough, 4)
        return [f"{mark + 0.0:.{places}f} %" for mark in marks]  # no -0


def percents(axes: Axes, which: str = "y") -> None:
    for name in which:
        axis = axes.xaxis if name == "x" else axes.yaxis
        axis.set_major_formatter(Percents())


def whole_numbers(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def band(axes: Axes, x: Sequence[float], curves: Sequence[Sequence[float]], colour: str, line: str = "-") -> None:
    """The mean of several curves, and from the lowest to the highest of them."""
    mean, low, high = ([pick(values) for values in zip(*curves, strict=True)] for pick in (average, lowest, highest))
    if len(curves) > 1:
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(x, mean, color=colour, linestyle=line)


def average(values: Sequence[float]) -> float:
    """Of the numbers among them."""
    known = [value for value in values if math.isfinite(value)]
    return math.fsum(known) / len(known) if known else math.nan


def lowest(values: Sequence[float], default: float = math.nan) -> float:
    return min((value for value in values if math.isfinite(value)), default=default)


def highest(values: Sequence[float], default: float = math.nan) -> float:
    return max((value for value in values if math.isfinite(value)), default=default)


def svg(figure: Figure, name: str, about: str) -> str:
    """The drawing as an element of a page. ``name`` keeps its inner names apart from those of other drawings."""
    buffer = io.StringIO()
    with rc_context(STYLE | {"svg.hashsalt": name}):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text)
    text = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{name}-", text)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var(--{variable})")
    # no size of its own: it fills its place
    text = re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", text, count=1)
    text = re.sub(r'<svg ([^>]*?)height="[^"]*"', r"<svg \1", text, count=1)
    return text.replace("<svg ", f'<svg role="img" aria-label="{about}" ', 1)
