"""Curriculum: easy samples first, harder ones as epochs go by. Easy is what had a small loss when last seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task
from .itlm import smallest

UNSEEN = torch.inf  # no loss that counts is infinite


class Difficulty(NamedTuple):
    remembered: Tensor  #: (rows,) loss at the last visit, used or not
    chosen: Tensor  #: (rows,) bool: in use in this epoch


def unseen(task: Task) -> Difficulty:
    """Before the first visit every row is in use."""
    remembered = task.per_row(UNSEEN)
    return Difficulty(remembered, torch.ones_like(remembered, dtype=torch.bool))


def easiest(state: Difficulty, share: float) -> Difficulty:
    """The easiest share of the rows, and all that have never been seen."""
    return state._replace(chosen=smallest(state.remembered, share) | (state.remembered == UNSEEN))


def use_chosen(state: Difficulty, batch: Batch) -> Decision:
    return Decision(state.chosen, {"remembered": batch.loss})


@dataclass(frozen=True)
class Curriculum(Method[Difficulty]):
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

    def init(self, task: Task) -> Difficulty:
        return unseen(task)

    def start_epoch(self, state: Difficulty, epoch: int, full_pass: Tensor | None) -> Difficulty:
        gone = min(max(epoch - 1, 0) / self.ramp, 1.0)
        return easiest(state, self.start + (self.end - self.start) * gone)

    def step(self, state: Difficulty, batch: Batch) -> Decision:
        return use_chosen(state, batch)
