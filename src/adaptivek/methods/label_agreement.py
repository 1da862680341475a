"""Label agreement: after the first visits, labels are doubted only where a network has stopped learning them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, EarlyNoise, Method, Task
from .label_posterior import ENOUGH, SLACK, LabelPosterior, LabelPosteriorState

POSTERIOR = LabelPosterior()
FIRST = 4  # visits at which labels are doubted whatever else is seen: a few epochs may be all there are
WINDOW = 256  # rows over which the deviation of the probabilities is taken
PROBABLE = 0.75  # probability of a label that is always enough
OFTEN = 1.5  # times as many labels forgotten as are allowed: then none is left out
SURPLUS = 0.04, 0.08  # by how much labels learned outnumber labels forgotten: from hardly to clearly
COMING_BACK = 0.1, 0.2  # share of the labels left out that are predicted at the next visit: from few to many
LATELY = 1 / 4  # of an epoch, over which forgotten labels of each class are counted, and those that are predicted
EPOCHS = 2  # over which labels learned are compared with labels forgotten
QUARTER = 4  # a class of which less than a quarter is predicted is not learned, and none of its labels is left out


class LabelAgreementState(NamedTuple):
    # of label posterior, in its order
    predictions: Tensor
    visits: Tensor
    confusion: Tensor
    expected: Tensor
    moments: Tensor
    early: Tensor
    unseen: Tensor
    doubt: Tensor
    horizon: Tensor
    # its own
    agreed: Tensor  #: (rows,) at the last visit: 1 where the label was predicted, -1 where it was left out, else 0
    squares: Tensor  #: sum of the squares of the probabilities of a row, mean of late
    changes: Tensor  #: (2, 2) labels of late: learned, and forgotten; predicted now, of those left out the visit before
    #: (4, classes) labels of each class of late: forgotten, of those predicted the visit before; predicted, of all
    labels: Tensor


@dataclass(frozen=True)
class LabelAgreement(Method[LabelAgreementState]):
    """Label posterior, but for a network that is still learning; once few labels are forgotten, only agreed ones.

    A label is forgotten if it was predicted at the last visit of its row and is not any more, and learned the other
    way round. From the fifth visit on labels are mixed with their posterior only where few are forgotten, where
    hardly more are learned than forgotten, or where more are predicted than seemed clean in the first visits, so that
    noisy ones must be among them. Else the network is still learning, and this is plain training.

    Once few are forgotten, a rare class counting as much as a common one, a label is learned only if it is the
    predicted class, and either more probable than one standard deviation above the mean over all rows and classes, or
    3/4: the same for all classes, so that none is learned more easily than another. What is left out is not memorised,
    so its prediction stays honest, and it counts again as soon as it is predicted. Where many labels come back like
    that they were hard, and for some epochs none is left out. Labels of a class that is hardly ever predicted are kept.

    Without row numbers it is label posterior.

    Args:
        limit: share of the predicted labels that may be forgotten from one visit to the next, above 0; at one and a
            half times as many no label is left out.
    """

    limit: float = 0.08

    name: ClassVar[str] = "label-agreement"
    summary: ClassVar[str] = (
        "mixes labels with their posterior unless a network is still learning, then learns what agrees"
    )
    paper: ClassVar[str] = "this library"
    revision: ClassVar[int] = 5
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    uses_rows: ClassVar[bool] = True
    takes_start: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("predictions", "visits", "agreed")

    def __post_init__(self) -> None:
        check_number("LabelAgreement", "limit", self.limit, 0, 1, open_low=True)

    def init(self, task: Task) -> LabelAgreementState:
        classes = (task.classes or 0) if task.rows else 0  # without rows it is label posterior
        return LabelAgreementState(
            *POSTERIOR.init(task),
            task.per_row(0.0),
            torch.tensor(1 / max(classes, 1)),  # what a network says that knows nothing
            torch.zeros(2, 2),
            torch.zeros(4, classes),
        )

    def step(self, state: LabelAgreementState, batch: Batch) -> Decision:
        assert batch.logits is not None
        assert batch.labels is not None
        if state.agreed is None:
            return POSTERIOR.decide(_of_posterior(state), batch)
        (changed, returned), forgotten, found = state.changes.unbind(), state.labels[:2], state.labels[2:]
        quiet = settled(forgotten, self.limit)
        done = torch.stack([quiet, levelled_off(changed), memorised(found, state.early)]).amax(0)
        doubted = torch.where(state.visits < FIRST, 1.0, done)
        mixed = POSTERIOR.decide(_of_posterior(state), batch, doubted.unsqueeze(-1))
        assert mixed.targets is not None
        assert mixed.update is not None

        p = batch.logits.detach().softmax(-1)
        agrees = p.argmax(-1) == batch.labels
        squares = mean_square(state.squares, p, batch)
        confident = p.gather(-1, batch.labels.unsqueeze(-1)).squeeze(-1) >= threshold(squares, p.shape[-1])
        left_out = quiet * lasting(returned) * trust(found)[batch.labels]
        counts = torch.where(agrees & confident, 1.0, 1 - left_out).to(p.dtype)

        before, was_out = state.agreed > 0, state.agreed < 0
        learned, lost = agrees & ~before & (state.visits > 0), before & ~agrees
        changes = torch.stack([learned, lost, was_out & agrees, was_out]) & batch.valid
        seen = (torch.stack([lost, before, agrees, batch.valid]) & batch.valid).to(state.labels.dtype)
        labels = torch.zeros_like(state.labels).scatter_add(-1, batch.labels.expand(4, -1), seen)
        share = batch.n_valid / state.horizon
        of_changes = torch.stack([share / EPOCHS, share]).unsqueeze(-1)
        update = {
            "agreed": torch.where(agrees, 1.0, -(counts < 0.5).to(p.dtype)).to(state.agreed.dtype),
            "squares": squares,
            "changes": fade(state.changes, of_changes) + changes.sum(-1).view(2, 2),
            "labels": fade(state.labels, share / LATELY) + labels,
        }
        # what is left out has its own prediction for a target, so no gradient, and the steps of the rest are no
        # larger for it: with larger ones training at a high learning rate does not survive
        targets = torch.lerp(p, mixed.targets, counts.unsqueeze(-1))
        return mixed._replace(update={**mixed.update, **update}, targets=targets)

    def early_noise(self, state: LabelAgreementState) -> EarlyNoise:
        return POSTERIOR.early_noise(_of_posterior(state))


def _of_posterior(state: LabelAgreementState) -> LabelPosteriorState:
    return LabelPosteriorState(*state[: len(LabelPosteriorState._fields)])


def settled(forgotten: Tensor, limit: float) -> Tensor:
    """How far a network has settled, 0 to 1: by the share of labels that it forgets, and a standard error.

    The share is the mean over the classes, so that a rare class counts as much as a common one. Of two labels more in
    each class as many are forgotten as of all labels.
    """
    lost, number = forgotten.unbind()
    total = number.sum(-1)
    of_all = (lost.sum(-1) + 1) / (total + 2)
    share = ((lost + 2 * of_all) / (number + 2)).mean(-1)
    most = share + (share * (1 - share) / total.clamp(min=1)).sqrt()
    return ((OFTEN * limit - most) / ((OFTEN - 1) * limit)).clamp(0, 1)


def levelled_off(changed: Tensor) -> Tensor:
    """How surely a network has stopped learning, 0 to 1: by the surplus of labels learned, and a standard error."""
    learned, lost = changed.unbind()
    number = learned + lost + 1
    hardly, clearly = SURPLUS
    return ((clearly - (learned - lost + number.sqrt()) / number) / (clearly - hardly)).clamp(0, 1)


def memorised(found: Tensor, early: Tensor) -> Tensor:
    """How surely noisy labels are memorised, 0 to 1: by how many more are predicted than seemed clean at first."""
    predicted, number = found.sum(-1).unbind()
    noisy, seen = early.unbind()
    beyond = predicted / number.clamp(min=1) - (1 - noisy / seen.clamp(min=1))
    return (beyond / SLACK).clamp(0, 1) * (seen >= ENOUGH)


def lasting(returned: Tensor) -> Tensor:
    """How far doubts last, 0 to 1: by the share of labels left out that come to be predicted, less a standard error."""
    back, number = returned.unbind()
    share = back / number.clamp(min=1)
    least = share - (share * (1 - share) / number.clamp(min=1)).sqrt()
    few, many = COMING_BACK
    return ((many - least) / (many - few)).clamp(0, 1)


def trust(found: Tensor) -> Tensor:
    """How far labels of each class may be left out, 0 to 1: more than a quarter of them must be predicted."""
    return (QUARTER * found[0] / (found[1] + 1) - 1).clamp(0, 1)


def threshold(squares: Tensor, classes: int) -> Tensor:
    """The probability from which on a label is confident: a deviation above 1 / classes, the mean of all classes."""
    return (1 / classes + (squares / classes - 1 / classes**2).clamp(min=0).sqrt()).clamp(max=PROBABLE)


def mean_square(squares: Tensor, p: Tensor, batch: Batch) -> Tensor:
    """The mean sum of squares with this batch."""
    found = (p.square().sum(-1) * batch.valid).sum(-1) / batch.n_valid.clamp(min=1)
    return squares + (batch.n_valid / WINDOW).clamp(max=1) * (found.to(squares.dtype) - squares)


def fade(counts: Tensor, share: Tensor) -> Tensor:
    """Earlier counts, by a batch that is this share of the time that they look back on."""
    return (1 - share).clamp(min=0) * counts
