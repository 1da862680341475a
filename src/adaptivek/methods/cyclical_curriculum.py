"""Cyclical curriculum: the share of easy samples in use grows, shrinks and grows again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task
from .curriculum import Difficulty, easiest, unseen, use_chosen


@dataclass(frozen=True)
class CyclicalCurriculum(Method[Difficulty]):
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

    def init(self, task: Task) -> Difficulty:
        return unseen(task)

    def start_epoch(self, state: Difficulty, epoch: int, full_pass: Tensor | None) -> Difficulty:
        return easiest(state, self.share(epoch))

    def share(self, epoch: int) -> float:
        """The share of an epoch, gone through from the start."""
        share, rising = self.start, True
        for _ in range(epoch - 1):
            rising = (rising and share < self.end) or share <= self.start
            share = min(max(share / self.factor if rising else share * self.factor, self.start), self.end)
        return share

    def step(self, state: Difficulty, batch: Batch) -> Decision:
        return use_chosen(state, batch)
