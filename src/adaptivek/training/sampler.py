"""Less to do: rows of which the network has long been sure are visited in every few epochs only."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import Sampler

from ..backend import tables
from ..backend.checks import check_number
from ..criterion import Selection
from ..methods import LabelMemory


class SkipSettled(Sampler[int]):
    """Rows for an epoch in random order: of those that are settled, each in one of ``every`` epochs; all others.

    A row is settled when its remembered predictions, the surer the heavier, all but agree on a class, be it the label
    or what has taken its place: there is next to nothing to learn from it. A settled row of which the network is less
    sure when it is visited is back. Each pass over it is an epoch.

    >>> loader = DataLoader(adaptivek.indexed(train_set), batch_size=32, sampler=SkipSettled(criterion))

    Args:
        criterion: with label memory, which remembers the predictions.
        every: in how many epochs a settled row is visited once.
        settled: the share of the memory that a class must have.
        seed: of the order.
    """

    def __init__(self, criterion: Selection, *, every: int = 4, settled: float = 0.9, seed: int = 0) -> None:
        if not isinstance(criterion.method, LabelMemory):
            raise ValueError(f"SkipSettled: criterion must be with label-memory, got {criterion.method.name}")
        self.rows = len(criterion.memory.state.predictions)
        if not self.rows:
            raise ValueError("SkipSettled: criterion must be given rows=, the number of rows, got none")
        check_number("SkipSettled", "every", every, 1, whole=True)
        check_number("SkipSettled", "settled", settled, 0, 1)
        check_number("SkipSettled", "seed", seed, 0, whole=True)
        self.criterion, self.every, self.settled, self.seed, self.epoch = criterion, every, settled, seed, 0

    def __iter__(self) -> Iterator[int]:
        rows = self._in_use().nonzero().squeeze(1)
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(self.seed + self.epoch))
        self.epoch += 1
        yield from rows[order].tolist()

    def __len__(self) -> int:
        """Of the epoch to come, as things stand."""
        return int(self._in_use().sum())

    def _in_use(self) -> Tensor:
        highest = [entries.amax(1) for _, entries in tables.parts(self.criterion.memory.state.predictions)]
        settled = (torch.cat(highest) >= self.settled).cpu()
        return ~settled | ((torch.arange(self.rows) + self.epoch) % self.every == 0)
