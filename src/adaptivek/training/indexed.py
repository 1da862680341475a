"""Row numbers for any data set: what methods that remember samples need to know them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.utils.data import Dataset, IterableDataset

INDEX = "index"  # what it is called in samples that are dicts


class Indexed(Dataset[Any]):
    """A data set whose samples end with their row number."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
            raise TypeError(f"indexed: dataset must have a length and rows by number, got {type(dataset).__name__}")
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> Any:
        number = range(len(self))[row]  # -1 is the last row; past the end raises IndexError
        return _with(self.dataset[number], number)

    def __getitems__(self, rows: list[int]) -> list[Any]:
        """Many rows at once, for data sets that are faster so; the DataLoader asks for it."""
        many = getattr(self.dataset, "__getitems__", None)
        if many is None:
            return [self[row] for row in rows]
        return [_with(sample, row) for sample, row in zip(many(rows), rows, strict=True)]


def indexed(dataset: Dataset[Any]) -> Indexed:
    """The same data set, each sample with its row number.

    ``(x, y)`` becomes ``(x, y, row)``; a dict gets the key ``"index"``; anything else becomes
    ``(sample, row)``. Rows count from 0 in the data set given, so wrap the one that is trained on (after a
    split, not before).

    >>> for x, y, index in DataLoader(indexed(dataset), batch_size=32, shuffle=True):
    ...     loss = criterion(model(x), y, index)
    """
    return Indexed(dataset)


def _with(sample: Any, row: int) -> Any:
    if isinstance(sample, Mapping):
        if INDEX in sample:
            raise ValueError(f"indexed: samples must not have {INDEX!r} already, got {sorted(map(str, sample))}")
        return {**sample, INDEX: row}
    return (*sample, row) if isinstance(sample, (tuple, list)) else (sample, row)
