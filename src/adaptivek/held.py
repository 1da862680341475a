"""State as it was when it was read.

A step reads the state, and then writes the next one over it, in place. Compiled, the backward pass may prefer to
read a value again rather than to keep it, and would find what has been written since. The gradients would be
wrong without a word.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("adaptivek::hold", mutates_args=())
def _hold(x: Tensor) -> Tensor:
    return x.clone()


@_hold.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _batched(info: Any, axes: tuple[int | None, ...], x: Tensor) -> tuple[Tensor, int | None]:
    return _hold(x), axes[0]


_hold.register_vmap(_batched)


def held(x: Tensor) -> Tensor:
    """``x``, which no compiler looks up a second time: unlike a plain copy, this is opaque to it."""
    return _hold(x) if torch.compiler.is_compiling() else x
