"""Earlier predictions of each row, for a memory to begin with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..method import Method

NEAR = 0.02  #: by which probabilities may miss adding up to 1, in half precision


def earlier_predictions(owner: str, method: Method[Any], given: Any, rows: int | None, classes: int | None) -> Tensor:
    """A table (rows, classes) of probabilities; raises what is none. Rows of zeros are not known."""
    if not method.takes_start:
        raise ValueError(
            f"{owner}: start must be None for {method.name}, which remembers no predictions: it can learn from the "
            "targets of an audit, given in place of labels"
        )
    try:
        table = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"{owner}: start must be the result of an audit, or probabilities of shape (rows, classes), got "
            f"{type(given).__name__}"
        ) from None
    if table.dim() != 2 or not table.is_floating_point() or not table.numel():
        raise ValueError(
            f"{owner}: start must be probabilities of shape (rows, classes), got {table.dtype} of shape "
            f"{tuple(table.shape)}"
        )
    for name, told, found in (("rows", rows, len(table)), ("classes", classes, table.shape[1])):
        if told not in (None, found):
            raise ValueError(f"{owner}: start must be of the {told} {name} that {name}= says, got {found}")
    table = table.detach().float()
    total = table.sum(1)
    wrong = ~((total - 1).abs() <= NEAR) & (total != 0) | (table < 0).any(1)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise ValueError(f"{owner}: start must add up to 1 in each row, or be 0 all along; row {row} does not")
    return table / total.clamp(min=1e-6).unsqueeze(1)
