"""Optimisers by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


def make_optimizer(
    name: str,
    weights: Iterable[Tensor],
    learning_rate: float,
    *,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    graph_on: torch.device | None = None,
) -> torch.optim.Optimizer:
    """The optimiser ``adam``, or ``sgd`` with this momentum.

    Args:
        name: adam or sgd.
        weights: what it updates.
        learning_rate: at first.
        momentum: of sgd.
        weight_decay: penalty on large weights, added to the gradient.
        graph_on: the device on which a CUDA graph replays its steps, if one does.
    """
    rate: float | Tensor = learning_rate
    options: dict[str, Any] = {}
    if graph_on is not None:  # one kernel for all, with a learning rate that a graph can look up
        rate, options = torch.tensor(rate, device=graph_on), {"fused": True}
    if name == "adam":
        capturable = graph_on is not None
        return torch.optim.Adam(weights, rate, weight_decay=weight_decay, capturable=capturable, **options)
    return torch.optim.SGD(weights, rate, momentum, weight_decay=weight_decay, **options)
