"""SOP, sparse over-parameterisation: each row has some say of its own over its label, learned beside the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task, at_class

START = 1e-8  # of u and v: so small that only what is pulled for many epochs grows
EDGE = 1e-4  # no probability is below, as in the authors' code


class Excuses(NamedTuple):
    u: Tensor  #: (rows,) its square is added to the probability of the label
    v: Tensor  #: (rows, classes) its square is taken from that of each other class


@dataclass(frozen=True)
class SOP(Method[Excuses]):
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
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    own_loss: ClassVar[bool] = True
    soft_targets: ClassVar[bool] = False
    tables: ClassVar[tuple[str, ...]] = ("u", "v")

    def __post_init__(self) -> None:
        check_number("SOP", "rate_u", self.rate_u, 0, open_low=True)
        check_number("SOP", "rate_v", self.rate_v, 0, open_low=True)

    def init(self, task: Task) -> Excuses:
        v = task.per_row_and_class(START)
        return Excuses(v[:, 0].clone(), v)

    def step(self, state: Excuses, batch: Batch) -> Decision:
        assert batch.logits is not None
        assert batch.labels is not None
        (u, v), labels = state, batch.labels
        explained = _explained(batch.logits, labels, u, v)
        label = explained.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        slope_u = 2 * u * (1 / explained.sum(-1) - 1 / label).detach()
        predicted = at_class(batch.logits.argmax(-1), batch.logits)
        slope_v = -4 * v * (predicted.to(v.dtype) - v.square())
        moved_u = (u - self.rate_u * slope_u).clamp(0, 1)
        moved_v = v.where(at_class(labels, v), (v - self.rate_v * slope_v).clamp(0, 1))
        return Decision(batch.valid, {"u": moved_u, "v": moved_v}, losses=explained.sum(-1).log() - label.log())


def _explained(logits: Tensor, labels: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """What the label is compared with, (B, classes), but for adding up to 1."""
    shift = torch.where(at_class(labels, v), u.square().unsqueeze(-1), -v.square())
    return (logits.softmax(-1) + shift.to(logits.dtype)).clamp(min=EDGE)
