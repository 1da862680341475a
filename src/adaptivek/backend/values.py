"""Whether the numbers of a tensor can be looked at."""

from __future__ import annotations

import torch
from torch import Tensor


def has_values(x: Tensor) -> bool:
    """Whether the values of ``x`` can be read at all, be it by waiting: not compiled, transformed or captured."""
    if torch.compiler.is_compiling() or x.is_meta or (x.is_cuda and torch.cuda.is_current_stream_capturing()):
        return False
    try:
        x.data_ptr()  # what `torch.func` hands to a function has none
    except RuntimeError:
        return False
    return True
