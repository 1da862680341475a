"""ELR, early-learning regularisation: what a sample was predicted to be early on holds it back from its wrong label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..checks import check_number
from ..types import Seen, Selector, Task, each_run, rows_of
from .own_loss import log_prob

EDGE = 1e-4  # probabilities stay this far from 0 and 1, as in the authors' code


class Targets(NamedTuple):
    targets: Tensor  #: (rows, classes) moving average of each row's predictions


@dataclass(frozen=True)
class ELR(Selector[Targets]):
    """Minimise ``CE + strength * log(1 - <t, p>)``, t the moving average of the sample's own predictions p.

    The second term pulls predictions towards what they have been, and outweighs the pull of a wrong label.

    Args:
        strength: lambda of the paper, at least 0.
        beta: how slowly the average moves, in [0, 1); it moves once a visit, so once an epoch.
    """

    strength: float = 3.0
    beta: float = 0.7

    name: ClassVar[str] = "elr"
    summary: ClassVar[str] = "holds each prediction near the average of its earlier ones"
    paper: ClassVar[str] = "Liu et al. 2020"
    leaves_out: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("targets",)

    def __post_init__(self) -> None:
        check_number("ELR", "strength", self.strength, 0)
        check_number("ELR", "beta", self.beta, 0, 1, open_high=True)

    def init(self, task: Task) -> Targets:
        return Targets(prediction_table("ELR", task))

    def losses(self, state: Targets, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Tensor:
        p = _probabilities(logits)
        agreement = (self._moved(state, p.detach(), rows) * p).sum(-1)
        return each_run(self.strength) * (1 - agreement).log() - log_prob(logits, labels)

    def select(self, state: Targets, seen: Seen) -> tuple[Tensor, Targets]:
        assert seen.logits is not None  # Selection has checked needs_logits
        return seen.counts, Targets(self._moved(state, _probabilities(seen.logits), seen.rows))

    def _moved(self, state: Targets, p: Tensor, rows: Tensor | None) -> Tensor:
        assert rows is not None  # Selection has checked needs_rows
        beta = each_run(self.beta, axes=2)
        return beta * rows_of(state.targets, rows) + (1 - beta) * p / p.sum(-1, keepdim=True)


def prediction_table(owner: str, task: Task) -> Tensor:
    """Zeros, for each row and class."""
    for name, value, example in (("rows", task.rows, "len(train_set)"), ("classes", task.classes, "10")):
        if value is None:
            raise ValueError(f"{owner}: {name} must be given: Selection(..., {name}={example})")
    assert task.rows is not None
    assert task.classes is not None
    return torch.zeros(task.rows, task.classes)


def _probabilities(logits: Tensor) -> Tensor:
    return logits.softmax(-1).clamp(EDGE, 1 - EDGE)
