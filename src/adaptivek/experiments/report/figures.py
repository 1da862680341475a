"""Figures over all settings, a panel for each data set and kind of noise. Each function draws one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...pages import drawing as draw
from ...pages.drawing import METHOD_COLOURS, MUTED, NARROW, SHADES, WIDE, Axes, Key, Panel, Picture
from ..spec import PAPER_METHODS
from ..store import Result
from .names import named
from .tables import ADAPTIVE_K, DEFAULT, Row, Setting, all_methods
from .text import rate_name, setting_name

SEEDS = "The line is the mean over seeds, the band reaches from the lowest to the highest."


def method_slot(methods: Sequence[str], method: str) -> int:
    """The paper's five have fixed colours; others get the next ones in order."""
    if method in PAPER_METHODS:
        return PAPER_METHODS.index(method)
    others = [name for name in methods if name not in PAPER_METHODS]
    return len(PAPER_METHODS) + others.index(method) % (len(METHOD_COLOURS) - len(PAPER_METHODS))


def overview(table: Sequence[Row], methods: Sequence[str]) -> Picture:
    """Accuracy against noise rate."""
    panels: list[Panel] = []
    groups = panels_of(table)
    for number, (setting, rows) in enumerate(groups.items()):
        figure, axes = draw.panel(size(len(groups)), "share of noisy labels", "test accuracy, last epoch")
        for method in methods:
            points = [(row.setting.rate, row.stat(method, "last")) for row in rows if row.has(method)]
            slot = method_slot(methods, method)
            axes.errorbar(
                [rate for rate, _ in points], [stat.mean for _, stat in points],
                [0 if math.isnan(stat.std) else stat.std for _, stat in points],
                color=METHOD_COLOURS[slot], linestyle=dashes(slot), marker=draw.MARKERS[slot], markersize=4.5,
                elinewidth=1,
            )  # fmt: skip
        axes.set_xticks([row.setting.rate for row in rows])
        axes.margins(x=0.08)
        draw.percents(axes, "xy")
        panels.append(Panel(_heading(setting), draw.svg(figure, f"overview{number}", "accuracy against noise rate")))
    reading = "Test accuracy at the last epoch, mean ± standard deviation over seeds. Flat and high is robust."
    number = len(all_methods(table))
    if number > len(methods):
        reading += (
            f" Of {number} methods, the paper's five, the default and the best of the others; the tables have all."
        )
    keys = method_keys(methods, methods, marked=True)
    return Picture("overview", "Accuracy against noise", reading, keys, tuple(panels), len(panels) <= 2)


def accuracies(table: Sequence[Row], methods: Sequence[str]) -> Picture:
    """Accuracy over training, at the highest noise rate of each data set."""
    panels: list[Panel] = []
    groups = panels_of(table)
    for number, rows in enumerate(groups.values()):
        row = rows[-1]
        figure, axes = draw.panel(size(len(groups)), "epoch", "test accuracy")
        for method in methods:
            if row.has(method):
                slot = method_slot(methods, method)
                curve(axes, row.cells[method].results, "test_accuracy", METHOD_COLOURS[slot], dashes(slot))
        shade_warmup(axes, row)
        axes.set_ylim(_lowest_after_the_start(row) - 0.03, None)
        draw.percents(axes)
        panels.append(Panel(setting_name(row.setting), draw.svg(figure, f"accuracy{number}", "accuracy per epoch")))
    reading = (
        f"Each data set at its highest noise rate. A curve that falls late has memorised the noisy labels. {SEEDS} "
        "The scale starts at the lowest accuracy after the first fifth of training."
    )
    keys = (*method_keys(methods, methods), Key("plain training of methods that start late", "muted", ""))
    return Picture("accuracy", "Accuracy over training", reading, keys, tuple(panels), len(panels) <= 2)


def kept_shares(table: Sequence[Row]) -> Picture:
    """(d) The share kept per epoch for each noise rate, against the truth."""
    panels: list[Panel] = []
    methods = [method for method in (ADAPTIVE_K, DEFAULT) if any(row.has(method) for row in table)]
    groups = [(method, panels_of([row for row in table if row.has(method)])) for method in methods]
    number = sum(len(found) for _, found in groups)
    for method, found in groups:
        for setting, rows in found.items():
            title = _heading(setting) + (f", {named(method)}" if len(methods) > 1 else "")
            panels.append(Panel(title, _kept(method, rows, size(number), f"kept{len(panels)}")))
    keys = (
        Key("share kept", "shade-3"), Key("truly clean share, noise rate beside it", "shade-3", "--"),
        Key("plain training", "muted", ""),
    )  # fmt: skip
    reading = f"After plain training, a solid line on its dashed one has found the noise ratio. {SEEDS}"
    if DEFAULT in methods:
        reading += f" {named(DEFAULT)} relabels: its share is its mean confidence in the labels."
    return Picture("kept", "(d) The share kept, for each noise rate", reading, keys, tuple(panels), number <= 2)


def _kept(method: str, rows: Sequence[Row], shape: tuple[float, float], name: str) -> str:
    figure, axes = draw.panel(shape, "epoch", "share kept")
    for place, row in enumerate(rows):
        colour = SHADES[round(place * (len(SHADES) - 1) / max(len(rows) - 1, 1))]
        results, clean = row.cells[method].results, 1 - row.cells[method].truth.mean
        axes.axhline(clean, color=colour, linestyle="--", linewidth=1.1)
        # while warming up there is no noise ratio, and everything is kept
        shares = [[record.kept_share if math.isnan(record.noise_ratio) else 1 - record.noise_ratio
                   for record in result.epochs] for result in results]  # fmt: skip
        draw.band(axes, epochs_of(results), shares, colour)
        axes.annotate(
            rate_name(row.setting.rate), (1, clean), (3, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", va="center", fontsize=8.5, color=colour,
        )  # fmt: skip
    draw.whole_numbers(axes)
    position = axes.get_position()
    axes.set_position((position.x0, position.y0, position.width - 0.4 / figure.get_figwidth(), position.height))
    shade_warmup(axes, rows[-1], method)
    draw.percents(axes)
    return draw.svg(figure, name, "share kept per epoch")


def noise_ratios(table: Sequence[Row], methods: Sequence[str]) -> Picture:
    """The noise ratio that methods find, against the truth."""
    panels: list[Panel] = []
    shown = [name for name in methods if any(row.has(name) and row.cells[name].estimate for row in table)]
    groups = panels_of(table)
    for number, (setting, rows) in enumerate(groups.items()):
        figure, axes = draw.panel(size(len(groups)), "true share of noisy labels", "estimated share")
        top = 0.1
        for method in shown:
            cells = [row.cells[method] for row in rows if row.has(method)]
            points = [(cell.truth.mean, cell.estimate) for cell in cells if cell.estimate is not None]
            slot = method_slot(methods, method)
            axes.errorbar(
                [truth for truth, _ in points], [stat.mean for _, stat in points],
                [0 if math.isnan(stat.std) else stat.std for _, stat in points],
                color=METHOD_COLOURS[slot], linestyle=dashes(slot), marker=draw.MARKERS[slot], markersize=5,
                elinewidth=1,
            )  # fmt: skip
            top = max(top, *(max(truth, stat.mean) for truth, stat in points), 0) if points else top
        top = min(1.0, top * 1.12)
        axes.plot([0, 1], [0, 1], color=MUTED, linestyle="--", linewidth=1.2)
        axes.set(xlim=(0, top), ylim=(0, top))
        draw.percents(axes, "xy")
        panels.append(
            Panel(_heading(setting), draw.svg(figure, f"ratio{number}", "estimated against true noise ratio"))
        )
    keys = (*method_keys(methods, shown, marked=True), Key("estimate = truth", "muted", "--"))
    reading = (
        "One minus the mean confidence of a method in the labels at the last epoch is its estimate; methods that are "
        "told the noise ratio have none. Below the dashed line it finds too little noise, above it too much."
    )
    return Picture("ratio", "True and estimated noise ratio", reading, keys, tuple(panels), len(panels) <= 2)


def panels_of(table: Sequence[Row]) -> dict[Setting, list[Row]]:
    """Rows that differ in nothing but the noise rate, by the setting of the first."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in table:
        groups.setdefault((row.setting.dataset, row.setting.noise, row.setting.variant), []).append(row)
    return {rows[0].setting: sorted(rows, key=lambda row: row.setting.rate) for rows in groups.values()}


def method_keys(methods: Sequence[str], shown: Sequence[str], marked: bool = False) -> tuple[Key, ...]:
    slots = {name: method_slot(methods, name) for name in shown}
    return tuple(
        Key(named(name), f"method-{slot}", dashes(slot), draw.MARKERS[slot] if marked else "")
        for name, slot in slots.items()
    )


def size(number: int) -> tuple[float, float]:
    """Two panels share the width of the page, more stand three in a row."""
    return WIDE if number <= 2 else NARROW


def curve(axes: Axes, results: Sequence[Result], name: str, colour: str, line: str = "-") -> None:
    curves = [[getattr(record, name) for record in result.epochs] for result in results]
    draw.band(axes, epochs_of(results), curves, colour, line)
    draw.whole_numbers(axes)


def epochs_of(results: Sequence[Result]) -> list[int]:
    return [record.epoch for record in results[0].epochs]


def shade_warmup(axes: Axes, row: Row, method: str = ADAPTIVE_K) -> None:
    """Shade the epochs before a method that starts late selects."""
    cell = row.cells.get(method)
    records = cell.results[0].epochs if cell is not None and cell.results else []
    plain = [record.epoch for record in records if not record.selecting]
    if plain and len(plain) < len(records):
        axes.axvspan(plain[0] - 0.5, plain[-1] + 0.5, color=MUTED, alpha=0.08, linewidth=0)
    if records:
        axes.set_xlim(records[0].epoch - 0.5, records[-1].epoch + 0.5)


def dashes(slot: int) -> str:
    return "--" if slot == 0 else "-"


def _lowest_after_the_start(row: Row) -> float:
    records = [result.epochs for cell in row.cells.values() for result in cell.results]
    return draw.lowest([record.test_accuracy for each in records for record in each[len(each) // 5 :]], default=0.0)


def _heading(setting: Setting) -> str:
    """A setting without its rate."""
    variant = f", {setting.variant}" if setting.variant else ""
    return f"{named(setting.dataset)}, {setting.noise} noise{variant}"
