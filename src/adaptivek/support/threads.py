"""Threads on a processor: how many to train with, and work of several that need not wait for each other.

A small network gains next to nothing from a second thread, and where other processes want the processors too, every
operation waits for its slowest thread: steps take many times as long. So the network decides, and the choice is the
same whenever the run is done again: sums over another number of threads differ in their last digits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

Given = TypeVar("Given")
Found = TypeVar("Found")

SMALL = 50_000_000  #: floating-point operations of a forward pass that one thread does well enough alone


def suited(forward: int) -> int:
    """Threads for a network by the operations of its forward pass: one, or what the caller and the machine grant."""
    return 1 if forward < SMALL else max(1, min(torch.get_num_threads(), processors()))


@contextmanager
def using(number: int) -> Iterator[None]:
    """Within, torch has so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_threads(work: Callable[[Given], Found], given: Iterable[Given]) -> Iterator[Found]:
    """What comes of each, in order, for work that leaves Python while it computes.

    An error, or Ctrl-C, does not wait for work that has not begun.
    """
    threads = ThreadPoolExecutor(processors())
    try:
        for begun in [threads.submit(work, one) for one in given]:
            yield begun.result()
    finally:
        threads.shutdown(cancel_futures=True)


@torch.no_grad()
def flops(model: nn.Module, x: Tensor) -> int:
    """Floating-point operations of a forward pass, which is tried; the network stays as it was."""
    from torch.utils.flop_counter import FlopCounterMode

    training = model.training
    model.eval()  # without dropout, which would draw, and batch statistics, which would move
    with FlopCounterMode(display=False) as counter:
        model(x)
    model.train(training)
    return int(counter.get_total_flops())


def processors() -> int:
    """How many this process may use: those it is bound to, no more than the quota of its container."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    granted = quota()
    return bound if granted is None else max(1, min(bound, int(granted)))


def quota(root: Path = Path("/")) -> float | None:
    """Processors' worth of time that Linux grants to the group of this process, or one around it; None if unlimited."""
    groups = root / "sys/fs/cgroup"
    found = []
    for line in _text(root / "proc/self/cgroup").splitlines() or ["0::/"]:
        _, _, path = line.partition(":")[2].partition(":")
        inside = Path(path.lstrip("/"))
        for place in (inside, *inside.parents):
            found.append(_text(groups / place / "cpu.max").split())
            first = groups / "cpu" / place  # where there are groups of the first version
            found.append([_text(first / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")])
    shares = [int(pair[0]) / int(pair[1]) for pair in found if len(pair) == 2 and all(map(str.isdecimal, pair))]
    return min(shares, default=None)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
