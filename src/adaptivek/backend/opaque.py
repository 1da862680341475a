"""State as it was when it was read.

A step reads the state, and then writes the next one over it, in place. Compiled, the backward pass may prefer to
read a value again rather than to keep it, and would find what has been written since. The gradients would be
wrong without a word.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def _batched(info: Any, axes: tuple[int | None, ...], x: Tensor) -> tuple[Tensor, int | None]:
    return torch.ops.adaptivek.opaque(x), axes[0]


if not hasattr(torch.ops.adaptivek, "opaque"):  # registered once a process, however often this module is loaded
    # in parts: torch.library.custom_op would load all of the compiler with the package
    torch.library.define("adaptivek::opaque", "(Tensor x) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    torch.library.impl("adaptivek::opaque", "default", torch.clone)
    if hasattr(torch.library, "register_vmap"):  # from PyTorch 2.5 on; before, vmap finds its way more slowly
        torch.library.register_vmap("adaptivek::opaque", _batched)


def opaque(x: Tensor) -> Tensor:
    """``x``, which no compiler looks up a second time: unlike a plain copy, this is opaque to it."""
    return torch.ops.adaptivek.opaque(x) if torch.compiler.is_compiling() else x
