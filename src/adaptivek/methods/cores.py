"""CORES²: a loss that rewards confidence, and a sieve for labels that are less probable than a class is on average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task, observed

EDGE = 1e-8  # added to every probability, as in the authors' code: no cross-entropy is above 18.4


class Sieve(NamedTuple):
    strength: Tensor  #: of the regulariser in this epoch
    open: Tensor  #: bool: nothing is left out in this epoch
    prior: Tensor  #: (classes,) share of each label among the samples kept in the last epoch
    kept: Tensor  #: (classes,) how many of each label have been kept in this epoch


@dataclass(frozen=True)
class CORES(Method[Sieve]):
    """Minimise ``CE - strength * the mean of CE over the label prior``, where CE is at most its mean over the classes.

    The regulariser makes predictions confident, which pulls clean and noisy labels apart. The strength is 0 for some
    epochs and then rises to ``beta`` in a straight line; all of it is divided by 1 + strength. The prior is that of
    the labels kept in the last epoch.

    Args:
        beta: strength to come up to, at least 0.
        plain: epochs of plain cross-entropy first.
        ramp: epochs in which the strength rises; it is 0 in the first of them and ``beta`` in the last.
        sieve: the epoch, from 0, from which on samples are left out.
    """

    beta: float = 2.0
    plain: int = 10
    ramp: int = 30
    sieve: int = 31

    name: ClassVar[str] = "cores"
    summary: ClassVar[str] = "rewards confidence, then keeps labels that are more probable than a class is on average"
    paper: ClassVar[str] = "Cheng et al. 2021"
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    needs_epochs: ClassVar[bool] = True
    own_loss: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("CORES", "beta", self.beta, 0)
        check_number("CORES", "plain", self.plain, 0, whole=True)
        check_number("CORES", "ramp", self.ramp, 1, whole=True)
        check_number("CORES", "sieve", self.sieve, 0, whole=True)

    def init(self, task: Task) -> Sieve:
        classes = task.classes or 0
        alike = torch.full((classes,), 1 / max(1, classes))  # until an epoch has been seen
        return Sieve(torch.zeros(()), torch.tensor(True), alike, torch.zeros(classes))

    def start_epoch(self, state: Sieve, epoch: int, full_pass: Tensor | None) -> Sieve:
        risen = (epoch - self.plain) / max(1, self.ramp - 1)
        total = state.kept.sum()
        return Sieve(
            torch.full_like(state.strength, self.beta * min(max(risen, 0.0), 1.0)),
            torch.full_like(state.open, epoch < self.sieve),
            torch.where(total > 0, state.kept / total, state.prior),
            torch.zeros_like(state.kept),
        )

    def step(self, state: Sieve, batch: Batch) -> Decision:
        assert batch.logits is not None
        each = -(batch.logits.softmax(-1) + EDGE).log()  # cross-entropy with every class, (B, classes)
        kept = state.open | (batch.losses <= each.mean(-1))
        counted = (kept & batch.valid).unsqueeze(-1) * observed(batch)
        losses = batch.losses - state.strength * (state.prior * each).sum(-1)
        # the authors divide the learning rate by this, which with plain SGD is the same; steps get too large without
        losses = losses / (1 + state.strength)
        return Decision(kept, {"kept": state.kept + counted.sum(-2)}, losses=losses)
