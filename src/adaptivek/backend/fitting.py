"""How much of a row tables keep, and whether what is kept fits into memory: said before training, with what to set."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from .compact import HEAD, MOST_CLASSES

KEPT = 12  # classes of a row that are enough, see docs/scale.md
FULL_BYTES = 2**28  # up to this, a table has all classes of each row
FEW_CLASSES = 64  # up to this too: a packed row would not be much smaller
CHECKED_BYTES = 2**28  # of less there is no need to ask


def kept_classes(rows: int, classes: int, wanted: int | None) -> int | None:
    """How many classes of each row a table keeps; None: all."""
    if wanted is None:
        many = FEW_CLASSES < classes <= MOST_CLASSES
        wanted = KEPT if many and _full(rows, classes) > FULL_BYTES else classes
    if wanted >= classes:
        return None
    if classes > MOST_CLASSES:
        raise ValueError(
            f"Selection: table_classes must be classes={classes} for more than {MOST_CLASSES} classes, got {wanted}"
        )
    return wanted


def check_fits(method: str, state: Iterable[Tensor], rows: int, classes: int) -> None:
    """Raise unless there is memory for a state of such tensors, which may be without values."""
    needed, free = number_of_bytes(state), available_bytes()
    if needed > CHECKED_BYTES and free is not None and needed > free:
        raise MemoryError(too_much(method, needed, f"{_size(free)} are free", rows, classes))


def too_much(method: str, needed: int, free: str, rows: int, classes: int) -> str:
    """What to say of a state that does not fit."""
    text = f"Selection: {method} needs {_size(needed)} for rows={rows} and classes={classes}; {free}"
    if rows and KEPT < classes <= MOST_CLASSES:
        packed = rows * 2 * (HEAD + 2 * KEPT)
        text += f". A table with table_classes={KEPT} takes {_size(packed)}, one with all classes "
        text += _size(_full(rows, classes))
    return text


def number_of_bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def available_bytes() -> int | None:
    """What this process may still take of the machine's memory; None where that cannot be known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    group = Path("/sys/fs/cgroup")
    try:  # the limit of a container
        limit, used = ((group / f"memory.{name}").read_text() for name in ("max", "current"))
        return min(free, int(limit) - int(used))
    except (OSError, ValueError):  # none, or "max"
        return free


def _full(rows: int, classes: int) -> int:
    return rows * classes * torch.float32.itemsize


def _size(number: int) -> str:
    return f"{number / 1e9:.3g} GB" if number >= 1e9 else f"{number / 1e6:.3g} MB"
