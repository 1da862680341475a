"""Label posterior: each label is mixed with its posterior, and predictions are held near the remembered ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, EarlyNoise, Method, Task, add_label_, of_label
from .confusion import count_confusion, no_counts, odds_and_trust, right_and_predicted
from .elr import pull
from .label_memory import HORIZON, TINY

MOST = 0.5  # the odds of another class: a label is always at least twice as likely as any one mistake
QUARTER = 0.67  # standard deviations above the mean lies a quarter of a normal distribution
WINDOW = 64  # rows of a class over which mean and deviation of its confidence are taken
GROWTH = 0.7  # a memory of n visits is 1 - 0.7^n of the prediction, as ELR's, which starts at 0
FEW = 5  # visits for which predictions are as good as held-out ones, before noisy labels are memorised
LEARNED = 0.25  # confidence, 0 by chance and 1 if certain, from which on a class counts as learned
SLACK = 0.05  # by how much less noise than at first may be found and tell nothing
LEARNING = 5  # times what was learned between half and quarter may be learned later on
SETTLED = 0.1  # by how much less may look noisy later on, once a network has learned most of what it will
ENOUGH = 100  # confident rows, whose share of noisy labels is then known to about five points


class LabelPosteriorState(NamedTuple):
    predictions: Tensor  #: (rows, classes) EMA of each row's predictions
    visits: Tensor  #: (rows,) how often each row was seen
    confusion: Tensor  #: how many confident rows of one class were labelled as another, of late; see `confusion`
    expected: Tensor  #: (classes,) how many of them the network itself expects to be labelled as their class
    moments: Tensor  #: (2, classes) mean and mean square of the confidence of the last rows of each class
    early: Tensor  #: (2,) confident rows of the first visits: how many were labelled otherwise, and how many there were
    unseen: Tensor  #: (2, 2) the same of the very first visits: of about the last quarter of the first epoch, and half
    doubt: Tensor  #: mean doubt of the labels of about the last epoch
    horizon: Tensor  #: samples that the counts look back on: the size of the training set


@dataclass(frozen=True)
class LabelPosterior(Method[LabelPosteriorState]):
    """Learn a mixture of the label and its posterior, ``prediction * remembered predictions * odds``.

    The odds are Bayes' rule: how much less likely a class gives the observed label than the label's own class does.
    They come from confusion counts of remembered class and observed label, over the most confident rows of each class.
    At its first visit a row is trained on its label. After that the label has a share of ``worth / (worth + visits)``
    in the target, and more where its class is hardly ever found again, or where the network is less confident than it
    is right, or close to chance: then it is still learning, and what looks like noise is not. By the same trust,
    predictions are pulled towards the remembered ones as in ELR, from the first visit on. After five visits
    predictions may be memorised labels: from then on they count for less, and the pull fades, unless less noise is
    found than in the first visits. Then noisy labels are being memorised, and both come back.

    Args:
        beta: how slowly the remembered predictions move, in [0, 1); they move once a visit, so once an epoch.
        worth: how many visits a label is worth, above 0.
        strength: of the pull, lambda of ELR, at least 0.
    """

    beta: float = 0.5
    worth: float = 0.5
    strength: float = 2.0

    name: ClassVar[str] = "label-posterior"
    summary: ClassVar[str] = "mixes each label with its posterior, the more the more often its row was seen"
    paper: ClassVar[str] = "this library"
    revision: ClassVar[int] = 4
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    uses_rows: ClassVar[bool] = True
    takes_start: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("predictions", "visits")

    def __post_init__(self) -> None:
        check_number("LabelPosterior", "beta", self.beta, 0, 1, open_high=True)
        check_number("LabelPosterior", "worth", self.worth, 0, open_low=True)
        check_number("LabelPosterior", "strength", self.strength, 0)

    def init(self, task: Task) -> LabelPosteriorState:
        classes = task.classes or 0
        predictions = task.remembered()
        # that earlier predictions are worth: as many as are remembered
        visits = task.per_row(0.0) if task.predictions is None else task.predictions.sum(1) / (1 - self.beta)
        flat = torch.full((classes,), 1 / max(classes, 1))  # what a network says that knows nothing
        return LabelPosteriorState(
            predictions,
            visits,
            no_counts(classes),
            torch.zeros(classes),
            torch.stack([flat, flat.square()]),
            torch.zeros(2),
            torch.zeros(2, 2),
            torch.tensor(0.0),
            torch.tensor(float(task.rows or HORIZON)),
        )

    def step(self, state: LabelPosteriorState, batch: Batch) -> Decision:
        return self.decide(state, batch)

    def decide(self, state: LabelPosteriorState, batch: Batch, doubted: Tensor | float = 1.0) -> Decision:
        """A step in which labels are doubted so far at the most, 0 to 1: a number, or one for each sample, (B, 1)."""
        assert batch.logits is not None
        assert batch.labels is not None
        p = batch.logits.detach().softmax(-1)
        visits, said, moved = self._visit(state.predictions, state.visits, p)
        odds, trust = odds_and_trust(state.confusion, batch.labels, MOST)
        if batch.targets is not None:
            odds = torch.where(batch.targets > 0, 1.0, odds)
        known = learned(state.moments) * (1 - explained(state.confusion, state.expected)).clamp(min=0)
        trust = (trust * known[batch.labels]).unsqueeze(-1) * doubted
        few, memorising = few_visits(visits), memorised(state.early, state.doubt)
        if state.visits is not None:  # without memory the power is 1
            said = said ** (0.5 + 0.5 * torch.maximum(few, memorising))
        posterior = said * odds
        total = posterior.sum(-1, keepdim=True)  # what it is to be divided by: below, where that is no pass of its own
        replaced = trust * visits / (self.worth + visits)
        strength = self.strength * trust * torch.maximum(few.square(), memorising)
        targets = pull(p, moved, strength, 1 - GROWTH ** (visits + 1)).addcmul(replaced / total, posterior)
        # kept within 0 and 1: where predictions are certain the pull of ELR grows without bound, and training at a high
        # learning rate does not survive that
        targets = add_label_(targets, batch, 1 - replaced).clamp(0, 1)

        at_found = moved.argmax(-1, keepdim=True)
        found, confidence = at_found.squeeze(-1), moved.gather(-1, at_found).squeeze(-1)
        counted = ((confidence >= thresholds(state.moments)[found]) & batch.valid).to(p.dtype)
        first = ((visits > 0) & (visits <= FEW)).squeeze(-1)
        of_last_epoch = (batch.n_valid / state.horizon).clamp(max=1)
        expected = (counted * p.gather(-1, at_found).squeeze(-1)).to(state.expected.dtype)
        pairs = counted * torch.stack([found != batch.labels, torch.ones_like(batch.valid)])
        new = (visits == 0).squeeze(-1)
        share = (new * batch.valid).sum(-1) / state.horizon
        left = (1 - torch.stack([4 * share, 2 * share])).clamp(min=0).unsqueeze(-1)
        believed = (of_label(posterior, batch) / total.squeeze(-1)).clamp(0, 1)
        doubt = ((1 - believed) * batch.valid).sum(-1) / batch.n_valid.clamp(min=1)
        return Decision(
            batch.valid,
            {
                "predictions": moved,
                "visits": visits.squeeze(-1) + 1,
                "confusion": count_confusion(state.confusion, state.horizon, found, batch, counted),
                "expected": ((1 - of_last_epoch) * state.expected).scatter_add(-1, found, expected),
                "moments": count_moments(state.moments, found, confidence, batch.valid),
                "early": state.early + (first * pairs).sum(-1),
                "unseen": left * state.unseen + (new * pairs).sum(-1),
                "doubt": state.doubt + of_last_epoch * (doubt - state.doubt),
            },
            targets=targets / targets.sum(-1, keepdim=True),
            confidence=believed,
        )

    def early_noise(self, state: LabelPosteriorState) -> EarlyNoise:
        """What the first visits have shown, and rows that had never been learned from, late in the first epoch.

        Those look noisy if they are, or if the network had more to learn. How much more is judged by what it learned
        just before; where that is much they tell nothing. Where it does hardly better than chance there is no telling
        the one from the other.
        """
        quarter, half = (state.unseen[:, 0] / state.unseen[:, 1]).unbind()
        learning = LEARNING * (half - quarter).clamp(min=0)
        settled = (state.unseen[0, 1] >= ENOUGH) & (learning <= SETTLED)
        beyond_chance = quarter <= min(0.5, 0.9 * (1 - 1 / len(state.expected)))
        known = (state.early[1] >= ENOUGH) & ~still_learning(state.confusion, state.expected)
        known &= ~(learning > SETTLED) | (state.visits.mean() >= FEW)  # while much is learned, all looks noisy
        return EarlyNoise(
            (state.early[0] / state.early[1]).where(known, math.nan),
            (quarter - learning).where(settled, math.nan),
            quarter.where(settled & beyond_chance, math.nan),
        )

    def _visit(self, before: Tensor | None, visits: Tensor | None, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """How often each row was seen, (B, 1), today's predictions times the remembered, and these with today's."""
        if before is None or visits is None:
            # no memory: as if each row had been seen once, and predicted as today
            return torch.ones_like(p[..., :1]), p.clamp(TINY).square(), p
        visits = visits.unsqueeze(-1)
        moved = torch.addcmul(before, (1 / (visits + 1)).clamp(min=1 - self.beta), p - before)
        least = (visits == 0).to(p.dtype).clamp(TINY)  # of a row that was never seen all is 1
        return visits, p.clamp(TINY) * before.maximum(least), moved


def few_visits(visits: Tensor) -> Tensor:
    """1 for the first visits of a row, then falling: by how much a network has not memorised it yet."""
    return (FEW / visits.clamp(min=1)).clamp(max=1)


def memorised(early: Tensor, doubt: Tensor) -> Tensor:
    """How surely noisy labels are being memorised, 0 to 1: by how much less noise is found than in the first visits.

    The most confident rows tell how much there is before any label is memorised. In all rows there is hardly less.
    """
    noisy = early[0] / (early[1] + 1)
    return ((noisy - doubt) / SLACK - 1).clamp(0, 1)


def learned(moments: Tensor) -> Tensor:
    """How far each class is learned, 0 to 1: by how much the network is more confident of it than by chance."""
    classes = moments.shape[-1]
    return ((classes * moments[0] - 1) / max(classes - 1, 1) / LEARNED).clamp(0, 1)


def explained(confusion: Tensor, expected: Tensor) -> Tensor:
    """Which share of the labels of a class that are not found again is explained by learning that goes on, (classes,).

    A network that is still learning is right more often than it is confident. By as much as that explains the labels
    that it does not find, they are not doubted.
    """
    right, predicted = right_and_predicted(confusion)
    return (right - expected).clamp(min=0) / (predicted - right + 1)


def still_learning(confusion: Tensor, expected: Tensor) -> Tensor:
    """Whether more than half of the labels that are not found again are explained so, and these are not very few."""
    right, predicted = (counts.sum() for counts in right_and_predicted(confusion))
    wrong = predicted - right
    return (right - expected.sum() > wrong / 2) & (wrong > SLACK * predicted)


def thresholds(moments: Tensor) -> Tensor:
    """The confidence above which about a quarter of each class lies; half-way to 1 where nearly all are certain."""
    mean, square = moments[0], moments[1]
    above = QUARTER * (square - mean.square()).clamp(min=0).sqrt()
    return mean + torch.minimum(above, (1 - mean) / 2)


def count_moments(moments: Tensor, found: Tensor, confidence: Tensor, valid: Tensor) -> Tensor:
    """Mean and mean square of the confidence of each class with this batch."""
    powers = torch.stack([confidence, confidence.square()]).to(moments.dtype) * valid
    sums = torch.zeros_like(moments).scatter_add(-1, found.expand(2, -1), powers)
    number = torch.zeros_like(moments[0]).scatter_add(-1, found, valid.to(moments.dtype))
    far = (number / WINDOW).clamp(max=1)
    return moments + far * (sums / number.clamp(min=1) - moments)
