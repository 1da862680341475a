"""Cyclical curriculum: the share of easy samples in use grows, shrinks and grows again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..checks import check_number
from ..types import Seen, Selector, Task
from .curriculum import Lessons, easiest, no_lessons, study


@dataclass(frozen=True)
class CyclicalCurriculum(Selector[Lessons]):
    """Keep the easiest share of the training set: divided by ``factor`` each epoch up to ``end``, then multiplied
    by it down to ``start``, and so on.

    The first epoch uses everything: it is where difficulty is first measured.

    Args:
        start: the smallest share, in (0, 1].
        end: the largest share, in (0, 1].
        factor: what an epoch divides or multiplies the share by, in (0, 1).
    """

    start: float = 0.25
    end: float = 1.0
    factor: float = 0.5

    name: ClassVar[str] = "cyclical-curriculum"
    summary: ClassVar[str] = "easy samples first, in cycles: the share in use grows and shrinks"
    paper: ClassVar[str] = "Kesgin, Amasyali 2022"
    leaves_out: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = True
    needs_epochs: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("remembered", "chosen")

    def __post_init__(self) -> None:
        check_number("CyclicalCurriculum", "start", self.start, 0, 1, open_low=True)
        check_number("CyclicalCurriculum", "end", self.end, self.start, 1)
        check_number("CyclicalCurriculum", "factor", self.factor, 0, 1, open_low=True, open_high=True)

    def init(self, task: Task) -> Lessons:
        return no_lessons("CyclicalCurriculum", task)

    def refresh(self, state: Lessons, epoch: int, swept: Tensor | None) -> Lessons:
        return easiest(state, self.share(epoch, state.remembered[..., 0]))

    def share(self, epoch: int, like: Tensor) -> Tensor:
        """The share of an epoch, one for each run; gone through from the start, for each run turns when it must."""
        low, high = (torch.zeros_like(like) + end for end in (self.start, self.end))
        share, rising = low, torch.ones_like(low, dtype=torch.bool)
        for _ in range(epoch - 1):
            rising = (rising & (share < high)) | (share <= low)
            share = torch.where(rising, share / self.factor, share * self.factor).clamp(low, high)
        return share

    def select(self, state: Lessons, seen: Seen) -> tuple[Tensor, Lessons]:
        return study(state, seen)
