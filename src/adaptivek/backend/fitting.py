"""How much of a row tables keep, and whether what is kept fits into memory: said before training, with what to set."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..method import Method, Task
from .compact import MOST_CLASSES, pack

KEPT = 12  # classes of a row that are enough, see docs/scale.md
FEWER = (KEPT, 4, 2)  # to be advised
FULL_BYTES = 2**28  # up to this, a table has all classes of each row
FEW_CLASSES = 64  # up to this too: a packed row would not be much smaller
CHECKED_BYTES = 2**28  # of less there is no need to ask
LARGEST = 2**60  # bytes that PyTorch can think of


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


def packs(method: Method[Any]) -> bool:
    """Whether the tables of a method may be packed."""
    return method.reads_packed or type(method).start_epoch is Method.start_epoch


def packed(task: Task, kept: int | None) -> Task:
    """A task whose tables keep so many classes of each row; None: all."""
    return task if kept is None else task._replace(pack=functools.partial(pack, kept=kept))


def check_fits(method: Method[Any], task: Task, kept: int | None) -> None:
    """Raise unless there is memory for the state of a method whose tables keep so many classes of each row."""
    rows, classes = task.rows or 0, task.classes or 0
    if max(rows, classes) * max(classes, 1) * torch.float32.itemsize > CHECKED_BYTES:
        needed, free = state_bytes(method, task, kept), available_bytes()
        if free is not None and needed > free:
            raise MemoryError(too_much(method, task, needed, free))


def state_bytes(method: Method[Any], task: Task, kept: int | None) -> int:
    """What the state of a method takes. Nothing is made: that may end the process."""
    least = _full(task.rows or 0, task.classes or 1)
    if least > LARGEST:
        return least
    with torch.device("meta"):
        given = None if task.predictions is None else torch.empty(task.predictions.shape)
        return number_of_bytes(method.init(packed(task._replace(predictions=given), kept)))


def too_much(method: Method[Any], task: Task, needed: int, free: int | None) -> str:
    """What to say of a state that does not fit, and what would; ``free``: bytes, None if they are not known."""
    rows, classes = task.rows or 0, task.classes or 0
    text = f"Selection: {method.name} needs {_size(needed)} for rows={rows} and classes={classes}; "
    text += "less is free" if free is None else f"{_size(free)} are free"
    most = needed - 1 if free is None else free
    for fewer in FEWER:
        if packs(method) and fewer < classes <= MOST_CLASSES and (size := state_bytes(method, task, fewer)) <= most:
            return f"{text}. With table_classes={fewer} it takes {_size(size)}"
    if rows and not method.needs_rows and state_bytes(method, task._replace(rows=None), None) <= most:
        return f"{text}. Without rows= it remembers no row, which takes no such table"
    return f"{text}. Methods that remember no rows, such as adaptive-k, take no such table"


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
    for unit, name in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB")):
        if number >= unit:
            return f"{number / unit:,.3g} {name}" if number < 1000 * unit else f"{number / unit:,.0f} {name}"
    return f"{number / 1e6:.3g} MB"
