"""Tables with an entry for each row of the training set: read and written at the rows of a batch.

A row may stand in a batch more than once (sampling with replacement, several tokens of one text). It is then written
once, with the mean of its entries; of whole numbers, which have no mean, with the first.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .opaque import opaque


def read(table: Tensor, rows: Tensor) -> Tensor:
    """Entries of a table (N, ...) at ``rows`` (B,): (B, ...)."""
    return opaque(table[rows])


def write(table: Tensor, rows: Tensor, entries: Tensor, valid: Tensor) -> None:
    """Write entries (B, ...) into a table (N, ...) at ``rows`` (B,), in place; those that are not ``valid`` are not."""
    repeats, axes = _repeats(rows, valid), [1] * (entries.dim() - 1)
    counts, used = repeats.view(-1, *axes), valid.view(-1, *axes)
    if table.is_floating_point():
        parts = torch.where(used, entries / counts, 0)
    else:
        parts = torch.where(_first(rows, valid).view_as(used), entries, 0)
    # rows that are written begin at 0, to which their entries add up: one that is alone is written as it is
    table.index_put_((rows,), torch.where(counts > 0, 0, table[rows]))
    table.index_put_((rows,), parts.to(table.dtype), accumulate=True)


def in_range(rows: Tensor, number: int) -> Tensor:
    """Which of the row numbers are those of a table with ``number`` rows."""
    return (rows >= 0) & (rows < number)


def _repeats(rows: Tensor, valid: Tensor) -> Tensor:
    """How many valid entries of the batch have the row of each entry, (B,)."""
    ordered = torch.where(valid, rows, torch.iinfo(rows.dtype).max).sort().values
    return torch.searchsorted(ordered, rows, right=True) - torch.searchsorted(ordered, rows)


def _first(rows: Tensor, valid: Tensor) -> Tensor:
    """Which valid entries are the first of their row in the batch, (B,)."""
    key = torch.where(valid, rows, -1)
    order = key.argsort(stable=True)
    ordered = key[order]
    first = torch.cat([torch.ones_like(valid[:1]), ordered[1:] != ordered[:-1]])
    return torch.zeros_like(valid).scatter(0, order, first) & valid
