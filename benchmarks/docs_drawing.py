"""What the figures of the README and of the site share: one look, in light and in dark."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

#: drawn in the colour on the left; in the file it is that of the scheme
SCHEMES = {
    "light": {"ink": "#1f2328", "muted": "#59636e", "rule": "#d1d9e0", "grey": "#8b949e",
              "blue": "#0969da", "red": "#cf3a24", "green": "#1a7f37", "violet": "#8250df"},
    "dark": {"ink": "#f0f6fc", "muted": "#9da7b3", "rule": "#3d444d", "grey": "#8b949e",
             "blue": "#58a6ff", "red": "#ff7b72", "green": "#3fb950", "violet": "#bc8cff"},
}  # fmt: skip
#: what stands for these colours while it is drawn
PENS = {name: f"#{number + 1:02x}00fe" for number, name in enumerate(SCHEMES["light"])}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 11, "text.color": PENS["ink"],
    "axes.edgecolor": PENS["rule"], "axes.labelcolor": PENS["muted"], "axes.titlecolor": PENS["ink"],
    "axes.titlesize": 11.5, "axes.titleweight": "bold", "axes.spines.top": False, "axes.spines.right": False,
    "xtick.color": PENS["rule"], "ytick.color": PENS["rule"], "xtick.labelcolor": PENS["muted"],
    "ytick.labelcolor": PENS["muted"], "axes.grid": True, "grid.color": PENS["rule"], "grid.linewidth": 0.6,
    "axes.axisbelow": True, "lines.linewidth": 2, "legend.frameon": False, "figure.facecolor": "none",
    "axes.facecolor": "none", "savefig.facecolor": "none",
}  # fmt: skip
FONTS = "-apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"


def drawing(figure: Figure, name: str) -> str:
    """The figure as SVG, in the stand-in colours; the same figure is the same text."""
    buffer = io.StringIO()
    with rc_context(STYLE | {"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = buffer.getvalue()
    return re.sub(
        r"(font: [^;\"]*?)'?(?:DejaVu Sans|sans-serif)'?[^;\"]*", rf"\g<1>{FONTS}", text[text.index("<svg") :]
    )


def save(figure: Figure, path: Path) -> None:
    """One file for light and dark: it follows the page that it is in."""
    text = drawing(figure, path.stem)
    rules = {
        scheme: "".join(f"--{pen}:{colour};" for pen, colour in colours.items()) for scheme, colours in SCHEMES.items()
    }
    style = f"<style>svg{{{rules['light']}}}@media(prefers-color-scheme:dark){{svg{{{rules['dark']}}}}}</style>"
    for pen, stand_in in PENS.items():
        text = text.replace(stand_in, f"var(--{pen})")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(re.sub(r"(<svg[^>]*>)", rf"\1{style}", text, count=1))
