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


class Noise(NamedTuple):
    u: Tensor  #: (rows,) its square, at most 1, is added to the probability of the label
    v: Tensor  #: (rows, classes) its square, at most 1, is taken from that of each other class


@dataclass(frozen=True)
class SOP(Method[Noise]):
    """Minimise the cross-entropy of ``p + u^2`` at the label and ``p - v^2`` elsewhere, made to add up to 1.

    A label that the network keeps finding improbable is explained by its row's u and v in the end, and pulls at the
    network no more. Both are learned by plain gradient descent, a step at each visit of the row: u on this loss and on
    the squared error of (the predicted class + u^2 - v^2), which takes u back once the network predicts the label; v
    on the squared error alone.

    Args:
        rate_u: learning rate of u, for the loss of the row itself and not for the mean over a batch; above 0.
        rate_v: of v.
    """

    rate_u: float = 0.1
    rate_v: float = 0.1

    name: ClassVar[str] = "sop"
    summary: ClassVar[str] = "learns for each row how much of its label to explain away"
    paper: ClassVar[str] = "Liu et al. 2022"
    revision: ClassVar[int] = 2  # 1 let u grow where it has no slope, and never let it shrink
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

    def init(self, task: Task) -> Noise:
        return Noise(task.per_row(START), task.per_row_and_class(START))

    def step(self, state: Noise, batch: Batch) -> Decision:
        assert batch.logits is not None
        assert batch.labels is not None
        (u, v), labels, predicted = state, batch.labels, batch.logits.argmax(-1)
        explained = _explained(batch.logits, labels, u, v)
        label, total = explained.gather(-1, labels.unsqueeze(-1)).squeeze(-1), explained.sum(-1)
        losses = -(label / total).clamp(min=EDGE).log()
        label, total = label.detach(), total.detach()
        clamped = (label <= EDGE) | (label <= EDGE * total)  # before or after it is made to add up to 1
        slope = torch.where(clamped, 0, 1 / total - 1 / label)
        error_u = 2 * ((predicted == labels).to(u.dtype) + u.square() - 1)
        error_v = 2 * (v.square() - at_class(predicted, v).to(v.dtype))
        moved_u = u - self.rate_u * _by_square(u, slope + error_u)
        moved_v = v.where(at_class(labels, v), v - self.rate_v * _by_square(v, error_v))
        return Decision(batch.valid, {"u": moved_u, "v": moved_v}, losses=losses)


def _by_square(x: Tensor, slope: Tensor) -> Tensor:
    """The slope for x, of one for its square; beyond 1 the square is clamped, and there is none."""
    return torch.where(x.abs() > 1, 0, 2 * x * slope)


def _explained(logits: Tensor, labels: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """What the label is compared with, (B, classes), but for adding up to 1."""
    added, taken = u.square().clamp(max=1).unsqueeze(-1), v.square().clamp(max=1)
    shift = torch.where(at_class(labels, v), added, -taken)
    return (logits.softmax(-1) + shift.to(logits.dtype)).clamp(min=EDGE)
