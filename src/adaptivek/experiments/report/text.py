"""The table as text: names for readers, CSV and markdown. Text from records is untrusted and made harmless here."""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Sequence

from ...methods import METHODS, needs, passes
from ...support.files import harmless, plain
from ..store import Result
from .claims import PAPER_SETTINGS, counted, counted_of_default
from .names import NAMES, named
from .tables import Failure, Measure, Row, Setting, Stat, all_methods, alone, current, median_gap_closed, method_of

MEASURES: dict[Measure, str] = {"last": "last epoch", "best": "best epoch, chosen on the test set (the paper's way)"}
COLUMNS = (
    "dataset", "noise", "noise_rate", "variant", "method", "seeds", "failed", "missing_seeds", "last_mean", "last_std",
    "best_on_test_mean", "best_on_test_std", "below_oracle", "gap_closed", "noise_ratio_true", "noise_ratio_estimated",
    "noise_ratio_estimated_std",
)  # fmt: skip
NEEDS = ("needs beyond plain training", "forwards per step", "backwards per step")
LONGEST = 300  # characters of a failure that are shown


def setting_name(setting: Setting) -> str:
    variant = f", {setting.variant}" if setting.variant else ""
    return plain(f"{named(setting.dataset)}, {setting.noise} {rate_name(setting.rate)}{variant}")


def rate_name(rate: float) -> str:
    return f"{round(100 * rate, 2):g} %"


def reason(failure: Failure) -> str:
    text = plain(failure.reason)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def percent(value: float) -> str:
    return f"{100 * value:.2f}" if math.isfinite(value) else "not a number"


def accuracy(stat: Stat) -> str:
    """Percent, with the spread where there is more than one seed."""
    return percent(stat.mean) if math.isnan(stat.std) else f"{percent(stat.mean)} ± {percent(stat.std)}"


def short(stat: Stat) -> str:
    """The same for a narrow place."""
    spread = "" if math.isnan(stat.std) else f"±{100 * stat.std:.1f}"
    return f"{100 * stat.mean:.1f}{spread}"


def share(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.0f} %"


def seeds(row: Row) -> str:
    numbers = sorted({len(cell.results) for cell in row.cells.values()})
    return " to ".join(str(number) for number in dict.fromkeys((numbers[0], numbers[-1])))


def gaps(table: Sequence[Row]) -> list[str]:
    """A line for each method of a setting that lacks seeds which other runs of the data set have."""
    lines = []
    for row in table:
        for method, cell in row.cells.items():
            if cell.missing:
                which = "no seed finished" if not cell.results else f"missing seed {', '.join(map(str, cell.missing))}"
                failed = f" ({cell.failed} failed)" if cell.failed else ""
                lines.append(f"{setting_name(row.setting)}, {named(method)}: {which}{failed}")
    return lines


def notes(results: Sequence[Result], others: Sequence[str] = ()) -> list[str]:
    """A line for each method that is not as it is here, and for each file that is no result to this version."""
    taken = {result.identity for result in current(results)}
    columns: dict[tuple[str, bool], list[Result]] = {}
    for result in results:
        if result.apart:
            columns.setdefault((method_of(result), result.identity in taken), []).append(result)
    lines = []
    for (column, shown), found in sorted(columns.items()):
        number = f"{len(found)} result{'s' if len(found) > 1 else ''}"
        if not shown:
            why = f"{number} of the method as it was, for which there is a newer one"
        elif METHODS.get(found[0].ran.name) is None:
            why = f"{number} of a method that this version does not have: one of your own needs --import"
        else:
            here = f"here it has revision {METHODS[found[0].ran.name].revision}"
            why = f"{number} of the method as it was; {here}, and `adaptivek bench` does the runs again"
        lines.append(f"{named(column)}: {why}")
    return lines + [plain(line) for line in others]


def own_data(table: Sequence[Row]) -> str:
    """What one must know of results on data that is no benchmark: nobody knows which of its labels are clean."""
    found = list(dict.fromkeys(named(row.setting.dataset) for row in table if row.setting.dataset not in NAMES))
    if not found:
        return ""
    return (
        f"Data of your own ({', '.join(found)}): its labels are taken as clean. The noise comes on top of what noise "
        "they have already, and the test labels are as noisy as yours. So it is the differences between methods "
        "that tell something, not the accuracies themselves."
    )


def to_csv(table: Sequence[Row]) -> str:
    """A line for each method of each setting; numbers in full."""
    buffer = io.StringIO()
    write = csv.writer(buffer, lineterminator="\n").writerow
    write(COLUMNS)
    for row in table:
        for method, cell in row.cells.items():
            setting, estimate = row.setting, cell.estimate or Stat(math.nan, math.nan, 0)
            names = (_csv(setting.dataset), setting.noise, f"{setting.rate:g}", _csv(setting.variant), _csv(method))
            counts = (len(cell.results), cell.failed, " ".join(map(str, cell.missing)))
            accuracies = (*cell.last[:2], *cell.best[:2], row.distance(method, "last"), row.gap_closed(method, "last"))
            write([*names, *counts, *map(_number, (*accuracies, cell.truth.mean, *estimate[:2]))])
    return buffer.getvalue()


def markdown(table: Sequence[Row], failed: Sequence[Failure] = (), others: Sequence[str] = ()) -> str:
    """The claims and both tables, for a document; ``others`` are the lines of `notes`."""
    sections = [text for text in (_md(own_data(table)), _claims_markdown(table)) if text]
    sections.append(f"### What the methods need\n\n{_needs_markdown(table)}")
    for measure, title in MEASURES.items():
        sections.append(f"### Test accuracy, {title}\n\n{_accuracy_markdown(table, measure)}")
    sections.append(
        f"### Share of the gap between Vanilla and Oracle that is closed, last epoch\n\n{_gap_markdown(table)}"
    )
    estimates = _estimates_markdown(table)
    if estimates:
        sections.append(f"### Noise ratio, true and estimated, last epoch\n\n{estimates}")
    lines = [f"- {_md(line)}" for line in gaps(table)]
    lines += [f"- failed: {_md(run_name(each))}: {_md(reason(each))}" for each in failed]
    if lines:
        sections.append("### Missing and failed\n\n" + "\n".join(lines))
    if others:
        sections.append("### Not of this version\n\n" + "\n".join(f"- {_md(line)}" for line in others))
    return "\n\n".join(sections) + "\n"


def run_name(failure: Failure) -> str:
    spec = failure.spec
    setting = Setting(spec.dataset, spec.noise, spec.noise_rate)
    return f"{setting_name(setting)}, {named(failure.column)}, seed {spec.seed}"


def _claims_markdown(table: Sequence[Row]) -> str:
    lines = [["claim", "last epoch", "best epoch on the test set", "the paper"]]
    for last, best in [*counted(table), *counted_of_default(table)]:
        counts = (f"{each.holds} of {each.settings}" for each in (last, best))
        lines.append([last.text, *counts, "-" if not last.paper else f"{last.paper} of {PAPER_SETTINGS}"])
    return _markdown_table(lines, "lrrr") if len(lines) > 1 else ""


def needed(method: str) -> tuple[str, str, str]:
    """What a method needs beyond plain training, and its forward and backward passes per step."""
    kind = METHODS.get(alone(method).partition(":")[0])
    if kind is None:
        return "not known here", "-", "-"
    forwards, backwards = passes(kind)
    return ", ".join(needs(kind)) or "nothing", str(forwards), str(backwards)


def _needs_markdown(table: Sequence[Row]) -> str:
    lines = [["method", *NEEDS]] + [[_md(named(each)), *needed(each)] for each in all_methods(table)]
    return _markdown_table(lines, "llrr")


def _accuracy_markdown(table: Sequence[Row], measure: Measure) -> str:
    methods = all_methods(table)
    lines = [["data set", "noise", "rate", "seeds", *(_md(named(each)) for each in methods)]]
    for row in table:
        winners = row.winners(measure)
        cells = []
        for method in methods:
            text = accuracy(row.stat(method, measure)) if row.has(method) else "-"
            cells.append(f"**{text}**" if method in winners else text)
        lines.append([*_setting_cells(row.setting), seeds(row), *cells])
    return _markdown_table(lines, "llr" + "r" * (1 + len(methods)))


def _gap_markdown(table: Sequence[Row]) -> str:
    methods = [method for method in all_methods(table) if method not in ("oracle", "vanilla")]
    lines = [["data set", "noise", "rate", *(_md(named(each)) for each in methods)]]
    for row in table:
        if row.setting.rate > 0:
            lines.append([*_setting_cells(row.setting), *(share(row.gap_closed(each, "last")) for each in methods)])
    lines.append(["median", "", "", *(share(median_gap_closed(table, each, "last")) for each in methods)])
    return _markdown_table(lines, "llr" + "r" * len(methods))


def _estimates_markdown(table: Sequence[Row]) -> str:
    lines = [["data set", "noise", "rate", "method", "true", "estimated"]]
    for row in table:
        for method, cell in row.cells.items():
            if cell.estimate is not None:
                values = f"{cell.truth.mean:.3f}", ratio(cell.estimate)
                lines.append([*_setting_cells(row.setting), _md(named(method)), *values])
    return _markdown_table(lines, "llrlrr") if len(lines) > 1 else ""


def ratio(stat: Stat) -> str:
    return f"{stat.mean:.3f}" if math.isnan(stat.std) else f"{stat.mean:.3f} ± {stat.std:.3f}"


def _setting_cells(setting: Setting) -> list[str]:
    variant = f" ({plain(setting.variant)})" if setting.variant else ""
    return [_md(f"{named(setting.dataset)}{variant}"), setting.noise, f"{setting.rate:g}"]


def _markdown_table(lines: list[list[str]], sides: str) -> str:
    dashes = ["---:" if side == "r" else "---" for side in sides]
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], dashes, *lines[1:]))


def _md(text: str) -> str:
    return re.sub(r"([\\`*_\[\]|~$])", r"\\\1", html.escape(text, quote=False))


def _csv(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    return harmless(plain(text))


def _number(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.6g}"
