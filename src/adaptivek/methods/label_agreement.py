"""Label agreement: once few labels are forgotten, only those are learned that are predicted with confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, EarlyNoise, Method, Task, add_label_

WINDOW = 256  # rows over which mean and deviation of the probability of each class are taken
ENOUGH = 0.75  # probability of a label that is always enough
OFTEN = 1.5  # times as many labels forgotten as are allowed: then no label is doubted
COMING_BACK = 0.1, 0.2  # share of the labels left out that are predicted at the next visit: from few to many
LATELY = 1 / 4  # of an epoch, over which forgotten labels are counted
FOUND = 1 / 2  # the same for labels that are predicted, of each class
QUARTER = 4  # a class of which less than a quarter is predicted is not learned, and none of its labels is doubted


class LabelAgreementState(NamedTuple):
    agreed: Tensor  #: (rows,) at the last visit: 1 where the label was predicted, -1 where it was left out, else 0
    moments: Tensor  #: (2, classes) mean and mean square of the probability of each class of late
    forgotten: Tensor  #: (2,) labels that were predicted a visit before: how many are not any more, and all of them
    returned: Tensor  #: (2,) labels that were left out a visit before: how many are predicted now, and all of them
    found: Tensor  #: (2, classes) labels of each class of late: how many are predicted, and all of them
    horizon: Tensor  #: the size of the training set


@dataclass(frozen=True)
class LabelAgreement(Method[LabelAgreementState]):
    """Plain training while labels are forgotten; then a label is learned if it is predicted, with confidence.

    A label is forgotten that was predicted at the last visit of its row and is not any more. A network that is still
    learning forgets many, and what it does not predict may be hard. Once it forgets few, what it does not predict is
    left out: a label counts if it is the predicted class, and its probability is a standard deviation above the mean of
    that class over all rows, or 3/4. What is left out is not memorised, so its prediction stays honest, and it counts
    again as soon as it is predicted. Where many labels come back like that they were hard, and for some epochs none is
    left out. Labels of a class that is hardly ever predicted are left alone.

    Args:
        limit: share of the predicted labels that may be forgotten from one visit to the next, above 0; at one and a
            half times as many no label is left out.
    """

    limit: float = 0.08

    name: ClassVar[str] = "label-agreement"
    summary: ClassVar[str] = "once few labels are forgotten, learns only those that are predicted with confidence"
    paper: ClassVar[str] = "this library"
    needs_rows: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("agreed",)

    def __post_init__(self) -> None:
        check_number("LabelAgreement", "limit", self.limit, 0, 1, open_low=True)

    def init(self, task: Task) -> LabelAgreementState:
        classes = task.classes or 0
        flat = torch.full((classes,), 1 / max(classes, 1))  # what a network says that knows nothing
        return LabelAgreementState(
            task.per_row(0.0),
            torch.stack([flat, flat.square()]),
            torch.zeros(2),
            torch.zeros(2),
            torch.zeros(2, classes),
            torch.tensor(float(task.rows or 1)),
        )

    def step(self, state: LabelAgreementState, batch: Batch) -> Decision:
        assert batch.logits is not None
        assert batch.labels is not None
        p = batch.logits.detach().softmax(-1)
        agrees = p.argmax(-1) == batch.labels
        moments = count_moments(state.moments, p, batch)
        confident = p.gather(-1, batch.labels.unsqueeze(-1)).squeeze(-1) >= thresholds(moments)[batch.labels]
        doubted = self._sure(state) * trust(state.found)[batch.labels]
        counts = torch.where(agrees & confident, 1.0, 1 - doubted).to(p.dtype)

        before, out = (state.agreed > 0) & batch.valid, (state.agreed < 0) & batch.valid
        labels = torch.stack([agrees & batch.valid, batch.valid]).to(state.found.dtype)
        found = torch.zeros_like(state.found).scatter_add(-1, batch.labels.expand(2, -1), labels)
        share = batch.n_valid / state.horizon
        return Decision(
            batch.valid,
            {
                "agreed": torch.where(agrees, 1.0, -(counts < 0.5).to(p.dtype)).to(state.agreed.dtype),
                "moments": moments,
                "forgotten": fade(state.forgotten, share / LATELY) + torch.stack([before & ~agrees, before]).sum(-1),
                "returned": fade(state.returned, share) + torch.stack([out & agrees, out]).sum(-1),
                "found": fade(state.found, share / FOUND) + found,
            },
            # what is left out has its own prediction for a target, so no gradient, and the steps of the rest are no
            # larger for it: with larger ones training at a high learning rate does not survive
            targets=add_label_((1 - counts).unsqueeze(-1) * p, batch, counts.unsqueeze(-1)),
            confidence=counts,
        )

    def early_noise(self, state: LabelAgreementState) -> EarlyNoise:
        """Labels that are not predicted, and not learned for that reason; while none is doubted, nothing is known."""
        predicted, number = state.found.sum(-1).unbind()
        share = (1 - predicted / number).where(self._sure(state) > 0, math.nan)
        return EarlyNoise(share, share, share)

    def _sure(self, state: LabelAgreementState) -> Tensor:
        """How far labels may be doubted, 0 to 1: a network must have settled, and its doubts must last."""
        return settled(state.forgotten, self.limit) * lasting(state.returned)


def settled(forgotten: Tensor, limit: float) -> Tensor:
    """How far a network has settled, 0 to 1: by the share of labels that it forgets, and a standard error."""
    lost, number = forgotten.unbind()
    share = (lost + 1) / (number + 2)
    most = share + (share * (1 - share) / number.clamp(min=1)).sqrt()
    return ((OFTEN * limit - most) / ((OFTEN - 1) * limit)).clamp(0, 1)


def lasting(returned: Tensor) -> Tensor:
    """How far doubts last, 0 to 1: by the share of labels left out that come to be predicted, less a standard error."""
    back, number = returned.unbind()
    share = back / number.clamp(min=1)
    least = share - (share * (1 - share) / number.clamp(min=1)).sqrt()
    few, many = COMING_BACK
    return ((many - least) / (many - few)).clamp(0, 1)


def trust(found: Tensor) -> Tensor:
    """How far labels of each class may be doubted, 0 to 1: more than a quarter of them must be predicted."""
    return (QUARTER * found[0] / (found[1] + 1) - 1).clamp(0, 1)


def thresholds(moments: Tensor) -> Tensor:
    """The probability from which on a label of each class is confident."""
    mean, square = moments[0], moments[1]
    return (mean + (square - mean.square()).clamp(min=0).sqrt()).clamp(max=ENOUGH)


def count_moments(moments: Tensor, p: Tensor, batch: Batch) -> Tensor:
    """Mean and mean square of the probability of each class with this batch."""
    valid = batch.valid.unsqueeze(-1)
    powers = torch.stack([(p * valid).sum(-2), (p.square() * valid).sum(-2)]) / batch.n_valid.clamp(min=1)
    return moments + (batch.n_valid / WINDOW).clamp(max=1) * (powers.to(moments.dtype) - moments)


def fade(counts: Tensor, share: Tensor) -> Tensor:
    """Earlier counts, by a batch that is this share of the time that they look back on."""
    return (1 - share).clamp(min=0) * counts
