"""The figures: overview, accuracy over training, and (a) to (e) of the paper. Each function draws one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from ..records import BINS, REACH, EpochRecord
from ..store import Result
from ..theory.fit import EpochFit
from . import drawing as draw
from .drawing import CLEAN, INK, METHOD_COLOURS, MUTED, NARROW, NOISY, SHADES, WIDE, Key, Panel, Picture
from .tables import ADAPTIVE_K, MKL, PAPER_DATASETS, VANILLA, Row, Setting
from .text import named, setting_name

SMOOTH = 9  # mini-batches in a moving mean
SEEDS = "The line is the mean over seeds, the band reaches from the lowest to the highest."


def choose(table: Sequence[Row], rate: float, *methods: str) -> Row | None:
    """The setting of the paper's figure, or the one most like it that has these methods."""
    found = [row for row in table if row.has(*methods) and row.setting.rate > 0]

    def unlike(row: Row) -> tuple[bool, bool, float]:
        setting = row.setting
        return setting.dataset != PAPER_DATASETS[0], setting.noise != "directed", round(abs(setting.rate - rate), 6)

    return min(found, key=unlike, default=None)


def panels_of(table: Sequence[Row]) -> dict[Setting, list[Row]]:
    """Rows that differ in nothing but the noise rate, by the setting of the first."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in table:
        groups.setdefault((row.setting.dataset, row.setting.noise, row.setting.variant), []).append(row)
    return {rows[0].setting: sorted(rows, key=lambda row: row.setting.rate) for rows in groups.values()}


def overview(table: Sequence[Row], methods: Sequence[str]) -> Picture:
    """Accuracy against noise rate."""
    panels = []
    for number, (setting, rows) in enumerate(panels_of(table).items()):
        figure, axes = draw.panel(NARROW, "share of wrong labels", "test accuracy, last epoch", left=0.62)
        for method in methods:
            points = [(row.setting.rate, row.stat(method, "last")) for row in rows if row.has(method)]
            slot = draw.method_slot(methods, method)
            axes.errorbar(
                [rate for rate, _ in points], [stat.mean for _, stat in points],
                [0 if math.isnan(stat.std) else stat.std for _, stat in points],
                color=METHOD_COLOURS[slot], linestyle=_dashes(slot), marker=draw.MARKERS[slot], markersize=4.5,
                elinewidth=1,
            )  # fmt: skip
        axes.set_xticks([row.setting.rate for row in rows])
        axes.margins(x=0.08)
        draw.percents(axes, "xy")
        panels.append(Panel(_heading(setting), draw.svg(figure, f"overview{number}", "accuracy against noise rate")))
    reading = "Test accuracy at the last epoch, mean ± standard deviation over seeds. Flat and high is robust."
    return Picture("overview", "Accuracy against noise", reading, method_keys(methods, methods, marked=True), tuple(panels))


def accuracies(table: Sequence[Row], methods: Sequence[str]) -> Picture:
    """Accuracy over training, at the highest noise rate of each data set."""
    panels = []
    for number, rows in enumerate(panels_of(table).values()):
        row = rows[-1]
        figure, axes = draw.panel(NARROW, "epoch", "test accuracy", left=0.62)
        for method in methods:
            if row.has(method):
                slot = draw.method_slot(methods, method)
                _curve(axes, row.cells[method].results, "test_accuracy", METHOD_COLOURS[slot], _dashes(slot))
        _warmup(axes, row)
        draw.percents(axes)
        panels.append(Panel(setting_name(row.setting), draw.svg(figure, f"accuracy{number}", "accuracy per epoch")))
    reading = f"Each data set at its highest noise rate. A curve that falls late has learned the wrong labels. {SEEDS}"
    keys = (*method_keys(methods, methods), Key("plain training of methods that start late", "muted", ""))
    return Picture("accuracy", "Accuracy over training", reading, keys, tuple(panels))


def selection_quality(row: Row, methods: Sequence[str]) -> Picture:
    """(a) Precision and recall per epoch."""
    shown = [method for method in (ADAPTIVE_K, MKL) if row.has(method)]
    panels = []
    parts = (
        ("precision", "Precision: how much of what is kept is clean", "clean among the kept"),
        ("recall", "Recall: how much of the clean is kept", "kept among the clean"),
    )
    for name, title, axis in parts:
        figure, axes = draw.panel(WIDE, "epoch", axis, left=0.62)
        for method in shown:
            slot = draw.method_slot(methods, method)
            _curve(axes, row.cells[method].results, name, METHOD_COLOURS[slot], _dashes(slot))
        if name == "precision":
            clean = 1 - row.cells[shown[0]].truth.mean
            axes.axhline(clean, color=MUTED, linestyle=":", linewidth=1.2)
        axes.set_ylim(None, 1.01)
        _warmup(axes, row)
        draw.percents(axes)
        panels.append(Panel(title, draw.svg(figure, f"quality-{name}", f"{name} per epoch")))
    keys = (
        *method_keys(methods, shown), Key("clean share of the data: keeping at random", "muted", ":"),
        Key("plain training", "muted", ""),
    )  # fmt: skip
    title = f"(a) Who is kept: precision and recall, {setting_name(row.setting)}"
    return Picture("quality", title, f"Averaged over the mini-batches of an epoch. {SEEDS}", keys, tuple(panels), True)


def batches(row: Row, methods: Sequence[str]) -> Picture:
    """(b) Clean share of each mini-batch against the share kept."""
    shown = [method for method in (ADAPTIVE_K, MKL) if row.has(method)]
    panels = []
    for method in shown:
        colour = METHOD_COLOURS[draw.method_slot(methods, method)]
        details = [result.details[-1] for result in row.cells[method].results if result.details]
        if not details:
            continue
        first = details[0]
        figure, axes = draw.panel(WIDE, "mini-batch of the last epoch", "share of the mini-batch", left=0.62)
        steps = range(1, len(first.clean_share) + 1)
        for values, ink, line in ((first.clean_share, INK, "--"), (first.kept_share, colour, "-")):
            axes.plot(steps, values, ".", color=ink, alpha=0.3, markersize=3)
            axes.plot(steps, _moving_mean(values), color=ink, linestyle=line)
        axes.set_ylim(-0.02, 1.02)
        draw.whole_numbers(axes)
        draw.percents(axes)
        about = "share kept and clean share over mini-batches"
        panels.append(Panel(f"{named(method)}, one seed", draw.svg(figure, f"batches-{len(panels)}", about)))
        panels.append(_kept_against_clean(method, details, colour, f"batches-{len(panels)}"))
    keys = (Key("truly clean", "ink", "--"), *method_keys(methods, shown))
    reading = (
        "The share of a mini-batch that is truly clean changes by chance. A method that sees it follows it; one "
        f"with a fixed k cannot. Left: dots are mini-batches, lines a moving mean over {SMOOTH}. Right: the same "
        "mini-batches, all seeds; the larger a dot, the more of them. On the dashed line as many are kept as are clean."
    )
    title = f"(b) Mini-batch by mini-batch, {setting_name(row.setting)}"
    return Picture("batches", title, reading, keys, tuple(panels), True)


def losses(row: Row) -> Picture:
    """(c) Mean and spread of clean and of noisy losses over training, with the threshold."""
    panels = []
    for method in (ADAPTIVE_K, VANILLA):
        if not row.has(method):
            continue
        figure, axes = draw.panel(WIDE, "epoch", "loss")
        results = row.cells[method].results
        epochs = _epochs(results)
        for kind, colour in (("clean", CLEAN), ("noisy", NOISY)):
            mean, std = (_mean_curve(results, f"{kind}_loss_{part}") for part in ("mean", "std"))
            low = [max(0, centre - 1.5 * width) for centre, width in zip(mean, std, strict=True)]
            high = [centre + 1.5 * width for centre, width in zip(mean, std, strict=True)]
            axes.fill_between(epochs, low, high, color=colour, alpha=0.18, linewidth=0)
            axes.plot(epochs, mean, color=colour, linestyle="-" if kind == "clean" else "-.")
        cut = _mean_curve(results, "threshold")
        axes.plot(epochs, cut, color=INK, linestyle="--")
        axes.set_ylim(0, None)
        _warmup(axes, row)
        draw.whole_numbers(axes)
        panels.append(Panel(named(method), draw.svg(figure, f"losses-{len(panels)}", "losses per epoch")))
    keys = (
        Key("clean labels", "clean"), Key("wrong labels", "noisy", "-."),
        Key("threshold: what is below is kept", "ink", "--"), Key("plain training", "muted", ""),
    )  # fmt: skip
    reading = "Mean loss over the samples of each kind; the band is ± 1.5 standard deviations, cut at 0. Mean over seeds."
    return Picture(
        "losses", f"(c) Losses and the threshold, {setting_name(row.setting)}", reading, keys, tuple(panels), True
    )


def kept_shares(table: Sequence[Row]) -> Picture:
    """(d) The share kept per epoch for each noise rate, against the truth."""
    panels = []
    for number, (setting, rows) in enumerate(panels_of(table).items()):
        rows = [row for row in rows if row.has(ADAPTIVE_K)]
        if not rows:
            continue
        figure, axes = draw.panel(NARROW, "epoch", "share kept", left=0.62)
        for place, row in enumerate(rows):
            colour = SHADES[round(place * (len(SHADES) - 1) / max(len(rows) - 1, 1))]
            results = row.cells[ADAPTIVE_K].results
            clean = 1 - row.cells[ADAPTIVE_K].truth.mean
            axes.axhline(clean, color=colour, linestyle="--", linewidth=1.1)
            _curve(axes, results, "kept_share", colour)
            axes.annotate(
                f"{row.setting.rate:.0%}", (1, clean), (3, 0), xycoords=("axes fraction", "data"),
                textcoords="offset points", va="center", fontsize=8.5, color=colour,
            )  # fmt: skip
        position = axes.get_position()
        axes.set_position((position.x0, position.y0, position.width - 0.06, position.height))
        _warmup(axes, rows[-1])
        draw.percents(axes)
        panels.append(Panel(_heading(setting), draw.svg(figure, f"kept{number}", "share kept per epoch")))
    keys = (
        Key("share that Adaptive-k keeps", "shade-3"), Key("truly clean share, noise rate beside it", "shade-3", "--"),
        Key("plain training", "muted", ""),
    )  # fmt: skip
    reading = f"After plain training, a solid line on its dashed one has found the noise ratio. {SEEDS}"
    return Picture("kept", "(d) The share kept, for each noise rate", reading, keys, tuple(panels))


def histograms(row: Row) -> Picture:
    """(e) Clean and noisy losses at stages of training."""
    panels = []
    edges = [REACH * number / BINS for number in range(BINS + 1)]
    stages = sorted({detail.epoch for result in row.cells[ADAPTIVE_K].results for detail in result.details})
    for method in (ADAPTIVE_K, VANILLA):
        for epoch in stages if row.has(method) else ():
            results = row.cells[method].results
            details = [detail for result in results for detail in result.details if detail.epoch == epoch]
            clean, noisy = (
                [sum(column) for column in zip(*(getattr(detail, name) for detail in details), strict=True)]
                for name in ("clean_losses", "noisy_losses")
            )
            total = sum(clean) + sum(noisy) or 1
            figure, axes = draw.panel((2.9, 2.3), "loss", "share of samples", left=0.6)
            for counts, colour, line in ((clean, CLEAN, "-"), (noisy, NOISY, "-.")):
                heights = [count / total for count in counts]
                axes.stairs(heights, edges, color=colour, alpha=0.22, fill=True)
                axes.stairs(heights, edges, color=colour, linewidth=1.3, linestyle=line)
            cut = draw.average([_at(result, epoch).threshold for result in results])
            if math.isfinite(cut):
                axes.axvline(cut, color=INK, linestyle="--", linewidth=1.3)
            axes.set(yscale="log", ylim=(2e-4, 1), xlim=(0, REACH))
            axes.set_yticks((0.001, 0.01, 0.1, 1), labels=("0.1 %", "1 %", "10 %", "100 %"))
            axes.minorticks_off()
            title = f"{named(method)}, epoch {epoch}"
            panels.append(Panel(title, draw.svg(figure, f"histogram{len(panels)}", "histogram of losses")))
    keys = (Key("clean labels", "clean"), Key("wrong labels", "noisy", "-."), Key("threshold", "ink", "--"))
    reading = (
        "The upright scale is logarithmic. Apart, the two can be told by their loss; where the wrong labels have moved "
        "to the left they have been learned. Losses above the last bin are in it. All seeds together."
    )
    return Picture(
        "histograms", f"(e) Losses at stages of training, {setting_name(row.setting)}", reading, keys, tuple(panels)
    )


def noise_ratios(table: Sequence[Row], methods: Sequence[str]) -> Picture:
    """The noise ratio that methods with a threshold read, against the truth."""
    panels = []
    shown = [name for name in methods if any(row.has(name) and row.cells[name].estimate for row in table)]
    for number, (setting, rows) in enumerate(panels_of(table).items()):
        figure, axes = draw.panel(NARROW, "true share of wrong labels", "estimated share", left=0.62)
        top = 0.1
        for method in shown:
            cells = [row.cells[method] for row in rows if row.has(method)]
            points = [(cell.truth.mean, cell.estimate) for cell in cells if cell.estimate is not None]
            slot = draw.method_slot(methods, method)
            axes.errorbar(
                [truth for truth, _ in points], [stat.mean for _, stat in points],
                [0 if math.isnan(stat.std) else stat.std for _, stat in points],
                color=METHOD_COLOURS[slot], linestyle=_dashes(slot), marker=draw.MARKERS[slot], markersize=5,
                elinewidth=1,
            )  # fmt: skip
            top = max(top, *(max(truth, stat.mean) for truth, stat in points), 0) if points else top
        top = min(1.0, top * 1.12)
        axes.plot([0, 1], [0, 1], color=MUTED, linestyle="--", linewidth=1.2)
        axes.set(xlim=(0, top), ylim=(0, top))
        draw.percents(axes, "xy")
        panels.append(Panel(_heading(setting), draw.svg(figure, f"ratio{number}", "estimated against true noise ratio")))
    keys = (*method_keys(methods, shown, marked=True), Key("estimate = truth", "muted", "--"))
    reading = "The share that a method with a threshold leaves out at the last epoch is its estimate. Below the dashed line it finds too little noise, above it too much."
    return Picture("ratio", "True and estimated noise ratio", reading, keys, tuple(panels))


def theory(row: Row, fits: Sequence[EpochFit]) -> Picture:
    """Measured shares of a run, and those that two normals would give."""
    panels = []
    epochs = [fit.epoch for fit in fits]
    for name, title in (("kept_share", "Share kept"), ("precision", "Precision"), ("recall", "Recall")):
        figure, axes = draw.panel(NARROW, "epoch", "share", left=0.62)
        for side, colour, line in (("measured", METHOD_COLOURS[4], "-"), ("predicted", INK, "--")):
            axes.plot(epochs, [getattr(getattr(fit, side), name) for fit in fits], color=colour, linestyle=line)
        axes.set_ylim(None, 1.01)
        draw.whole_numbers(axes)
        draw.percents(axes)
        panels.append(Panel(title, draw.svg(figure, f"theory-{name}", f"{name}, measured and predicted")))
    keys = (Key("measured", "method-4"), Key("predicted", "ink", "--"))
    reading = (
        "The theory takes clean and noisy losses for two normal distributions. Given the mean and spread of both in "
        "each epoch, and the threshold, it predicts what is kept. Where the lines part, losses are not normal."
    )
    return Picture("theory", setting_name(row.setting), reading, keys, tuple(panels))


def method_keys(methods: Sequence[str], shown: Sequence[str], marked: bool = False) -> tuple[Key, ...]:
    slots = {name: draw.method_slot(methods, name) for name in shown}
    return tuple(
        Key(named(name), f"method-{slot}", _dashes(slot), draw.MARKERS[slot] if marked else "")
        for name, slot in slots.items()
    )


def _kept_against_clean(method: str, details: Sequence[object], colour: str, name: str) -> Panel:
    """Every mini-batch as a point; equal ones as one larger point."""
    figure, axes = draw.panel(WIDE, "truly clean share of a mini-batch", "share kept", left=0.62)
    counts: Counter[tuple[float, float]] = Counter()
    for detail in details:
        counts.update(zip(detail.clean_share, detail.kept_share, strict=True))  # type: ignore[attr-defined]
    most = max(counts.values())
    axes.plot([0, 1], [0, 1], color=INK, linestyle="--", linewidth=1.2)
    clean, kept = zip(*counts, strict=True)
    axes.scatter(clean, kept, [6 + 90 * number / most for number in counts.values()], color=colour, alpha=0.55)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    draw.percents(axes, "xy")
    return Panel(f"{named(method)}, all seeds", draw.svg(figure, name, "share kept against clean share"))


def _curve(axes: draw.Axes, results: Sequence[Result], name: str, colour: str, line: str = "-") -> None:
    curves = [[getattr(record, name) for record in result.epochs] for result in results]
    draw.band(axes, _epochs(results), curves, colour, line)
    draw.whole_numbers(axes)


def _mean_curve(results: Sequence[Result], name: str) -> list[float]:
    curves = [[getattr(record, name) for record in result.epochs] for result in results]
    return [draw.average(values) for values in zip(*curves, strict=True)]


def _epochs(results: Sequence[Result]) -> list[int]:
    return [record.epoch for record in results[0].epochs]


def _at(result: Result, epoch: int) -> EpochRecord:
    return next(record for record in result.epochs if record.epoch == epoch)


def _warmup(axes: draw.Axes, row: Row) -> None:
    """Shade the epochs before a method that starts late selects."""
    cell = row.cells.get(ADAPTIVE_K)
    records = cell.results[0].epochs if cell is not None and cell.results else []
    plain = [record.epoch for record in records if not record.selecting]
    if plain and len(plain) < len(records):
        axes.axvspan(plain[0] - 0.5, plain[-1] + 0.5, color=MUTED, alpha=0.08, linewidth=0)
    if records:
        axes.set_xlim(records[0].epoch - 0.5, records[-1].epoch + 0.5)


def _moving_mean(values: Sequence[float]) -> list[float]:
    half = SMOOTH // 2
    return [draw.average(values[max(0, place - half) : place + half + 1]) for place in range(len(values))]


def _dashes(slot: int) -> str:
    return "--" if slot == 0 else "-"


def _heading(setting: Setting) -> str:
    """A setting without its rate."""
    variant = f", {setting.variant}" if setting.variant else ""
    return f"{named(setting.dataset)}, {setting.noise} noise{variant}"
