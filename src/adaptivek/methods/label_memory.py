"""Label memory: labels that remembered predictions contradict are replaced, those they contest are held back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task, observed
from .confusion import count_confusion, no_counts, odds_and_trust

TINY = 1e-6  # probabilities are at least this before they are multiplied
HORIZON = 5_000  # samples that the confusion counts look back on where the size of the set is not known


class LabelMemoryState(NamedTuple):
    predictions: Tensor  #: (rows, classes) EMA of predictions, from 0; the rest, up to 1, is the label
    confusion: Tensor  #: how often rows predicted as one class were labelled as another, of late; see `confusion`
    horizon: Tensor  #: samples that those counts look back on: the size of the training set


@dataclass(frozen=True)
class LabelMemory(Method[LabelMemoryState]):
    """Replace labels that lose against ``prediction * memory * odds``; hold back those that are contested.

    The memory of a row begins as its label and moves towards its predictions at each visit, the further the more
    confident they are, so no warm-up is needed. The odds are Bayes' rule: they come from confusion counts of predicted
    class and observed label, kept as training goes on. A label is replaced if another class has more of ``memory *
    sqrt(odds)``. It is contested if that holds for the predictions alone, the remembered ones and today's: then less is
    learned from it, by as much as the memory is made of predictions. Labels of a class that is hardly ever predicted
    where it is observed are left alone.

    Args:
        beta: how slowly the memory moves, in [0, 1); it moves once a visit, so once an epoch.
        caution: how much less it moves by a prediction of low confidence, at least 0. At 0 all move it alike; at 1 next
            to nothing happens while a network has learned little.
    """

    beta: float = 0.8
    caution: float = 0.5

    name: ClassVar[str] = "label-memory"
    summary: ClassVar[str] = "weighs each label against remembered predictions and confusion counts; no warm-up"
    paper: ClassVar[str] = "this library"
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    uses_rows: ClassVar[bool] = True
    takes_start: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("predictions",)

    def __post_init__(self) -> None:
        check_number("LabelMemory", "beta", self.beta, 0, 1, open_high=True)
        check_number("LabelMemory", "caution", self.caution, 0)

    def init(self, task: Task) -> LabelMemoryState:
        horizon = torch.tensor(float(task.rows or HORIZON))
        return LabelMemoryState(task.remembered(), no_counts(task.classes or 0), horizon)

    def step(self, state: LabelMemoryState, batch: Batch) -> Decision:
        assert batch.logits is not None
        assert batch.labels is not None
        p, label = batch.logits.detach().softmax(-1), observed(batch)
        before, moved = _visit(state.predictions, p, self.beta, self.caution)
        memory = torch.addcmul(moved, 1 - moved.sum(-1, keepdim=True), label)
        odds, trust = odds_and_trust(state.confusion, batch.labels)

        replaced, was_against, is_against = _against(torch.stack([memory, before, p]), odds, batch).unbind()
        better = p.clamp(TINY) * memory.clamp(TINY) * odds
        better = better / better.sum(-1, keepdim=True)
        held_back = trust * (was_against & is_against) * before.sum(-1)
        # a target that is the prediction itself has no gradient: the sample stays in the mean, and says less
        toward, far = torch.where(replaced.unsqueeze(-1), better, p), torch.where(replaced, trust, held_back)
        return Decision(
            batch.valid,
            {
                "predictions": moved,
                "confusion": count_confusion(state.confusion, state.horizon, moved.argmax(-1), batch),
            },
            targets=label + far.unsqueeze(-1) * (toward - label),
            confidence=torch.where(replaced, 0, 1 - held_back),
        )


def _visit(remembered: Tensor | None, p: Tensor, beta: float, caution: float) -> tuple[Tensor, Tensor]:
    """What is remembered of the predictions of each row, (B, classes): before today, and with today's."""
    weight = certainty(p) ** caution
    if remembered is None:
        # no memory: as if the row had always been predicted like this, but for the last visit
        always = beta * weight * p
        return always, always
    return remembered, remembered + (1 - beta) * weight * (p - remembered)


def _against(shares: Tensor, odds: Tensor, batch: Batch) -> Tensor:
    """Whether a class other than the label has more of ``shares * sqrt(odds)``, (..., B)."""
    judged = shares * odds.sqrt()
    if batch.targets is not None:
        return (judged * batch.targets).sum(-1) < (judged * (1 - batch.targets)).amax(-1)
    assert batch.labels is not None
    at_label = batch.labels.expand(judged.shape[:-1]).unsqueeze(-1)
    return judged.gather(-1, at_label).squeeze(-1) < judged.amax(-1)


def certainty(p: Tensor) -> Tensor:
    """1 minus the entropy of probabilities over the most that it can be, (B, 1)."""
    entropy: Tensor = torch.special.entr(p).sum(-1, keepdim=True)
    return (1 - entropy / math.log(max(2, p.shape[-1]))).clamp(TINY, 1)
