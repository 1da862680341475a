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

PART_BYTES = 2**25  # of the numbers that are unpacked at a time


def read(table: Tensor, rows: Tensor, classes: int) -> Tensor:
    """Entries of a table at ``rows`` (B,): (B, ...), the last axis ``classes`` long if they were packed."""
    entries = opaque(table[rows])
    return compact.unpack(entries, classes) if compact.is_packed(table) else entries


def write(table: Tensor, rows: Tensor, entries: Tensor, valid: Tensor) -> None:
    """Write entries (B, ...) into a table at ``rows`` (B,), in place; those that are not ``valid`` are not."""
    axes = [1] * (entries.dim() - 1)
    group, first = _groups(rows, valid)
    counts = torch.zeros_like(rows).index_put((group,), valid.long(), accumulate=True)[group].view(-1, *axes)
    packed = compact.is_packed(table)
    if packed or table.is_floating_point():
        parts = torch.where(valid.view(-1, *axes), entries / counts, 0)
    else:
        parts = torch.where(first.view(-1, *axes), entries, 0)
    # entries of one row are written alike, so it does not matter which of them comes last
    together = torch.zeros_like(parts).index_put((group,), parts, accumulate=True)[group]
    new = compact.repack(table, together) if packed else together.to(table.dtype)
    table.index_put_((rows,), torch.where(counts > 0, new, table[rows]))


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


def in_range(rows: Tensor, number: int) -> Tensor:
    """Which of the row numbers are those of a table with ``number`` rows."""
    return (rows >= 0) & (rows < number)


def _groups(rows: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers of the different rows, the same for entries of the same row; and which are its first valid entry."""
    order = (2 * rows + ~valid).argsort(stable=True)
    ordered = rows[order]
    begins = torch.cat([torch.ones_like(valid[:1]), ordered[1:] != ordered[:-1]])
    group = torch.empty_like(rows).scatter(0, order, begins.cumsum(0) - 1)
    return group, torch.empty_like(valid).scatter(0, order, begins) & valid
