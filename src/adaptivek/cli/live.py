"""What `adaptivek train` shows while it trains: the last epochs as a table, and the course of the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table

if TYPE_CHECKING:
    from ..experiments.records import EpochRecord

EPOCHS = 8  # in the table
WIDTH = 40  # of a course, in characters
BLOCKS = "▁▂▃▄▅▆▇█"
#: columns of the table, and of the record that they show
COLUMNS = {
    "train loss": "train_loss",
    "test accuracy": "test_accuracy",
    "kept": "kept_share",
    "noise found": "noise_ratio_told",
    "threshold": "threshold",
}
COURSES = ("test accuracy", "kept", "noise found", "threshold")


def look(records: Sequence[EpochRecord]) -> RenderableType:
    """The run so far; what no epoch knows, such as the threshold of a method without one, is left out."""
    if not records:
        return ""
    values = {name: [getattr(record, field) for record in records] for name, field in COLUMNS.items()}
    values = {name: column for name, column in values.items() if any(map(math.isfinite, column))}
    table = Table("epoch", "", *values)
    for place in range(max(0, len(records) - EPOCHS), len(records)):
        phase = "selecting" if records[place].selecting else "warming up"
        table.add_row(str(records[place].epoch), phase, *(number(column[place]) for column in values.values()))
    courses = Table.grid(padding=(0, 2))
    for name in COURSES:
        if name in values and len(records) > 1:
            known = [value for value in values[name] if math.isfinite(value)]
            courses.add_row(name, course(values[name]), f"{known[0]:.3f} → {known[-1]:.3f}")
    return Group(table, courses)


def number(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "-"


def course(values: Sequence[float], width: int = WIDTH) -> str:
    """Numbers as a row of blocks, from the lowest to the highest; neighbours share one where there are many."""
    share = max(1, -(-len(values) // width))
    groups = [values[start : start + share] for start in range(0, len(values), share)]
    known = [[value for value in group if math.isfinite(value)] for group in groups]
    means = [math.fsum(group) / len(group) if group else math.nan for group in known]
    low = min((mean for mean in means if math.isfinite(mean)), default=0.0)
    high = max((mean for mean in means if math.isfinite(mean)), default=0.0)
    step = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round(step * (mean - low))] if math.isfinite(mean) else " " for mean in means)
