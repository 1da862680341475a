"""The network for each kind of data: small enough to train in minutes on two cores."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..networks import text_bag
from .training import Plan

WIDTH, DROPOUT = 256, 0.2


def mlp(features: int, classes: int) -> nn.Module:
    """For tables and features."""
    return nn.Sequential(
        nn.Linear(features, WIDTH),
        nn.ReLU(),
        nn.Dropout(DROPOUT),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Dropout(DROPOUT),
        nn.Linear(WIDTH, classes),
    )


def small_cnn(channels: int, classes: int) -> nn.Module:
    """For images of any size, made for 8 to 32 pixels a side."""

    def convolution(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(
        *convolution(channels, 16),
        nn.MaxPool2d(2),
        *convolution(16, 32),
        nn.MaxPool2d(2),
        *convolution(32, 64),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(DROPOUT),
        nn.Linear(4 * 64, classes),
    )


#: by kind of data: a network from the size of an input (features, channels, words) and the number of classes
NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {
    "features": mlp,
    "table": mlp,
    "image": small_cnn,
    "text": text_bag,
}
#: how each is trained unless told otherwise
PLANS: dict[str, Plan] = {
    "features": Plan(epochs=20, batch_size=32, learning_rate=1e-3),
    "table": Plan(epochs=20, batch_size=64, learning_rate=1e-3),
    "image": Plan(epochs=20, batch_size=32, learning_rate=2e-3),
    "text": Plan(epochs=10, batch_size=64, learning_rate=7e-4),
}


FEW_STEPS, MANY_STEPS = 600, 10_000  #: that a network needs at least; that both make at most, up to MOST_ROWS a batch
FEWEST_ROWS, MOST_ROWS, MOST_EPOCHS = 8, 1_024, 60


def suited(plan: Plan, rows: int) -> Plan:
    """The same for few rows, with smaller batches and then more epochs; for very many, with larger batches."""
    size = max(FEWEST_ROWS, min(plan.batch_size, rows * plan.epochs // (2 * FEW_STEPS)))
    size = max(size, min(MOST_ROWS, rows * plan.epochs // MANY_STEPS))
    epochs = max(plan.epochs, min(MOST_EPOCHS, math.ceil(FEW_STEPS * size / (rows / 2))))
    return replace(plan, batch_size=size, epochs=epochs)


def maker(kind: str, inputs: int, classes: int, model: nn.Module | None) -> Callable[[int], nn.Module]:
    """What gives a network from a seed: copies of ``model``, or the one for this kind of data."""
    if model is not None:
        return lambda seed: copy.deepcopy(model)

    def make(seed: int) -> nn.Module:
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            return NETWORKS[kind](inputs, classes)

    return make


def standardised(x: Tensor) -> Tensor:
    """Features, each with mean 0 and spread 1."""
    return (x - x.mean(0)) / x.std(0, correction=0).clamp(min=1e-6)


def taken_from(x: Tensor) -> InMemory:
    """Inputs by row number, from a tensor in memory; bytes of images become numbers around 0."""
    if x.dtype != torch.uint8:
        return InMemory(x)
    some = x[:10_000].float() / 255
    return InMemory(x, (some.mean((0, 2, 3), keepdim=True), some.std((0, 2, 3), keepdim=True).clamp(min=1e-3)))


@dataclass(frozen=True)
class InMemory:
    """A tensor that gives its rows by number; of bytes, scaled."""

    x: Tensor
    scale: tuple[Tensor, Tensor] | None = None  #: mean and deviation of each channel, where x is bytes

    def __call__(self, rows: NDArray[np.int64]) -> Tensor:
        return scaled(self.x[torch.from_numpy(rows)], self.scale)


def scaled(x: Tensor, scale: tuple[Tensor, Tensor] | None) -> Tensor:
    """Bytes as numbers around 0; what has no scale stays as it is."""
    return x if scale is None else (x.float() / 255 - scale[0]) / scale[1]
