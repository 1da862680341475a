"""What a data set is once loaded, and how rows are drawn."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import torch
from torch import Tensor


class Split(NamedTuple):
    """A data set, ready to train on. Labels are whole numbers from 0."""

    x: Tensor  #: images: (rows, channels, height, width) float32; text: (rows, length) int32, 0 = padding, 1 = unknown
    y: Tensor  #: (rows,) int64
    x_test: Tensor
    y_test: Tensor
    classes: int
    vocabulary: int = 0  #: how many token numbers there are; 0 if it is no text
    columns: tuple[str, str] = ("", "")  #: from which the inputs and the labels were taken, where there were columns

    @property
    def inputs(self) -> int:
        """What a network must know of x: the channels of an image, the size of the vocabulary of a text."""
        return self.vocabulary or self.x.shape[1]

    @property
    def kind(self) -> str:
        """In words."""
        shape = " x ".join(map(str, self.x.shape[1:]))
        return "texts" if self.vocabulary else f"images of {shape}" if self.x.dim() == 4 else f"rows of {shape} numbers"

    def to(self, device: torch.device) -> Split:
        x, y, x_test, y_test = (t.to(device) for t in (self.x, self.y, self.x_test, self.y_test))
        return self._replace(x=x, y=y, x_test=x_test, y_test=y_test)


def shuffled(rows: int, key: str) -> Tensor:
    """The numbers below ``rows`` in an order that ``key`` decides, the same everywhere and for ever.

    Rows are sorted by the SHA-256 of "key:row": no library's random stream is part of it.
    """
    prefix = hashlib.sha256(f"{key}:".encode())
    digests = []
    for row in range(rows):
        digest = prefix.copy()
        digest.update(str(row).encode())
        digests.append(digest.digest())
    return torch.tensor(sorted(range(rows), key=digests.__getitem__), dtype=torch.int64)
