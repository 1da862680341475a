"""Tables with an entry for each row of the training set: read and written at the rows of a batch.

A table has numbers as they are, (N, ...), or packed rows where all classes of all rows would take too much
(`compact`); a method sees the numbers either way.

A row may stand in a batch more than once (sampling with replacement, several tokens of one text). It is then written
once, with the mean of its entries; of whole numbers, which have no mean, with the first.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from . import compact
from .opaque import opaque
from .values import has_values

PART_BYTES = 2**25  # of the numbers that are unpacked at a time


def read(table: Tensor, rows: Tensor, classes: int) -> Tensor:
    """Entries of a table at ``rows`` (B,): (B, ...), the last axis ``classes`` long if they were packed."""
    entries = opaque(table[rows])
    return compact.unpack(entries, classes) if compact.is_packed(table) else entries


def write(table: Tensor, rows: Tensor, entries: Tensor, valid: Tensor) -> None:
    """Write entries (B, ...) into a table at ``rows`` (B,), in place; those that are not ``valid`` are not."""
    used = valid.view(-1, *[1] * (entries.dim() - 1))
    packed = compact.is_packed(table)
    if _surely_distinct(rows):  # nothing to add up
        entries = compact.repack(table, torch.where(used, entries, 0)) if packed else entries.to(table.dtype)
        table.index_put_((rows,), torch.where(used, entries, table[rows]))
        return
    place, repeats = _repeats(rows, valid)
    counts = repeats.view_as(used)
    if packed or table.is_floating_point():
        parts = torch.where(used, entries / counts, 0)
    else:
        parts = torch.where(_first(rows, valid).view_as(used), entries, 0)
    if packed:
        together = torch.zeros_like(parts).index_put((place,), parts, accumulate=True)[place]
        # entries of one row are written alike, so it does not matter which of them comes last
        table.index_put_((rows,), torch.where(counts > 0, compact.repack(table, together), table[rows]))
        return
    # rows that are written begin at 0, to which their entries add up: one that is alone is written as it is
    table.index_put_((rows,), torch.where(counts > 0, 0, table[rows]))
    table.index_put_((rows,), parts.to(table.dtype), accumulate=True)


def parts(table: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """All entries of a table, some rows after others where they must be unpacked; and which rows these are."""
    if not (compact.is_packed(table) and len(table)):
        yield slice(None), table
        return
    classes = compact.classes_of(table)
    size = max(1, PART_BYTES // (4 * classes * table[0, ..., 0].numel()))
    for start in range(0, len(table), size):
        rows = slice(start, start + size)
        yield rows, compact.unpack(table[rows], classes)


def _surely_distinct(rows: Tensor) -> bool:
    """Whether no row stands in a batch twice, where that can be seen without waiting.

    So it is in most batches, and writing them is then a few operations, which on a CPU run one by one.
    """
    return rows.device.type == "cpu" and has_values(rows) and len(set(rows.tolist())) == len(rows)


def _repeats(rows: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """For each entry of the batch, a place that it shares with the valid ones of its row, and how many these are."""
    ordered = torch.where(valid, rows, torch.iinfo(rows.dtype).max).sort().values
    first = torch.searchsorted(ordered, rows)
    return first.clamp(max=len(rows) - 1), torch.searchsorted(ordered, rows, right=True) - first


def _first(rows: Tensor, valid: Tensor) -> Tensor:
    """Which valid entries are the first of their row in the batch, (B,)."""
    key = torch.where(valid, rows, -1)
    order = key.argsort(stable=True)
    ordered = key[order]
    first = torch.cat([torch.ones_like(valid[:1]), ordered[1:] != ordered[:-1]])
    return torch.zeros_like(valid).scatter(0, order, first) & valid
