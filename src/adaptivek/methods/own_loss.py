"""What methods share that change the loss and nothing else."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..types import Seen, Selector, Stateless, Task


class OwnLoss(Selector[Stateless]):
    """Keeps every sample and remembers nothing; a subclass has a loss of its own."""

    leaves_out: ClassVar[bool] = False

    def init(self, task: Task) -> Stateless:
        return Stateless()

    @abstractmethod
    def losses(self, state: Stateless, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Tensor:
        """The loss of each sample, (..., B)."""

    def select(self, state: Stateless, seen: Seen) -> tuple[Tensor, Stateless]:
        return seen.counts, state


def at_class(classes: Tensor, like: Tensor) -> Tensor:
    """True at the class of each sample, (..., B, classes), for as many classes as ``like`` has."""
    return classes.unsqueeze(-1) == torch.arange(like.shape[-1], device=like.device)


def log_prob(logits: Tensor, labels: Tensor) -> Tensor:
    """The log-probability of each label, (..., B), from logits (..., B, classes)."""
    return F.log_softmax(logits, -1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
