"""SOP, sparse over-parameterisation: each row has some say of its own over its label, learned beside the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..checks import check_number
from ..types import Seen, Selector, Task, each_run, rows_of
from .elr import prediction_table
from .own_loss import at_class

START = 1e-8  # of u and v: so small that only what is pulled for many epochs grows
EDGE = 1e-4  # no probability is below, as in the authors' code


class Excuses(NamedTuple):
    u: Tensor  #: (rows,) its square is added to the probability of the label
    v: Tensor  #: (rows, classes) its square is taken from that of each other class


@dataclass(frozen=True)
class SOP(Selector[Excuses]):
    """Minimise the cross-entropy of ``p + u^2`` at the label and ``p - v^2`` elsewhere, made to add up to 1.

    A label that the network keeps finding improbable is explained by its row's u and v in the end, and pulls at the
    network no more. Both are learned by plain gradient descent, a step at each visit of the row: u on this loss, v on
    the squared error of the prediction.

    Args:
        rate_u: learning rate of u, for the loss of one sample; above 0.
        rate_v: of v.
    """

    rate_u: float = 0.1
    rate_v: float = 0.1

    name: ClassVar[str] = "sop"
    summary: ClassVar[str] = "learns for each row how much of its label to explain away"
    paper: ClassVar[str] = "Liu et al. 2022"
    leaves_out: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("u", "v")

    def __post_init__(self) -> None:
        check_number("SOP", "rate_u", self.rate_u, 0, open_low=True)
        check_number("SOP", "rate_v", self.rate_v, 0, open_low=True)

    def init(self, task: Task) -> Excuses:
        table = prediction_table("SOP", task) + START
        return Excuses(table[:, 0].clone(), table)

    def losses(self, state: Excuses, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Tensor:
        assert rows is not None  # Selection has checked needs_rows
        explained = _explained(logits, labels, rows_of(state.u, rows), rows_of(state.v, rows))
        return explained.sum(-1).log() - explained.gather(-1, labels.unsqueeze(-1)).squeeze(-1).log()

    def select(self, state: Excuses, seen: Seen) -> tuple[Tensor, Excuses]:
        assert seen.rows is not None
        assert seen.logits is not None
        assert seen.labels is not None
        labels, u, v = seen.labels.clamp(min=0), rows_of(state.u, seen.rows), rows_of(state.v, seen.rows)
        explained = _explained(seen.logits, labels, u, v)
        label = explained.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        slope_u = 2 * u * (1 / explained.sum(-1) - 1 / label)
        predicted = at_class(seen.logits.argmax(-1), seen.logits)
        slope_v = -4 * v * (predicted.to(v.dtype) - v.square())
        moved_u = (u - each_run(self.rate_u) * slope_u).clamp(0, 1)
        moved_v = (v - each_run(self.rate_v, axes=2) * slope_v).clamp(0, 1)
        return seen.counts, Excuses(moved_u, v.where(at_class(labels, v), moved_v))


def _explained(logits: Tensor, labels: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """What the label is compared with, (..., B, classes), but for adding up to 1."""
    shift = torch.where(at_class(labels, v), u.square().unsqueeze(-1), -v.square())
    return (logits.softmax(-1) + shift.to(logits.dtype)).clamp(min=EDGE)
