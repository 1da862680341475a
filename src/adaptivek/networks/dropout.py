"""Dropout whose masks do not come from a global random state.

A mask is a function of a key that the training loop sets, so a run drops the same units whether it is
trained alone or stacked with others, on a CPU or a GPU, in one go or resumed.
"""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import Tensor, nn

from ..backend.hashing import scrambled

LOWEST, RANGE = -(2**63), 2**64  # of int64


class Dropout(nn.Module):
    """As `nn.Dropout` (or `nn.Dropout2d`), with masks decided by ``key``.

    Args:
        rate: share of the units that is dropped.
        whole_channels: drop all of a channel or none of it.
    """

    key: Tensor

    def __init__(self, rate: float = 0.5, whole_channels: bool = False) -> None:
        super().__init__()
        self.rate, self.whole_channels = rate, whole_channels
        self.register_buffer("key", torch.ones(2, dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        shape = x.shape[:2] if self.whole_channels else x.shape
        # multiply-shift hashing: spread numbers times an odd random one, overflow wanted, plus another
        drawn = torch.addcmul(self.key[0], _spread(shape.numel(), x.device), self.key[1]).view(shape)
        kept = (drawn >= int(LOWEST + self.rate * RANGE)) / (1 - self.rate)
        return x * kept.view(*shape, *[1] * (x.dim() - len(shape))).to(x.dtype)

    def extra_repr(self) -> str:
        return f"rate={self.rate}, whole_channels={self.whole_channels}"


def draw_keys(layers: int, draws: int, rng: np.random.Generator) -> Tensor:
    """Keys for some dropout layers and forward passes, (draws, layers, 2)."""
    keys = rng.integers(LOWEST, -LOWEST - 1, (draws, layers, 2), endpoint=True)
    return torch.from_numpy(keys | [0, 1])  # odd, so that no two numbers fall together


def set_keys(model: nn.Module, keys: Tensor) -> None:
    """Give each dropout layer of ``model`` its key, (layers, 2)."""
    for layer, key in zip(dropout_layers(model).values(), keys, strict=True):
        layer.key = key


def dropout_layers(model: nn.Module) -> dict[str, Dropout]:
    return {name: module for name, module in model.named_modules() if isinstance(module, Dropout)}


@functools.lru_cache(maxsize=64)
def _spread(number: int, device: torch.device) -> Tensor:
    return scrambled(torch.arange(number, device=device))
