"""Median-TGD, median-truncated gradient descent: keep losses up to a multiple of the batch's median."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task


class Bound(NamedTuple):
    bound: Tensor  #: the loss up to which samples of the last batch were kept


def median(batch: Batch) -> Tensor:
    """The middle one of the losses of the valid samples, or the mean of the two in the middle."""
    ordered = batch.loss.where(batch.valid, torch.inf).sort(-1).values  # what is not valid comes last
    last = batch.n_valid.long() - 1
    middle = torch.stack([last.div(2, rounding_mode="floor"), (last + 1).div(2, rounding_mode="floor")], -1)
    return ordered.gather(-1, middle.clamp(min=0)).mean(-1)


@dataclass(frozen=True)
class MedianTGD(Method[Bound]):
    """Keep ``loss <= factor * median`` of the mini-batch. The median is safe up to half of noisy labels.

    Args:
        factor: how far above the median a loss may be, at least 1: below, less than half is kept, whatever
            the noise.
    """

    factor: float = 2.0

    name: ClassVar[str] = "median-tgd"
    summary: ClassVar[str] = "keeps losses up to a multiple of the batch's median; needs no noise ratio"
    paper: ClassVar[str] = "Chi, Li, Zhang, Liang 2019"

    def __post_init__(self) -> None:
        check_number("MedianTGD", "factor", self.factor, 1)

    def init(self, task: Task) -> Bound:
        return Bound(torch.zeros(()))

    def step(self, state: Bound, batch: Batch) -> Decision:
        bound = self.factor * median(batch)
        return Decision(batch.loss <= bound, {"bound": bound})

    def loss_threshold(self, state: Bound) -> Tensor:
        return state.bound
