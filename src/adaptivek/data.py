"""Data sets as tensors in memory, split into training and test."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .checks import check_choice


class Split(NamedTuple):
    """A data set, ready to train on: images normalised, labels whole numbers from 0."""

    x: Tensor  #: (rows, channels, height, width) float32
    y: Tensor  #: (rows,) int64
    x_test: Tensor
    y_test: Tensor
    classes: int
    vocabulary: int = 0  #: above 0: x is text, (rows, length) numbers of tokens

    @property
    def inputs(self) -> int:
        """What a network must know of x: the channels of an image, or the size of the vocabulary."""
        return self.vocabulary or self.x.shape[1]

    def to(self, device: torch.device) -> Split:
        x, y, x_test, y_test = (part.to(device) for part in self[:4])
        return Split(x, y, x_test, y_test, self.classes, self.vocabulary)


def digits() -> Split:
    """scikit-learn's bundled digits: 1,797 images of 8 x 8, a fifth of each class held out. No download."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError:
        raise ImportError("the data set digits needs scikit-learn: pip install 'adaptivek[data]'") from None
    images, labels = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(images, labels, test_size=0.2, stratify=labels, random_state=0)
    mean, std = x.mean(), x.std()

    def image(a: object) -> Tensor:
        scaled: Tensor = (torch.as_tensor(a, dtype=torch.float32) - mean) / std
        return scaled.reshape(-1, 1, 8, 8)

    return Split(image(x), torch.as_tensor(y), image(x_test), torch.as_tensor(y_test), classes=10)


DATASETS: dict[str, Callable[[], Split]] = {"digits": digits}


def load(name: str, *, seed: int = 0, root: object = None) -> Split:
    """A data set by name."""
    check_choice("load", "dataset", name, DATASETS)
    return DATASETS[name]()
