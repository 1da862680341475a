"""The claims and the table, small enough for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .tables import PAPER_SETTINGS, Row, all_methods, claims
from .text import named, rate_name, short


def show(console: Console, table: Sequence[Row], failed: int) -> None:
    """Print them: the accuracies are those of the last epoch, the best of each row in bold."""
    counts = Table("", "last epoch", "best epoch on test", "the paper", box=None, pad_edge=False)
    for last, best in zip(claims(table, "last"), claims(table, "best"), strict=True):
        both = (f"{claim.holds} of {claim.settings}" for claim in (last, best))
        counts.add_row(last.text, *both, f"{last.paper} of {PAPER_SETTINGS}")
    console.print(counts)
    methods = all_methods(table)
    # names come from outside: as text, not as markup
    grid = Table("data set", "noise", "rate", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for method in methods:
        grid.add_column(Text(named(method)), justify="right")
    for row in table:
        best_ones = row.winners("last")
        names = (named(row.setting.dataset), row.setting.noise, rate_name(row.setting.rate))
        cells = [
            Text(short(row.stat(method, "last")) if row.has(method) else "-", "bold" if method in best_ones else "")
            for method in methods
        ]
        grid.add_row(*map(Text, names), *cells)
    console.print("\nTest accuracy at the last epoch, mean and standard deviation over seeds:", highlight=False)
    console.print(grid)
    if failed:
        console.print(f"{failed} failed: the page says why", style="red", highlight=False)
