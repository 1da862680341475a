"""Forward correction: compare the labels with what the predictions become once noise has passed over them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task

TINY = 1e-7  # no entry of the transition matrix is below: a label that nothing leads to would have an infinite loss


class Transition(NamedTuple):
    matrix: Tensor  #: (classes, classes) how probable each observed label is where the first is the true class
    estimated: Tensor  #: bool: whether that has been estimated; until then nothing is corrected


def estimate(logits: Tensor, percentile: float) -> Tensor:
    """The transition matrix from the logits of all rows, (rows, classes).

    A row of it is what the network predicts at the anchor of a class: the row of the training set that most surely
    belongs to it. Of the probabilities of the class those from this percentile on are passed over as outliers.
    """
    p = candidates = logits.softmax(-1)
    if percentile < 100:
        bound = p.sort(0).values[math.ceil(percentile / 100 * (len(p) - 1))]
        candidates = p.where(p < bound, -1)
    matrix = p[candidates.argmax(0)].clamp(min=TINY)
    return matrix / matrix.sum(-1, keepdim=True)


@dataclass(frozen=True)
class Forward(Method[Transition]):
    """Minimise ``-log sum over c of p(c) * T[c, label]``, T the transition matrix, estimated when warm-up ends.

    A network that predicts the true classes then has the smallest loss, though it is trained on noisy labels. T comes
    from one full pass of the network as plain training has left it, which should predict the noisy labels well but
    not have memorised them.

    Args:
        percentile: in each class, rows at or above this percentile of its probability are not taken for its anchor,
            in (0, 100]. At 100 the anchor is the most probable row.
    """

    percentile: float = 97.0

    name: ClassVar[str] = "forward"
    summary: ClassVar[str] = "corrects predictions by a transition matrix, estimated after plain training"
    paper: ClassVar[str] = "Patrini et al. 2017"
    wants_warmup: ClassVar[bool] = True
    leaves_out: ClassVar[bool] = False
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    own_loss: ClassVar[bool] = True
    soft_targets: ClassVar[bool] = False
    needs_epochs: ClassVar[bool] = True
    full_pass: ClassVar[Literal["", "losses", "features", "logits"]] = "logits"

    def __post_init__(self) -> None:
        check_number("Forward", "percentile", self.percentile, 0, 100, open_low=True)

    def init(self, task: Task) -> Transition:
        return Transition(torch.eye(task.classes or 0).clamp(min=TINY), torch.tensor(False))

    def start_epoch(self, state: Transition, epoch: int, full_pass: Tensor | None) -> Transition:
        assert full_pass is not None
        if bool(state.estimated):
            return state
        return Transition(estimate(full_pass, self.percentile), torch.ones_like(state.estimated))

    def step(self, state: Transition, batch: Batch) -> Decision:
        assert batch.logits is not None
        assert batch.labels is not None
        to_label = state.matrix.t()[batch.labels].log().to(batch.logits.dtype)
        losses = -(F.log_softmax(batch.logits, -1) + to_label).logsumexp(-1)
        return Decision(batch.valid, losses=torch.where(state.estimated, losses, batch.losses))
