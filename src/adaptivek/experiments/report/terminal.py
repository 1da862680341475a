"""The claims and the table, small enough for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .claims import PAPER_SETTINGS, counted, counted_of_default, paper_settings
from .names import named
from .tables import Row, all_methods, ranked
from .text import needed, own_data, rate_name, setting_name, short

MOST_COLUMNS = 8  # of methods; more are rows
MOST_NOTES = 5


def show(console: Console, table: Sequence[Row], failed: int, others: Sequence[str] = ()) -> None:
    """Print them: the accuracies are those of the last epoch, the best of each row in bold. ``others``: see `notes`."""
    counts = Table("", "last epoch", "best epoch on test", "the paper", box=None, pad_edge=False)
    for last, best in [*counted(table), *counted_of_default(table)]:
        both = (f"{claim.holds} of {claim.settings}" for claim in (last, best))
        counts.add_row(last.text, *both, "-" if not last.paper else f"{last.paper} of {PAPER_SETTINGS}")
    if counts.rows:
        console.print(counts)
    if there := paper_settings(table):
        console.print(
            f"{there} of the paper's {PAPER_SETTINGS} settings are here, with all five methods", highlight=False
        )
    methods = all_methods(table)
    if min(len(methods), len(table)) > MOST_COLUMNS:
        console.print("\nTest accuracy at the last epoch, above the middle method of a setting:", highlight=False)
        console.print(_ranking(table))
    else:
        console.print("\nTest accuracy at the last epoch, mean and standard deviation over seeds:", highlight=False)
        console.print(_by_method(table) if len(methods) > max(MOST_COLUMNS, len(table)) else _by_setting(table))
    if about := own_data(table):
        console.print(about, style="yellow", highlight=False, markup=False)
    if failed:
        console.print(f"{failed} failed: the page says why", style="red", highlight=False)
    more = [f"and {len(others) - MOST_NOTES} more like these: the page has them"] if len(others) > MOST_NOTES else []
    for line in [*others[:MOST_NOTES], *more]:
        console.print(line, style="yellow", highlight=False, markup=False, soft_wrap=True)


# names come from outside: as text, not as markup


def _by_setting(table: Sequence[Row]) -> Table:
    methods = all_methods(table)
    grid = Table("data set", "noise", "rate", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for method in methods:
        grid.add_column(Text(named(method)), justify="right")
    for row in table:
        names = (named(row.setting.dataset), row.setting.noise, rate_name(row.setting.rate))
        grid.add_row(*map(Text, names), *(_cell(row, method) for method in methods))
    return grid


def _by_method(table: Sequence[Row]) -> Table:
    grid = Table("method", "needs", "passes", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for row in table:
        grid.add_column(Text(setting_name(row.setting)), justify="right")
    for method in all_methods(table):
        needs, *passes = needed(method)
        cells = (_cell(row, method) for row in table)
        grid.add_row(Text(named(method)), Text(needs), " + ".join(passes), *cells)
    return grid


def _ranking(table: Sequence[Row]) -> Table:
    grid = Table("method", "needs", "passes", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    grid.add_column("points above", justify="right")
    grid.add_column("settings", justify="right")
    for method, above, number in ranked(table):
        needs, *passes = needed(method)
        grid.add_row(Text(named(method)), Text(needs), " + ".join(passes), f"{100 * above:+.1f}", str(number))
    return grid


def _cell(row: Row, method: str) -> Text:
    text = short(row.stat(method, "last")) if row.has(method) else "-"
    return Text(text, "bold" if method in row.winners("last") else "")
