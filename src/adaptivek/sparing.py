"""Less to do: rows whose labels are not believed are visited in every few epochs only."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import Sampler

from .checks import check_number
from .methods import LabelMemory
from .selection import Selection


class Sparing(Sampler[int]):
    """Rows for an epoch in random order: those believed, and of the others each in one of ``every`` epochs.

    A row that is believed again when it is visited is back for good. Once 40 % are doubted, with ``every=4`` an epoch
    is 0.7 of what it was. Each pass over it is an epoch.

    >>> loader = DataLoader(adaptivek.indexed(train_set), batch_size=32, sampler=Sparing(criterion, labels))

    Args:
        criterion: with label memory, which says what is believed.
        labels: of all rows of the training set, as trained on.
        every: in how many epochs a row that is not believed is visited once.
        seed: of the order.
    """

    def __init__(self, criterion: Selection, labels: Tensor, every: int = 4, seed: int = 0) -> None:
        if not isinstance(criterion.method, LabelMemory):
            raise ValueError(f"Sparing: criterion must be with label-memory, got {criterion.method.name}")
        self.rows = len(criterion.memory.state.predictions)
        if labels.shape != (self.rows,):
            raise ValueError(f"Sparing: labels must be one for each of {self.rows} rows, got {tuple(labels.shape)}")
        check_number("Sparing", "every", every, 1, whole=True)
        check_number("Sparing", "seed", seed, 0, whole=True)
        self.criterion, self.labels, self.every, self.seed, self.epoch = criterion, labels, every, seed, 0

    def __iter__(self) -> Iterator[int]:
        rows = self._in_use().nonzero().squeeze(1)
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(self.seed + self.epoch))
        self.epoch += 1
        yield from rows[order].tolist()

    def __len__(self) -> int:
        """Of the epoch to come, as things stand."""
        return int(self._in_use().sum())

    def _in_use(self) -> Tensor:
        method, state = self.criterion.method, self.criterion.memory.state
        assert isinstance(method, LabelMemory)
        doubted = method.doubted(state, self.labels.to(state.predictions.device)).cpu()
        return ~doubted | ((torch.arange(self.rows) + self.epoch) % self.every == 0)
