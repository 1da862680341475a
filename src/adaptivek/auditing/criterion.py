"""The gradient of the loss by the logits of both networks in a step.

A gradient instead of a loss: torch then differentiates nothing but the networks. ELR has a short gradient, and its step
takes a tenth of the time. Any other method goes through `Selection`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..backend import tables
from ..criterion import Selection
from ..methods import build
from ..methods.elr import EDGE, ELR


class EarlyLearning(nn.Module):
    """`ELR`, its gradient written out; the same as `Selection` gives to the precision of the arithmetic.

    Once there are label posteriors, they replace the targets that it remembers, and rows are trained on them.
    """

    targets: Tensor

    def __init__(self, method: ELR, rows: int, classes: int) -> None:
        super().__init__()
        self.method, self.uses_posterior = method, False
        self.register_buffer("targets", torch.zeros(rows, classes))

    def start_epoch(self, epoch: int) -> None:
        """Nothing depends on the epoch."""

    def set_posterior(self, rows: slice, posterior: Tensor) -> None:
        """Train on these label posteriors from now on: (rows, classes)."""
        self.targets[rows] = posterior.to(self.targets)
        self.uses_posterior = True

    @torch.no_grad()
    def gradient(self, logits: Tensor, labels: Tensor, rows: Tensor) -> Tensor:
        """Of the loss of each network, the mean over its half of the batch."""
        if self.uses_posterior:
            return (logits.softmax(1) - self.targets[rows]).mul_(2 / len(labels))
        beta, strength = self.method.beta, self.method.strength
        p = logits.softmax(1)
        inside = p.clamp(EDGE, 1 - EDGE)
        target = torch.lerp(inside / inside.sum(1, keepdim=True), self.targets[rows], beta)
        tables.write(self.targets, rows, target, torch.ones_like(rows, dtype=torch.bool))  # rare rows come twice
        pull = strength * target * (inside == p) / (1 - (target * inside).sum(1, keepdim=True))
        gradient = p * (1 - pull + (pull * p).sum(1, keepdim=True))
        gradient.scatter_add_(1, labels[:, None], gradient.new_full((len(labels), 1), -1.0))
        return gradient.mul_(2 / len(labels))


class BySelection(Selection):
    """Any method, by `Selection`; the method sees the batches of both networks as one."""

    def gradient(self, logits: Tensor, labels: Tensor, rows: Tensor) -> Tensor:
        """Of the loss of each network, the mean over its half of the batch."""
        logits.requires_grad_()
        (gradient,) = torch.autograd.grad(2 * self(logits, labels, rows), logits)
        logits.requires_grad_(False)
        return gradient


def criterion(
    name: str, rows: int, classes: int, steps: int, start: Tensor | None = None
) -> EarlyLearning | BySelection:
    """For a method by name; ``steps`` are those of the whole run, a third of which some use to warm up.

    ``start`` are predictions that its memory begins with, see `Selection`.
    """
    method = build(name)
    if isinstance(method, ELR) and start is None:
        return EarlyLearning(method, rows, classes)
    warmup = steps // 3 if method.wants_warmup else 0
    return BySelection(method, warmup=warmup, rows=rows, classes=classes, start=start, distributed=False)
