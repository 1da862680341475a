"""Several processes that share an audit, as torchrun starts them: each fits some of the models and scores some rows.

All of them read the labels and draw the same sample. What one has fitted or scored, all are told, so that each ends
with the same result, which is that of one process. Files are written by the first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist

PATIENCE = timedelta(days=7)  #: a process that waits for another's fits is not lost; torchrun ends it if that one is

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process among all of them; by default it is alone."""

    rank: int = 0
    number: int = 1
    group: Any = None

    @property
    def first(self) -> bool:
        return self.rank == 0

    def every(self, work: Sequence[T]) -> list[T]:
        """This process's share of some pieces of work: every n-th."""
        return list(work[self.rank :: self.number])

    def stretch(self, pieces: int) -> range:
        """This process's share of pieces of work that are best done one after the other."""
        return self._stretch(pieces, self.rank)

    def told_every(self, mine: Sequence[T], pieces: int) -> list[T]:
        """What all processes made of their share, in the order of the work, where that was every n-th piece."""
        return self._told(mine, [piece % self.number for piece in range(pieces)])

    def told_stretches(self, mine: Sequence[T], pieces: int) -> list[T]:
        """The same where it was a stretch."""
        return self._told(mine, [rank for rank in range(self.number) for _ in self._stretch(pieces, rank)])

    def _stretch(self, pieces: int, rank: int) -> range:
        return range(pieces * rank // self.number, pieces * (rank + 1) // self.number)

    def _told(self, mine: Sequence[T], makers: list[int]) -> list[T]:
        """A piece from each of these processes, one at a time: all at once would be in memory twice."""
        if self.group is None:
            return list(mine)
        left = iter(mine)
        found = []
        for maker in makers:
            piece: list[Any] = [next(left) if maker == self.rank else None]
            dist.broadcast_object_list(piece, maker, self.group)
            found.append(piece[0])
        return found

    def wait(self) -> None:
        """Until all processes are here."""
        if self.group is not None:
            dist.barrier(group=self.group)


def find_ranks(distributed: bool, streamed: bool) -> Ranks:
    """The processes to share an audit with.

    Args:
        distributed: whether to share it.
        streamed: whether rows stay in their files; nothing else can be shared.
    """
    if not distributed:
        return Ranks()
    if not dist.is_available() or not dist.is_initialized():
        raise ValueError(
            "audit: distributed must be False without a process group, got True: call "
            "torch.distributed.init_process_group() first, in a program started by torchrun"
        )
    if not streamed:
        raise ValueError(
            "audit: distributed must be False for data in memory, got True: several processes share a folder of "
            "Parquet files"
        )
    # of CPU tensors, whatever the processes train with
    return Ranks(dist.get_rank(), dist.get_world_size(), dist.new_group(backend="gloo", timeout=PATIENCE))


@contextmanager
def process_group() -> Iterator[tuple[int, int]]:
    """The process group of a command that torchrun has started; gives its rank, and of how many."""
    number = int(os.environ.get("WORLD_SIZE", "1"))
    if number == 1:
        yield 0, 1
        return
    dist.init_process_group("gloo", timeout=PATIENCE)
    try:
        yield dist.get_rank(), number
    finally:
        dist.destroy_process_group()
