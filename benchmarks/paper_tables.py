"""The tables of docs/results.md, from what is stored; `python benchmarks/paper.py docs` prints them into the page.

A table stands between two marks, `<!-- NAME -->` and `<!-- end NAME -->`. What is between them is replaced.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from measurements import stand_ins

from adaptivek.experiments.report.claims import PAPER_SETTINGS, counted, paper_settings
from adaptivek.experiments.report.names import named
from adaptivek.experiments.report.paper import paper_figures
from adaptivek.experiments.report.tables import (
    ADAPTIVE_K,
    VANILLA,
    Row,
    current,
    failures,
    finished,
    median_gap_closed,
    rows,
)
from adaptivek.experiments.report.text import accuracy, gaps, markdown, rate_name, share
from adaptivek.experiments.spec import PAPER_DATASETS, PAPER_METHODS, RECIPES
from adaptivek.experiments.store import Result

ASKED = 420  # runs of the paper's
OWN = ("label-agreement", "label-posterior", "label-memory")  # the default, and those before it
LATE = ("vanilla+mkl", "adaptive-k")
SECTION = re.compile(r"### (.*?)\n\n(.*?)(?=\n\n### |\Z)", re.DOTALL)


def status(results: Sequence[Result]) -> str:
    """What there is, and by which versions on which machines."""
    done = [result for result in current(results) if finished(result)]
    table = rows(results)
    paper = [result for result in done if result.spec.method in PAPER_METHODS]
    seeds = {
        dataset: sorted({number for row in table if row.setting.dataset == dataset for number in _seeds(row)})
        for dataset in PAPER_DATASETS
    }
    numbers = ", ".join(
        f"{named(dataset)} {' to '.join(str(each) for each in dict.fromkeys((found[0], found[-1])))}"
        for dataset, found in seeds.items()
        if found
    )
    made = Counter(str(result.provenance) for result in done)
    return (
        f"{paper_settings(table)} of {PAPER_SETTINGS} settings with all five methods: {len(paper)} of {ASKED} runs, "
        f"and {len(done) - len(paper)} of methods that the paper does not have. Seeds: {numbers}. Made by: "
        + "; ".join(f"{version} ({number} runs)" for version, number in sorted(made.items()))
        + "."
        + _earlier(done)
    )


def _earlier(done: Sequence[Result]) -> str:
    """Of which data sets runs have another recipe than today's."""
    number = Counter(result.spec.dataset for result in done if result.spec.recipe != RECIPES[result.spec.dataset])
    told = ", ".join(f"{named(dataset)} ({number[dataset]})" for dataset in PAPER_DATASETS if number[dataset])
    return f" **Still with an earlier recipe, to be run again: {told}.**" if told else ""


def standing_in(results: Sequence[Result]) -> str:
    """Which methods are shown by results of an earlier revision."""
    found = Counter((result.spec.method, result.ran.revision) for result in stand_ins(results))
    told = ", ".join(f"{named(name)}: revision {number}, {runs} runs" for (name, number), runs in found.items())
    return f" **Of the revision of a method before today's: {told}.**" if told else ""


def _seeds(row: Row) -> list[int]:
    return [len(cell.results) for method, cell in row.cells.items() if method in PAPER_METHODS]


def claims(results: Sequence[Result]) -> str:
    lines = [["claim", "last epoch", "best epoch on the test set", "the paper"]]
    table = rows(results)
    for method in (ADAPTIVE_K, *OWN):
        for last, best in counted(table, method, named(method)):
            counts = (f"{each.holds} of {each.settings}" for each in (last, best))
            lines.append([last.text, *counts, f"{last.paper} of {PAPER_SETTINGS}" if method == ADAPTIVE_K else "-"])
    return _table(lines, "lrrr")


def by_dataset(results: Sequence[Result]) -> str:
    """Where Adaptive-k holds what the paper claims, and how far off its noise ratio is."""
    header = [
        "Adaptive-k",
        "beats Vanilla",
        "beats MKL",
        "closest to Oracle",
        "best epoch is Vanilla's own",
        "noise ratio off",
    ]
    lines, table = [header], [row for row in rows(results) if row.setting.rate > 0]
    for dataset in PAPER_DATASETS:
        mine = [row for row in table if row.setting.dataset == dataset and row.has(ADAPTIVE_K)]
        if not mine:
            continue
        counts = [f"{last.holds} of {last.settings}" for last, _ in counted(mine)]
        ties = sum(
            row.stat(ADAPTIVE_K, "best").mean == row.stat(VANILLA, "best").mean for row in mine if row.has(VANILLA)
        )
        cells = [row.cells[ADAPTIVE_K] for row in mine]
        off = [100 * (cell.estimate.mean - cell.truth.mean) for cell in cells if cell.estimate is not None]
        told = f"{min(off):+.1f} to {max(off):+.1f}" if off else "-"
        lines.append([named(dataset), *counts, *["-"] * (3 - len(counts)), f"{ties} of {len(mine)}", told])
    return _table(lines, "lrrrrr")


def figures(results: Sequence[Result]) -> str:
    """On which data sets these results agree with what the paper reads from its figures."""
    lines = [["figure", "what the paper reads from it", "agrees", "on"]]
    for figure in paper_figures(rows(results)):
        agree = [setting.partition(",")[0] for setting, verdict in figure.found if verdict.agrees]
        lines.append([figure.title, figure.claim, f"{len(agree)} of {len(figure.found)}", ", ".join(agree) or "-"])
    return _table(lines, "llrl")


def plain(fixed: Sequence[Result], by_rule: Sequence[Result], peaks: dict[str, dict[float, int]]) -> str:
    """The plain phase of 30 in 80 parts against the rule's: accuracy at the last epoch."""
    table = {(row.setting.dataset, row.setting.rate): row for row in rows(fixed)}
    late = rows([each for each in by_rule if not each.spec.recipe.hold_out])
    lines = [["data set", "rate", "plain epochs: fixed, rule", *(f"{named(method)}: fixed, rule" for method in LATE)]]
    for row in late:
        dataset, rate = row.setting.dataset, row.setting.rate
        other = table.get((dataset, rate))
        if other is None or not peaks.get(dataset):
            continue
        epochs = f"{_recipe_warmup(other)}, {min(peaks[dataset].values())}"
        cells = []
        for method in LATE:
            both = (accuracy(each.stat(method, "last")) if each.has(method) else "-" for each in (other, row))
            cells.append(", ".join(both))
        lines.append([named(dataset), rate_name(rate), epochs, *cells])
    return _table(lines, "lrrrr") if len(lines) > 1 else "Not run yet."


def _recipe_warmup(row: Row) -> int:
    return next(cell.results[0].spec.recipe.warmup_epochs for cell in row.cells.values() if cell.results)


def tables(results: Sequence[Result]) -> dict[str, str]:
    """Those that `adaptivek report --markdown` has, by the mark of each."""
    found = dict(SECTION.findall(markdown(rows(results), failures(results))))
    names = {
        "accuracy-last": "Test accuracy, last epoch",
        "accuracy-best": "Test accuracy, best epoch, chosen on the test set (the paper's way)",
        "gap": "Share of the gap between Vanilla and Oracle that is closed, last epoch",
        "estimates": "Noise ratio, true and estimated, last epoch",
    }
    return {mark: found[title].strip() for mark, title in names.items()}


def summary(results: Sequence[Result]) -> str:
    """For each data set, the mean of its noise rates; and over all, the share of the gap that is closed."""
    table = [row for row in rows(results) if row.setting.rate > 0]
    methods = [name for name in (*PAPER_METHODS, *OWN, "elr") if any(row.has(name) for row in table)]
    lines = [["mean over the noise rates, last epoch", *map(named, methods)]]
    for dataset in PAPER_DATASETS:
        mine = [row for row in table if row.setting.dataset == dataset]
        if mine:
            lines.append([named(dataset), *(_mean(mine, method) for method in methods)])
    middle = [share(median_gap_closed(table, method, "last")) for method in methods]
    lines.append(["median share of the gap closed", *middle])
    return _table(lines, "l" + "r" * len(methods))


def _mean(mine: Sequence[Row], method: str) -> str:
    if not all(row.has(method) for row in mine):
        return "-"
    return f"{100 * sum(row.stat(method, 'last').mean for row in mine) / len(mine):.1f}"


def missing(results: Sequence[Result]) -> str:
    lines = [f"- {line}" for line in gaps(rows(results))]
    return "\n".join(lines) if lines else "Nothing: every method of a data set has all of its seeds."


def filled(page: str, texts: dict[str, str]) -> str:
    """The page with these texts between their marks. Raises what has no mark, or a mark no text."""
    marks = re.findall(r"<!-- ([\w-]+) -->\n", page)
    if sorted(marks) != sorted(texts):
        raise ValueError(f"paper_tables: marks must be {', '.join(sorted(texts))}; the page has {', '.join(marks)}")
    for name, text in texts.items():
        block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        page, number = block.subn(lambda found, text=text: f"{found[1]}\n{text}\n\n{found[2]}", page)
        if number != 1:
            raise ValueError(f"paper_tables: mark {name} must have one end, got {number}")
    return page


def refresh(path: Path, texts: dict[str, str]) -> bool:
    """Whether that has changed the page."""
    before = path.read_text(encoding="utf-8")
    after = filled(before, texts)
    path.write_text(after, encoding="utf-8")
    return after != before


def _table(lines: Sequence[Sequence[str]], sides: str) -> str:
    dashes = ["---:" if side == "r" else "---" for side in sides]
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], dashes, *lines[1:]))
