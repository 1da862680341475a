"""Median-TGD, median-truncated gradient descent: keep losses up to a multiple of the batch's median."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..checks import check_number
from ..types import Seen, Selector, Task


class Bound(NamedTuple):
    bound: Tensor  #: the loss up to which samples of the last batch were kept


def median(seen: Seen) -> Tensor:
    """The middle one of the losses that count, or the mean of the two in the middle."""
    ordered = seen.loss.where(seen.counts, torch.inf).sort(-1).values  # what does not count comes last
    last = seen.number.long() - 1
    middle = torch.stack([last.div(2, rounding_mode="floor"), (last + 1).div(2, rounding_mode="floor")], -1)
    return ordered.gather(-1, middle.clamp(min=0)).mean(-1)


@dataclass(frozen=True)
class MedianTGD(Selector[Bound]):
    """Keep ``loss <= factor * median`` of the mini-batch. The median is safe up to half of wrong labels.

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

    def select(self, state: Bound, seen: Seen) -> tuple[Tensor, Bound]:
        bound = self.factor * median(seen)
        return seen.loss <= bound.unsqueeze(-1), Bound(bound)

    def cut(self, state: Bound) -> Tensor:
        return state.bound
