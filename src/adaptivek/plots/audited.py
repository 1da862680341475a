"""An audit as figures: the transition matrix, and the rows that look most suspicious."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..auditing.large.fetched import Fetched
from ..backend.checks import check_number
from ..support.images import read_image
from .style import AS_IT_IS, INK, MUTED, Axes, Figure, PowerNorm, axes_for, pyplot, short

if TYPE_CHECKING:
    from ..auditing.result import AuditResult

MOST_NUMBERS = 12  # classes up to which each cell has its number
MOST_NAMES = 40
NAME, TEXT = 24, 160  # characters of a class, and of a row


def transition_matrix(
    found: AuditResult | ArrayLike, *, classes: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Of each true class, the share of its rows with each label: 1 on the diagonal where labels are clean.

    Args:
        found: the result of an audit, or a (classes, classes) matrix [true, observed] whose rows add up to 1.
        classes: names, in order; those of the audit unless given.
        ax: where to draw.
    """
    shares = np.asarray(getattr(found, "transition", found), dtype=float)
    if shares.ndim != 2 or shares.shape[0] != shares.shape[1] or not shares.size:
        raise ValueError(f"transition_matrix: found must be an audit or a (K, K) matrix, got shape {shares.shape}")
    size = len(shares)
    names = list(getattr(found, "classes", range(size)) if classes is None else classes)
    if len(names) != size:
        raise ValueError(f"transition_matrix: classes must be {size} names, got {len(names)}")
    side = min(3.2 + 0.45 * size, 12.0)
    ax = axes_for(ax, (side + 1, side))
    ax.spines[:].set_visible(False)
    # the root: a small share off the diagonal is what one looks for
    image = ax.imshow(shares, cmap="Blues", norm=PowerNorm(0.5, 0, 1))
    if size <= MOST_NUMBERS:
        for (row, column), share in np.ndenumerate(shares):
            if np.isfinite(share):
                ink = "white" if share > 0.35 else INK
                ax.text(column, row, f"{share:.2f}".removeprefix("0"), ha="center", va="center", color=ink, size=9)
    if size <= MOST_NAMES:
        labels = [short(name, NAME) for name in names]
        turned: dict[str, Any] = {"rotation": 45, "ha": "right"} if max(map(len, labels)) > 4 else {}
        ax.set_xticks(range(size), labels, **turned, **AS_IT_IS)
        ax.set_yticks(range(size), labels, **AS_IT_IS)
    ax.tick_params(length=0)
    ax.set(xlabel="label", ylabel="true class", title="Transition matrix")
    ax.figure.colorbar(image, ax=ax, label="share of the true class", shrink=0.8)
    return ax


def suspicious(result: AuditResult, *, rows: int = 24, columns: int = 6) -> Figure:
    """The flagged rows with the lowest scores: images as a contact sheet, all else as a table.

    Args:
        result: of an audit of data that it still holds, as `adaptivek.audit` gives it.
        rows: how many, at most.
        columns: of a contact sheet.
    """
    check_number("suspicious", "rows", rows, 1, whole=True)
    check_number("suspicious", "columns", columns, 1, whole=True)
    flagged = np.flatnonzero(result.is_issue)
    places = flagged[np.argsort(result.score[flagged], kind="stable")][:rows]
    if not len(places):
        raise ValueError("suspicious: the audit must have flagged rows, got none: as far as it can tell, all are clean")
    if result.given is not None and result.given.kind == "image":
        return _contact_sheet(result, places, columns)
    return _table(result, places)


def _contact_sheet(result: AuditResult, places: NDArray[Any], columns: int) -> Figure:
    columns = min(columns, len(places))
    lines = -(-len(places) // columns)
    figure = pyplot.figure(figsize=(1.7 * columns, 2.25 * lines), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False).flatten()
    for axes in grid:
        axes.axis("off")
    for axes, place in zip(grid, places, strict=False):
        picture = read_image(result.given.content(int(place)))  # type: ignore[union-attr]
        axes.imshow(np.asarray(picture), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        label, other = _names(result, place)
        axes.set_title(f"{label}\n→ {other}", size=9, color=INK, **AS_IT_IS)
        about = f"row {result.row[place]}, score {result.score[place]:.2f}"
        axes.text(0.5, -0.04, about, size=7.5, color=MUTED, ha="center", va="top", transform=axes.transAxes)
    return figure


def _table(result: AuditResult, places: NDArray[Any]) -> Figure:
    content = None if result.given is None else result.given.content
    if isinstance(content, Fetched):
        content.read(places)
    texts = [short(_text(content, int(place)), TEXT) for place in places]
    wrapped = [textwrap.wrap(text, 70) or [""] for text in texts]
    heights = [0.12 + 0.17 * len(lines) for lines in wrapped]
    figure = pyplot.figure(figsize=(10.0, 0.5 + sum(heights)))
    ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    ax.axis("off")
    ax.set(xlim=(0, 10), ylim=(0.5 + sum(heights), 0))
    for x, head in ((0.15, "row"), (0.85, "score"), (1.5, "label"), (3.3, "suggested"), (5.1, "")):
        ax.text(x, 0.25, head, size=9, weight="bold", color=INK, va="center")
    y = 0.45
    for place, lines, height in zip(places, wrapped, heights, strict=True):
        ax.axhline(y, color=MUTED, linewidth=0.4)
        label, other = _names(result, place)
        cells = (0.15, str(result.row[place])), (0.85, f"{result.score[place]:.2f}"), (1.5, label), (3.3, f"→ {other}")
        for x, text in (*cells, (5.1, "\n".join(lines))):
            ax.text(x, y + height / 2, text, size=8.5, color=INK, va="center", **AS_IT_IS)
        y += height
    return figure


def _names(result: AuditResult, place: int) -> tuple[str, str]:
    codes = result.label[place], result.suggested_label[place]
    label, other = (short(result.classes[code], NAME) or "(empty)" for code in codes)
    return label, other


def _text(content: Any, place: int) -> str:
    """A row in a line: its text, or its columns."""
    if content is None:
        return ""
    row = content[place]
    return row if isinstance(row, str) else ", ".join(f"{name}={value}" for name, value in row.items())
