"""The audit in a terminal: the number, the worst pairs, what is not to be trusted."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .result import AuditResult

PAIRS = 5


def show(out: Console, result: AuditResult) -> None:
    """Print the result. Names come from the data: shown as plain text, never as markup."""
    percent = f"{result.noise_ratio:.1%} ({result.noise_ratio_low:.1%} to {result.noise_ratio_high:.1%})"
    out.print(
        f"{percent} of {len(result.row):,} labels look wrong; {result.is_issue.sum():,} rows are flagged",
        highlight=False,
    )
    pairs = np.stack([result.label, result.suggested_label], 1)[result.is_issue]
    if len(pairs):
        table = Table("label", "suggested", "rows")
        found, counts = np.unique(pairs, axis=0, return_counts=True)
        for place in np.argsort(-counts)[:PAIRS]:
            names = (Text(result.classes[code][:60]) for code in found[place])
            table.add_row(*names, f"{counts[place]:,}")
        out.print(table)
    if result.skipped:
        row, reason = result.skipped[0]
        number = len(result.skipped)
        out.print(f"rows skipped: {number:,}, the first is {row}: {reason}", highlight=False, markup=False)
    for warning in result.warnings:
        out.print(warning, style="yellow", highlight=False, markup=False)
