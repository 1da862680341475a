"""Training as figures: losses of what is kept and left out, the threshold and the noise ratio over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..training.history import History
from .style import INK, KEPT, LEFT_OUT, MUTED, Axes, Figure, axes_for, percents, pyplot

if TYPE_CHECKING:
    from ..experiments.records import EpochRecord

    #: a history, the folder of a run, or its records
    Source = History | str | Path | Sequence[EpochRecord]


class Line(NamedTuple):
    """One number over time."""

    name: str
    values: Sequence[float]
    colour: str
    dashes: str = "-"


def losses(history: History, *, ax: Axes | None = None, bins: int = 40) -> Axes:
    """Histogram of the recent losses of samples that were kept and of those left out, with the threshold.

    Where the two lie apart, the loss tells noisy labels from clean ones; where what is left out has low losses, either
    the method goes by something else or noisy labels have been memorised.
    """
    if not isinstance(history, History):
        raise TypeError(f"losses: history must be a History, which holds losses of samples, got {history!r}")
    kept, left_out = history.losses
    if not len(kept) + len(left_out):
        raise ValueError("losses: history must hold losses, got none: history(losses) after each step, see `every`")
    ax = axes_for(ax)
    top = max(float(part.max()) for part in (kept, left_out) if len(part))
    edges = np.linspace(0.0, max(top, 1e-6), bins + 1).tolist()
    for part, colour, name in ((kept, KEPT, "kept"), (left_out, LEFT_OUT, "left out or relabelled")):
        ax.hist(part.numpy(), edges, color=colour, alpha=0.6, label=f"{name} ({len(part):,})")
    threshold = history.values.get("threshold", [math.nan])[-1]
    if math.isfinite(threshold):
        ax.axvline(threshold, color=INK, linestyle="--", label=f"threshold ({threshold:.2f})")
    ax.set(xlabel="loss", ylabel="samples", title="Recent losses")
    ax.legend(frameon=False)
    return ax


def threshold(source: Source, *, ax: Axes | None = None) -> Axes:
    """The threshold over time, beside the mean loss of what is kept and of what is left out.

    Of a run that `adaptivek train` wrote: of the clean and of the noisy labels, for there these are known.
    """
    if isinstance(source, History):
        low, high = ("kept", "kept_loss"), ("left out or relabelled", "left_out_loss")
    else:
        low, high = ("clean labels", "clean_loss_mean"), ("noisy labels", "noisy_loss_mean")
    clock, x, columns = _columns(source, "threshold", low[1], high[1])
    lines = [
        Line(f"loss: {low[0]}", columns[low[1]], KEPT),
        Line(f"loss: {high[0]}", columns[high[1]], LEFT_OUT),
        Line("threshold", columns["threshold"], INK, "--"),
    ]
    ax = _draw(ax, clock, x, lines)
    ax.set(ylabel="loss", title="Threshold and mean losses")
    return ax


def noise_ratio(source: Source, *, ax: Axes | None = None) -> Axes:
    """The estimated noise ratio and the share left out over time; of a run of `adaptivek train` the true ratio too."""
    clock, x, columns = _columns(source, "noise_ratio", "kept_share", "true_noise_ratio")
    left_out = [1 - value for value in columns["kept_share"]]
    lines = [
        Line("left out", left_out, MUTED),
        Line("estimated noise ratio", columns["noise_ratio"], LEFT_OUT),
        Line("true noise ratio", columns["true_noise_ratio"], INK, "--"),
    ]
    ax = _draw(ax, clock, x, lines)
    percents(ax)
    ax.set_ylim(bottom=0)
    ax.set(ylabel="share of labels", title="Noise ratio")
    return ax


def overview(source: Source) -> Figure:
    """All of them side by side."""
    has_losses = isinstance(source, History) and any(map(len, source.losses))
    figure, panels = pyplot.subplots(1, 2 + has_losses, figsize=(5.2 * (2 + has_losses), 3.6), layout="constrained")
    noise_ratio(source, ax=panels[0])
    threshold(source, ax=panels[1])
    if has_losses:
        losses(source, ax=panels[2])  # type: ignore[arg-type]
    return figure


def _columns(source: Source, *names: str) -> tuple[str, list[int], dict[str, list[float]]]:
    """The clock's name, its values, and the numbers over time; NaN where the source does not know one."""
    if isinstance(source, History):
        unknown = [math.nan] * len(source.steps)
        clock, x, columns = "step", source.steps, {name: source.values.get(name, unknown) for name in names}
    else:
        if isinstance(source, (str, Path)):
            from ..experiments.records import read_records

            source = read_records(source)
        clock, x = "epoch", [record.epoch for record in source]
        columns = {name: [getattr(record, name) for record in source] for name in names}
    if not x:
        raise ValueError("plots: there must be something to draw, got a source without an entry")
    return clock, x, columns


def _draw(ax: Axes | None, clock: str, x: Sequence[int], lines: Sequence[Line]) -> Axes:
    """Lines that are known anywhere; short ones as points."""
    ax = axes_for(ax)
    for line in lines:
        if np.isfinite(line.values).any():
            mark = "o" if len(x) < 10 else ""
            ax.plot(x, line.values, color=line.colour, linestyle=line.dashes, marker=mark, ms=3.5, label=line.name)
    ax.set_xlabel(clock)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False)
    return ax
