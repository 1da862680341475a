"""DLT, dynamic loss thresholding: remember each sample's loss; a threshold between the low and the high ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task

UNSEEN = torch.inf  # no loss that counts is infinite


class Losses(NamedTuple):
    remembered: Tensor  #: (rows,) loss at the last visit
    early: Tensor  #: (rows,) what was remembered when the plain epochs were over
    bound: Tensor  #: the threshold of this epoch
    gap_ratio: Tensor  #: noise ratio read from the gap between early and late losses; 0 until it can be had


def split(values: Tensor, counted: Tensor) -> Tensor:
    """The threshold that parts (n,) values in two: halfway between the means of both parts, found in a few rounds."""
    values = values.double().where(counted, 0.0)

    def mean(part: Tensor, otherwise: Tensor) -> Tensor:
        number = part.sum()
        return torch.where(number > 0, (values * part).sum() / number.clamp(min=1), otherwise)

    threshold = mean(counted, values.new_zeros(()))
    for _ in range(20):
        above = values > threshold
        threshold = (mean(counted & ~above, threshold) + mean(counted & above, threshold)) / 2
    return threshold


@dataclass(frozen=True)
class DLT(Method[Losses]):
    """Train plainly for some epochs, then keep losses up to a threshold that is set anew each epoch.

    The threshold lies halfway between the mean of the low and the mean of the high among the remembered losses.
    ``criterion.state_gap_ratio`` is a second reading of the noise ratio: the share of the rows whose loss has not come
    down since the plain epochs as that of the others has.

    Args:
        plain: epochs of plain training first, at least 1, in which losses are remembered already.
    """

    plain: int = 5

    name: ClassVar[str] = "dlt"
    summary: ClassVar[str] = "remembers losses; keeps those below the middle of the low and the high ones"
    paper: ClassVar[str] = "Yang et al. 2021"
    needs_rows: ClassVar[bool] = True
    needs_epochs: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("remembered", "early")

    def __post_init__(self) -> None:
        check_number("DLT", "plain", self.plain, 1, whole=True)

    def init(self, task: Task) -> Losses:
        unseen = task.per_row(UNSEEN)
        return Losses(unseen, unseen.clone(), torch.tensor(UNSEEN), torch.zeros(()))

    def start_epoch(self, state: Losses, epoch: int, full_pass: Tensor | None) -> Losses:
        known = state.remembered < UNSEEN
        if epoch < self.plain or not bool(known.any()):
            return state
        bound = split(state.remembered, known).to(state.bound.dtype)
        both = known & (state.early < UNSEEN)
        gap = (state.early - state.remembered).where(both, 0.0)
        fallen = (gap > split(gap, both)) & both
        ratio = (both.sum() - fallen.sum()) / both.sum().clamp(min=1)
        return Losses(state.remembered, state.early.where(both, state.remembered), bound, ratio)

    def step(self, state: Losses, batch: Batch) -> Decision:
        return Decision(batch.loss <= state.bound, {"remembered": batch.loss})

    def loss_threshold(self, state: Losses) -> Tensor:
        return state.bound
