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
    return torch.ops.adaptivek.hold(x), axes[0]


# by hand: torch.library.custom_op would load all of the compiler with the package
_LIBRARY = torch.library.Library("adaptivek", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("hold(Tensor x) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]
_LIBRARY.impl("hold", torch.clone, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
torch.library.register_vmap("adaptivek::hold", _batched, lib=_LIBRARY)


def held(x: Tensor) -> Tensor:
    """``x``, which no compiler looks up a second time: unlike a plain copy, this is opaque to it."""
    return torch.ops.adaptivek.hold(x) if torch.compiler.is_compiling() else x
