"""Optimisers by name."""

from __future__ import annotations

from collections.abc import Iterable

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
    # a graph looks its learning rate up
    rate: float | Tensor = learning_rate if graph_on is None else torch.tensor(learning_rate, device=graph_on)
    captured = graph_on is not None
    if name == "adam":  # fused, a step of many weights takes a third of the time, on a processor too
        return torch.optim.Adam(weights, rate, weight_decay=weight_decay, capturable=captured, fused=True)
    fused = {"fused": True} if captured else {}
    return torch.optim.SGD(weights, rate, momentum, weight_decay=weight_decay, **fused)
