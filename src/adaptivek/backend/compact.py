"""A row's numbers for all classes in a few bytes: its highest classes, and the mean of the rest.

A packed row is of 16-bit whole numbers: the number of classes, the mean of the rest, the highest classes, their values.
A value is kept as its logarithm, which is as fine for a small number as for a large one: steps of 0.034 %, from 5e-10
to just under 2, and 0. It is rounded down, so that probabilities never add up to more than they did. What has not moved
packs to the same again. Values have no sign.
"""

from __future__ import annotations

import torch
from torch import Tensor

HEAD = 2  # numbers before the classes
MOST_CLASSES = 2**16
LOWEST = -31  # exponent of the smallest value that is not 0
FINE = 2048  # steps from a value to its double
SLACK = 0.02  # of a step: more than a logarithm in single precision is wrong by
ZERO = -(2**15)  # the lowest number of 16 bits


def pack(entries: Tensor, kept: int) -> Tensor:
    """Entries (..., classes) as packed rows (..., size)."""
    entries, classes = entries.float(), entries.shape[-1]
    values, highest = entries.topk(kept, -1)
    rest = entries.scatter(-1, highest, 0.0).sum(-1, keepdim=True) / (classes - kept)
    number = torch.full_like(highest[..., :1], classes - 1)
    return torch.cat([number + ZERO, _code(rest), highest + ZERO, _code(values)], -1).to(torch.int16)


def unpack(rows: Tensor, classes: int) -> Tensor:
    """Entries (..., classes) of packed rows (..., size)."""
    kept = _kept(rows)
    rest, highest, values = rows[..., 1:HEAD], rows[..., HEAD : HEAD + kept], rows[..., HEAD + kept :]
    return _value(rest).expand(*rest.shape[:-1], classes).scatter(-1, highest.long() - ZERO, _value(values))


def repack(table: Tensor, entries: Tensor) -> Tensor:
    """Entries (..., classes) packed as the rows of a table are."""
    return pack(entries, _kept(table))


def is_packed(table: Tensor) -> bool:
    """No other table is of this type: `step.start` sees to that."""
    return table.dtype == torch.int16


def classes_of(table: Tensor) -> int:
    """For how many classes a table with a row at least has packed entries. Reads a value."""
    return int(table.flatten()[0]) - ZERO + 1


def _kept(rows: Tensor) -> int:
    return (rows.shape[-1] - HEAD) // 2


def _code(values: Tensor) -> Tensor:
    steps = ((values.log2() - LOWEST) * FINE + SLACK).floor().clamp(-1, 2**16 - 2)  # of 0 minus infinity
    return steps.long() + 1 + ZERO


def _value(codes: Tensor) -> Tensor:
    steps = codes.float() - (ZERO + 1)
    return torch.where(steps < 0, 0.0, (steps / FINE + LOWEST).exp2())
