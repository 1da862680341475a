"""Exponentiated-gradient reweighting: a weight for each training row that shrinks with every loss it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task


class Weights(NamedTuple):
    log_weight: Tensor  #: (rows,) logarithm of the weight, up to a constant that all rows share


@dataclass(frozen=True)
class EGReweighting(Method[Weights]):
    """Multiply a sample's weight by ``exp(-rate * loss)`` at each visit, and train on the weighted mean.

    The weights are a distribution over the training set. The mean over a batch divides by their sum, so only their
    ratios matter: they are given relative to the largest of the batch.

    Args:
        rate: how hard a loss is punished, above 0.
        decay: exponent of the old weight, in [0, 1]. Below 1 old losses fade and weights cannot run away.
    """

    rate: float = 0.1
    decay: float = 1.0

    name: ClassVar[str] = "eg-reweighting"
    summary: ClassVar[str] = "weighs each sample by exp(-rate * the sum of its losses so far)"
    paper: ClassVar[str] = "Majidi, Amid, Talebi, Warmuth 2021"
    leaves_out: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("log_weight",)

    def __post_init__(self) -> None:
        check_number("EGReweighting", "rate", self.rate, 0, open_low=True)
        check_number("EGReweighting", "decay", self.decay, 0, 1)

    def init(self, task: Task) -> Weights:
        return Weights(task.per_row(0.0))

    def step(self, state: Weights, batch: Batch) -> Decision:
        moved = self.decay * state.log_weight - self.rate * batch.loss
        largest = moved.where(batch.valid, -torch.inf).amax(-1)
        return Decision((moved - largest).clamp(max=0).exp(), {"log_weight": moved})
