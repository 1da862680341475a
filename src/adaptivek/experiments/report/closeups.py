"""Figures (a), (b), (c) and (e) of the paper, and the theory's: a closer look at one setting."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...pages import drawing as draw
from ...pages.drawing import CLEAN, INK, METHOD_COLOURS, MUTED, NARROW, NOISY, WIDE, Key, Panel, Picture
from ..records import BINS, REACH, Detail, EpochRecord
from ..spec import PAPER_DATASETS
from ..store import Result
from .figures import SEEDS, curve, dashes, epochs_of, method_keys, method_slot, shade_warmup, size
from .names import named
from .tables import ADAPTIVE_K, DEFAULT, MKL, VANILLA, Row
from .text import setting_name

if TYPE_CHECKING:
    from ...theory.fit import EpochFit

SMOOTH = 9  # mini-batches in a moving mean


def choose(table: Sequence[Row], rate: float, *methods: str, wanted: Sequence[str] = ()) -> Row | None:
    """The setting of the paper's figure, or one most like it that has these methods and most of those ``wanted``."""
    found = [row for row in table if row.has(*methods) and row.setting.rate > 0]

    def unlike(row: Row) -> tuple[int, bool, bool, float]:
        setting, missing = row.setting, sum(not row.has(other) for other in wanted)
        away = round(abs(setting.rate - rate), 6)
        return missing, setting.dataset != PAPER_DATASETS[0], setting.noise != "directed", away

    return min(found, key=unlike, default=None)


def selection_quality(row: Row, methods: Sequence[str], mark: str = "") -> Picture:
    """(a) Precision and recall per epoch. ``mark`` keeps apart what is drawn several times, here and below."""
    shown = [method for method in (ADAPTIVE_K, MKL, DEFAULT) if row.has(method)]
    panels: list[Panel] = []
    records = [record for method in shown for result in row.cells[method].results for record in result.epochs]
    low = draw.lowest([value for record in records for value in (record.precision, record.recall)], default=0.0)
    shares = (
        ("precision", "Precision: how much of what is kept is clean", "clean among the kept"),
        ("recall", "Recall: how much of the clean is kept", "kept among the clean"),
    )
    for name, title, axis in shares:
        figure, axes = draw.panel(WIDE, "epoch", axis)
        for method in shown:
            slot = method_slot(methods, method)
            curve(axes, row.cells[method].results, name, METHOD_COLOURS[slot], dashes(slot))
        if name == "precision":
            clean = 1 - row.cells[shown[0]].truth.mean
            axes.axhline(clean, color=MUTED, linestyle=":", linewidth=1.2)
        axes.set_ylim(low - 0.03, 1.02)
        shade_warmup(axes, row)
        draw.percents(axes)
        panels.append(Panel(title, draw.svg(figure, f"quality{mark}-{name}", f"{name} per epoch")))
    keys = (
        *method_keys(methods, shown), Key("clean share of the data: keeping at random", "muted", ":"),
        Key("plain training", "muted", ""),
    )  # fmt: skip
    title = f"(a) Precision and recall of the clean labels, {setting_name(row.setting)}"
    reading = f"Averaged over the mini-batches of an epoch. {SEEDS}"
    if DEFAULT in shown:
        reading += f" {named(DEFAULT)} relabels: what it keeps is measured by its confidence in each label."
    return Picture("quality", title, reading, keys, tuple(panels), True)


def batches(row: Row, methods: Sequence[str], mark: str = "") -> Picture:
    """(b) Clean share of each mini-batch against the share kept."""
    shown = [method for method in (ADAPTIVE_K, MKL) if row.has(method)]
    panels: list[Panel] = []
    for method in shown:
        colour = METHOD_COLOURS[method_slot(methods, method)]
        details = [result.details[-1] for result in row.cells[method].results if result.details]
        if not details:
            continue
        first = details[0]
        figure, axes = draw.panel(WIDE, "mini-batch of the last epoch", "share of the mini-batch")
        steps = range(1, len(first.clean_share) + 1)
        for values, ink, line in ((first.clean_share, INK, "--"), (first.kept_share, colour, "-")):
            axes.plot(steps, values, ".", color=ink, alpha=0.3, markersize=3)
            axes.plot(steps, _moving_mean(values), color=ink, linestyle=line)
        axes.set_ylim(-0.02, 1.02)
        draw.whole_numbers(axes)
        draw.percents(axes)
        about = "share kept and clean share over mini-batches"
        panels.append(
            Panel(f"{named(method)} over the epoch, one seed", draw.svg(figure, f"batches{mark}-{len(panels)}", about))
        )
        panels.append(_kept_against_clean(method, details, colour, f"batches{mark}-{len(panels)}"))
    keys = (Key("truly clean", "ink", "--"), *method_keys(methods, shown))
    reading = (
        "The share of a mini-batch that is clean changes by chance. A method that sees it follows it; one "
        f"with a fixed k cannot. Over the epoch: dots are mini-batches, lines a moving mean over {SMOOTH}. Kept "
        "against clean: the larger a dot, the more mini-batches. On the dashed line as many are kept as are clean."
    )
    if row.has(DEFAULT):
        reading += f" {named(DEFAULT)} keeps all and relabels, so it has no panel here."
    title = f"(b) Share kept of each mini-batch, {setting_name(row.setting)}"
    return Picture("batches", title, reading, keys, tuple(panels), True)


def losses(row: Row, mark: str = "") -> Picture:
    """(c) Mean and spread of clean and of noisy losses over training, with the threshold."""
    panels: list[Panel] = []
    shown = [method for method in (ADAPTIVE_K, DEFAULT, VANILLA) if row.has(method)]
    top = draw.highest([_highest_loss(row.cells[method].results) for method in shown], default=1.0)
    for method in shown:
        figure, axes = draw.panel(size(len(shown)), "epoch", "loss", left=0.5)
        results = row.cells[method].results
        epochs = epochs_of(results)
        for kind, colour in (("clean", CLEAN), ("noisy", NOISY)):
            mean, std = (_mean_curve(results, f"{kind}_loss_{which}") for which in ("mean", "std"))
            low = [max(0, centre - 1.5 * width) for centre, width in zip(mean, std, strict=True)]
            high = [centre + 1.5 * width for centre, width in zip(mean, std, strict=True)]
            axes.fill_between(epochs, low, high, color=colour, alpha=0.18, linewidth=0)
            axes.plot(epochs, mean, color=colour, linestyle="-" if kind == "clean" else "-.")
        threshold = _mean_curve(results, "threshold")
        axes.plot(epochs, threshold, color=INK, linestyle="--")
        axes.set_ylim(0, 1.05 * max(top, 0.1))
        shade_warmup(axes, row, method)
        draw.whole_numbers(axes)
        panels.append(Panel(named(method), draw.svg(figure, f"losses{mark}-{len(panels)}", "losses per epoch")))
    keys = (
        Key("clean labels", "clean"), Key("noisy labels", "noisy", "-."),
        Key("threshold: what is below is kept", "ink", "--"), Key("plain training", "muted", ""),
    )  # fmt: skip
    reading = (
        "Mean loss over the samples of each kind; the band is ± 1.5 standard deviations, from 0 on. Mean over seeds."
    )
    title = f"(c) Losses and the threshold, {setting_name(row.setting)}"
    return Picture("losses", title, reading, keys, tuple(panels), len(panels) <= 2)


def histograms(row: Row, mark: str = "") -> Picture:
    """(e) Clean and noisy losses at stages of training."""
    panels: list[Panel] = []
    edges = [REACH * number / BINS for number in range(BINS + 1)]
    stages = sorted({detail.epoch for result in row.cells[ADAPTIVE_K].results for detail in result.details})
    for method in (ADAPTIVE_K, DEFAULT, VANILLA):
        for epoch in stages if row.has(method) else ():
            results = row.cells[method].results
            details = [detail for result in results for detail in result.details if detail.epoch == epoch]
            clean, noisy = (
                [sum(column) for column in zip(*(getattr(detail, name) for detail in details), strict=True)]
                for name in ("clean_losses", "noisy_losses")
            )
            total = sum(clean) + sum(noisy) or 1
            figure, axes = draw.panel((2.9, 2.3), "loss", "share of samples")
            for counts, colour in ((clean, CLEAN), (noisy, NOISY)):
                heights = [count / total for count in counts]
                axes.stairs(heights, edges, color=colour, alpha=0.22, fill=True)
                axes.stairs(heights, edges, color=colour, linewidth=1.3)
            threshold = draw.average([_at(result, epoch).threshold for result in results])
            if math.isfinite(threshold):
                axes.axvline(threshold, color=INK, linestyle="--", linewidth=1.3)
            axes.set(yscale="log", ylim=(2e-4, 1), xlim=(0, REACH))
            axes.set_yticks((0.001, 0.01, 0.1, 1), labels=("0.1 %", "1 %", "10 %", "100 %"))
            axes.set_xticks(range(0, int(REACH) + 1, 2))
            axes.minorticks_off()
            title = f"{named(method)}, epoch {epoch}"
            panels.append(Panel(title, draw.svg(figure, f"histogram{mark}{len(panels)}", "histogram of losses")))
    keys = (Key("clean labels", "clean"), Key("noisy labels", "noisy"), Key("threshold", "ink", "--"))
    reading = (
        "The upright scale is logarithmic. Where the two lie apart, the loss can separate them. Where the noisy labels "
        "have moved to the left, they have been memorised. Losses above the last bin are in it. All seeds together."
    )
    return Picture(
        "histograms", f"(e) Losses at stages of training, {setting_name(row.setting)}", reading, keys, tuple(panels)
    )


def theory(row: Row, fits: Sequence[EpochFit]) -> Picture:
    """Measured shares of a run, and those that two normals would give."""
    panels: list[Panel] = []
    epochs = [fit.epoch for fit in fits]
    shares = (
        ("kept_share", "Share kept", "kept"),
        ("precision", "Precision", "clean among the kept"),
        ("recall", "Recall", "kept among the clean"),
    )
    for name, title, axis in shares:
        figure, axes = draw.panel(NARROW, "epoch", axis)
        for side, colour, line in (("measured", METHOD_COLOURS[4], "-"), ("predicted", INK, "--")):
            axes.plot(epochs, [getattr(getattr(fit, side), name) for fit in fits], color=colour, linestyle=line)
        axes.set_ylim(None, 1.01)
        draw.whole_numbers(axes)
        draw.percents(axes)
        panels.append(Panel(title, draw.svg(figure, f"theory-{name}", f"{name}, measured and predicted")))
    keys = (Key("measured", "method-4"), Key("predicted", "ink", "--"))
    reading = (
        "The theory takes clean and noisy losses for two normal distributions. Given the mean and spread of both in "
        "each epoch, and the threshold, it predicts what is kept. Where the lines differ, losses are not normal."
    )
    title = f"{setting_name(row.setting)}, {named(ADAPTIVE_K)}, one seed"
    return Picture("theory", title, reading, keys, tuple(panels))


def _kept_against_clean(method: str, details: Sequence[Detail], colour: str, name: str) -> Panel:
    """Every mini-batch as a point; equal ones as one larger point."""
    figure, axes = draw.panel(WIDE, "truly clean share of a mini-batch", "share kept")
    counts: Counter[tuple[float, float]] = Counter()
    for detail in details:
        counts.update(zip(detail.clean_share, detail.kept_share, strict=True))
    most = max(counts.values())
    axes.plot([0, 1], [0, 1], color=INK, linestyle="--", linewidth=1.2)
    clean, kept = zip(*counts, strict=True)
    axes.scatter(clean, kept, [6 + 90 * number / most for number in counts.values()], color=colour, alpha=0.55)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    draw.percents(axes, "xy")
    return Panel(
        f"{named(method)}, kept against clean, all seeds", draw.svg(figure, name, "share kept against clean share")
    )


def _mean_curve(results: Sequence[Result], name: str) -> list[float]:
    curves = [[getattr(record, name) for record in result.epochs] for result in results]
    return [draw.average(values) for values in zip(*curves, strict=True)]


def _highest_loss(results: Sequence[Result]) -> float:
    """The top of the bands."""
    ends = [
        centre + 1.5 * width
        for kind in ("clean", "noisy")
        for centre, width in zip(
            *(_mean_curve(results, f"{kind}_loss_{which}") for which in ("mean", "std")), strict=True
        )
    ]
    return draw.highest(ends)


def _at(result: Result, epoch: int) -> EpochRecord:
    return next(record for record in result.epochs if record.epoch == epoch)


def _moving_mean(values: Sequence[float]) -> list[float]:
    half = SMOOTH // 2
    return [draw.average(values[max(0, place - half) : place + half + 1]) for place in range(len(values))]
