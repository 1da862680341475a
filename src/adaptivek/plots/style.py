"""What all figures share: colours, axes, and text from outside that is drawn as it is."""

from __future__ import annotations

from typing import Any

try:
    from matplotlib import pyplot as pyplot
    from matplotlib.axes import Axes as Axes
    from matplotlib.colors import PowerNorm as PowerNorm
    from matplotlib.figure import Figure as Figure
    from matplotlib.ticker import PercentFormatter
except ImportError:
    raise ImportError("adaptivek.plots needs matplotlib: pip install 'adaptivek[plots]'") from None

from ..support.files import plain

KEPT, LEFT_OUT, INK, MUTED = "#2166ac", "#c04128", "#1a2230", "#8a93a0"  # those of the pages
#: text from data: a dollar sign is a dollar sign, not mathematics
AS_IT_IS: dict[str, Any] = {"parse_math": False}


def axes_for(ax: Axes | None, size: tuple[float, float] = (6.0, 3.6)) -> Axes:
    """The given axes, or those of a new figure, without the lines that say nothing."""
    if ax is None:
        ax = pyplot.figure(figsize=size, layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def percents(ax: Axes) -> None:
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))


def short(text: object, length: int) -> str:
    """One line of at most so many characters, of those that can be drawn."""
    line = plain(str(text))
    return line if len(line) <= length else line[: length - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"
