"""Curriculum: easy samples first, harder ones as epochs go by. Easy is what had a small loss when last seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..checks import check_number
from ..types import Seen, Selector, Task, rows_of
from .itlm import smallest

UNSEEN = torch.inf  # no loss that counts is infinite


class Lessons(NamedTuple):
    remembered: Tensor  #: (rows,) loss at the last visit, used or not
    chosen: Tensor  #: (rows,) bool: in use in this epoch


def no_lessons(owner: str, task: Task) -> Lessons:
    if task.rows is None:
        raise ValueError(f"{owner}: rows must be given: Selection(..., rows=len(train_set)), got None")
    return Lessons(torch.full((task.rows,), UNSEEN), torch.ones(task.rows, dtype=torch.bool))


def easiest(state: Lessons, share: Tensor) -> Lessons:
    """The easiest share of the rows, and all that have never been seen."""
    return state._replace(chosen=smallest(state.remembered, share) | (state.remembered == UNSEEN))


def study(state: Lessons, seen: Seen) -> tuple[Tensor, Lessons]:
    assert seen.rows is not None  # Selection has checked needs_rows
    return rows_of(state.chosen, seen.rows), state._replace(remembered=seen.loss)


@dataclass(frozen=True)
class Curriculum(Selector[Lessons]):
    """Keep the easiest share of the training set, which grows evenly from ``start`` to ``end``.

    The first epoch uses everything: it is where difficulty is first measured.

    Args:
        start: share in the second epoch, in (0, 1].
        end: share in the end, in (0, 1]; at 1 it ends as plain training.
        ramp: epochs to get there.
    """

    start: float = 0.3
    end: float = 1.0
    ramp: int = 20

    name: ClassVar[str] = "curriculum"
    summary: ClassVar[str] = "easy samples first: a share of the training set that grows over the epochs"
    paper: ClassVar[str] = "Bengio, Louradour, Collobert, Weston 2009"
    leaves_out: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = True
    needs_epochs: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("remembered", "chosen")

    def __post_init__(self) -> None:
        check_number("Curriculum", "start", self.start, 0, 1, open_low=True)
        check_number("Curriculum", "end", self.end, 0, 1, open_low=True)
        check_number("Curriculum", "ramp", self.ramp, 1, whole=True)

    def init(self, task: Task) -> Lessons:
        return no_lessons("Curriculum", task)

    def refresh(self, state: Lessons, epoch: int, swept: Tensor | None) -> Lessons:
        gone = min(max(epoch - 1, 0) / self.ramp, 1.0)
        share = torch.as_tensor(self.start + (self.end - self.start) * gone).to(state.remembered)
        return easiest(state, share)

    def select(self, state: Lessons, seen: Seen) -> tuple[Tensor, Lessons]:
        return study(state, seen)
