"""Label posterior: each label is mixed with its posterior, from the second visit on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task, observed
from .label_memory import TINY, certainty, count_confusion, odds_and_trust

MOST = 0.5  # the odds of another class: a label is always at least twice as likely as any one mistake


class LabelPosteriorState(NamedTuple):
    predictions: Tensor  #: (rows, classes) EMA of each row's predictions
    visits: Tensor  #: (rows,) how often each row was seen
    confusion: Tensor  #: (classes, classes) weighted counts of rows remembered as the first, labelled as the second
    horizon: Tensor  #: samples that those counts look back on: the size of the training set


@dataclass(frozen=True)
class LabelPosterior(Method[LabelPosteriorState]):
    """Learn a mixture of the label and its posterior, ``prediction * remembered predictions * odds``.

    The odds are Bayes' rule: how much less likely a class gives the observed label than the label's own class does.
    They come from confusion counts of remembered class and observed label, in which a row counts by its certainty. At
    its first visit a row is trained on its label. After that the label has a share of ``worth / (worth + visits)`` in
    the target, and all of it where its class is hardly ever found again.

    Args:
        beta: how slowly the remembered predictions move, in [0, 1); they move once a visit, so once an epoch.
        worth: how many visits a label is worth, above 0.
        caution: how much less a row of low certainty is counted, at least 0.
    """

    beta: float = 0.8
    worth: float = 0.5
    caution: float = 2.0

    name: ClassVar[str] = "label-posterior"
    summary: ClassVar[str] = "mixes each label with its posterior, the more the more often its row was seen"
    paper: ClassVar[str] = "this library"
    needs_rows: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    takes_start: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("predictions", "visits")

    def __post_init__(self) -> None:
        check_number("LabelPosterior", "beta", self.beta, 0, 1, open_high=True)
        check_number("LabelPosterior", "worth", self.worth, 0, open_low=True)
        check_number("LabelPosterior", "caution", self.caution, 0)

    def init(self, task: Task) -> LabelPosteriorState:
        classes = task.classes or 0
        horizon = torch.tensor(float(task.rows or 0))
        counts, predictions = torch.zeros(classes, classes), task.remembered()
        visits = predictions.sum(1) / (1 - self.beta)  # that earlier predictions are worth: as many as are remembered
        return LabelPosteriorState(predictions, visits, counts, horizon)

    def step(self, state: LabelPosteriorState, batch: Batch) -> Decision:
        assert batch.logits is not None
        assert batch.labels is not None
        p, label, visits = batch.logits.detach().softmax(-1), observed(batch), state.visits.unsqueeze(-1)
        before = torch.where(visits > 0, state.predictions.clamp(TINY), 1.0)
        odds, trust = (table[batch.labels] for table in odds_and_trust(state.confusion))
        odds = torch.where(label > 0, 1.0, odds.clamp(max=MOST))
        posterior = p.clamp(TINY) * before * odds
        posterior = posterior / posterior.sum(-1, keepdim=True)
        moved = state.predictions + (1 / (visits + 1)).clamp(min=1 - self.beta) * (p - state.predictions)
        weights = certainty(moved).squeeze(-1) ** self.caution
        counts = count_confusion(state.confusion, state.horizon, moved, batch, weights)
        far = trust.unsqueeze(-1) * visits / (self.worth + visits)
        return Decision(
            batch.valid,
            {"predictions": moved, "visits": state.visits + 1, "confusion": counts},
            targets=label + far * (posterior - label),
            confidence=(posterior * label).sum(-1).clamp(0, 1),
        )
