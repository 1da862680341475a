"""The report as files: a page that needs nothing beside it, and the table as CSV and markdown."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ... import __version__
from ...pages.drawing import METHOD_COLOURS, Picture
from ...pages.render import render, shared_style
from ...support.files import make_folder, place, plain, write_whole
from ..spec import Recipe
from ..store import Result, Store
from . import closeups, figures
from .claims import PAPER_SETTINGS, counted, counted_of_default
from .names import named
from .tables import (
    ADAPTIVE_K,
    DEFAULT,
    MKL,
    ORACLE,
    VANILLA,
    Measure,
    Row,
    all_methods,
    current,
    dataset_order,
    failures,
    finished,
    foremost,
    median_gap_closed,
    rows,
)
from .text import (
    MEASURES,
    NEEDS,
    gaps,
    markdown,
    needed,
    notes,
    own_data,
    percent,
    rate_name,
    ratio,
    reason,
    run_name,
    seeds,
    setting_name,
    to_csv,
)
from .text import share as as_share

DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
HERE = Path(__file__).parent
#: points below Oracle, or above: closer than this has this shade of green, the strongest first
SHADES = (0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Entry:
    """A cell of a table on the page. Sorted by its value, which is empty where there is none."""

    text: str
    value: float | str = ""
    detail: str = ""
    look: str = ""
    best: bool = False
    bar: float | None = None  #: length of a bar below the text, from 0 to 1


def read(folder: str | Path) -> tuple[list[Result], list[str]]:
    """All results of a folder that `adaptivek bench` wrote, and what is to be said of files that are none."""
    results, others = Store(folder).look()
    if not results:
        why = f": {others[0]}" if others else ""
        raise ValueError(
            f"report: folder must hold results of `adaptivek bench` (runs/*.json.gz), but {folder} has none{why}"
        )
    return results, others


def report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write report.html, table.csv and table.md of the results in ``folder``, there or into ``out``."""
    results, others = read(folder)
    return write(results, folder if out is None else out, others)


def write(results: Sequence[Result], out: str | Path, others: Sequence[str] = ()) -> Path:
    """The three files, each there whole or not at all; the page's path. ``others`` are those of `read`."""
    table = rows(results)
    texts = {
        "table.csv": to_csv(table),
        "table.md": markdown(table, failures(results), notes(results, others)),
        "report.html": page(results, others),
    }
    target = place(out)
    make_folder(target)
    for name, text in texts.items():
        write_whole(target / name, text)
    return target / "report.html"


def page(results: Sequence[Result], others: Sequence[str] = ()) -> str:
    """The whole page as text; the same results give the same text."""
    table = rows(results)
    methods = all_methods(table)
    return render(
        HERE / "page.html",
        script=(HERE / "sort.js").read_text(encoding="utf-8"),
        style=shared_style(),
        version=__version__,
        summary=_summary(results, table),
        claims=counted(table),
        claims_of_default=counted_of_default(table),
        own=own_data(table),
        paper_settings=PAPER_SETTINGS,
        setting_name=setting_name,
        shades=SHADES,
        measures=MEASURES,
        methods=[named(method) for method in methods],
        accuracies={measure: [accuracy_line(row, methods, measure) for row in table] for measure in MEASURES},
        gap_methods=[named(method) for method in methods if method not in (ORACLE, VANILLA)],
        gap_lines=[_gap_line(row, methods) for row in table if row.setting.rate > 0],
        gap_median=[
            _minus(as_share(median_gap_closed(table, method, "last")))
            for method in methods
            if method not in (ORACLE, VANILLA)
        ],
        estimates=_estimates(table),
        pictures=_pictures(table, foremost(table, len(METHOD_COLOURS))),
        theory=_theory(table),
        failures=[(run_name(each), reason(each)) for each in failures(results)],
        gaps=gaps(table),
        notes=notes(results, others),
        needs=(["method", *NEEDS], [[named(method), *needed(method)] for method in methods]),
        recipes=_recipes(results),
    )


def _summary(results: Sequence[Result], table: Sequence[Row]) -> dict[str, object]:
    shown = current(results)
    done = [result for result in shown if finished(result)]
    return {
        "runs": len(done),
        "failed": len(shown) - len(done),
        "settings": len(table),
        "datasets": len({row.setting.dataset for row in table}),
        "methods": len(all_methods(table)),
        "seeds": len({result.spec.seed for result in done}),
        "engines": ", ".join(sorted({plain(result.engine) for result in done} - {""})),
        "provenance": "; ".join(sorted({plain(str(result.provenance)) for result in done})),
    }


def accuracy_line(row: Row, methods: Sequence[str], measure: Measure) -> list[Entry]:
    """A row of the accuracy table, from the setting to the last method."""
    winners = row.winners(measure)
    most = max(len(cell.results) for cell in row.cells.values())
    line = [*_setting_entries(row), Entry(seeds(row), most)]
    for method in methods:
        if not row.has(method):
            cell = row.cells.get(method)
            failed = cell is not None and cell.failed
            line.append(Entry(DASH, "", f"{failed} failed") if failed else Entry(DASH, "", "not run", "absent"))
            continue
        stat, distance = row.stat(method, measure), row.distance(method, measure)
        details = [] if math.isnan(stat.std) else [f"± {percent(stat.std)}"]
        look = "oracle" if method == ORACLE else ""
        if method != ORACLE and distance is not None:
            details.append(_minus(f"{-100 * distance:+.2f}"))
            closer = [number for number, limit in enumerate(SHADES) if abs(100 * distance) <= limit]
            look = f"green-{closer[0]}" if closer else ""
        if row.cells[method].missing:
            details.append(f"{stat.number} of {stat.number + len(row.cells[method].missing)} seeds")
        line.append(Entry(percent(stat.mean), stat.mean, ", ".join(details), look, method in winners))
    return line


def _gap_line(row: Row, methods: Sequence[str]) -> list[Entry]:
    line = _setting_entries(row)
    if row.has(ORACLE, VANILLA):
        gap = row.stat(ORACLE, "last").mean - row.stat(VANILLA, "last").mean
        line.append(Entry(_minus(percent(gap)), gap))
    else:
        line.append(Entry(DASH, "", "no Oracle or no Vanilla"))
    for method in methods:
        if method not in (ORACLE, VANILLA):
            closed = row.gap_closed(method, "last")
            bar = None if closed is None else min(1.0, max(0.0, closed))
            line.append(Entry(_minus(as_share(closed)), "" if closed is None else closed, bar=bar))
    return line


def _setting_entries(row: Row) -> list[Entry]:
    setting = row.setting
    return [
        Entry(named(setting.dataset), named(setting.dataset).lower(), plain(setting.variant)),
        Entry(setting.noise, setting.noise),
        Entry(rate_name(setting.rate), setting.rate),
    ]


def _estimates(table: Sequence[Row]) -> list[list[Entry]]:
    lines = []
    for row in table:
        for method, cell in row.cells.items():
            if cell.estimate is not None:
                error = cell.estimate.mean - cell.truth.mean
                lines.append(
                    [
                        *_setting_entries(row),
                        Entry(named(method), named(method).lower()),
                        Entry(f"{cell.truth.mean:.3f}", cell.truth.mean),
                        Entry(ratio(cell.estimate), cell.estimate.mean),
                        Entry(_minus(f"{error:+.3f}"), error),
                    ]
                )
    return lines


def _minus(text: str) -> str:
    return text.replace("-", MINUS)


def _pictures(table: Sequence[Row], methods: Sequence[str]) -> dict[str, Picture]:
    """All figures for which there are results, by name."""
    finished_rows = [row for row in table if any(row.has(method) for method in methods)]
    pictures = (
        [figures.overview(finished_rows, methods), figures.accuracies(finished_rows, methods)] if finished_rows else []
    )
    compared = closeups.choose(table, 0.4, ADAPTIVE_K, wanted=(MKL, DEFAULT))
    if compared is not None:
        pictures += [closeups.selection_quality(compared, methods), closeups.batches(compared, methods)]
    looked_into = closeups.choose(table, 0.3, ADAPTIVE_K, wanted=(DEFAULT, VANILLA))
    if looked_into is not None:
        pictures += [closeups.losses(looked_into), closeups.histograms(looked_into)]
    if any(row.has(ADAPTIVE_K) for row in table):
        pictures.append(figures.kept_shares(table))
    if _estimates(table):
        pictures.append(figures.noise_ratios(table, methods))
    return {picture.name: picture for picture in pictures if picture.panels}


def _theory(table: Sequence[Row]) -> Picture | None:
    from ...theory.fit import fit_run

    row = closeups.choose(table, 0.3, ADAPTIVE_K)
    if row is None:
        return None
    try:
        return closeups.theory(row, fit_run(row.cells[ADAPTIVE_K].results[0].epochs))
    except ValueError:
        return None  # it never selected, or its losses are no distribution: a run that came to nothing


def _recipes(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """How each data set was trained on: a column each."""
    found = {(result.spec.dataset, result.spec.recipe) for result in current(results)}
    columns = sorted(found, key=lambda each: (*dataset_order(each[0]), str(each[1])))
    lines = [
        [field.name.replace("_", " "), *(plain(str(getattr(recipe, field.name))) for _, recipe in columns)]
        for field in dataclasses.fields(Recipe)
    ]
    return ["recipe", *(named(dataset) for dataset, _ in columns)], lines
