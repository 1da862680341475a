"""Label memory: labels that remembered predictions contradict are replaced, those they contest are held back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..checks import check_number
from ..types import Seen, Selector, Task, each_run, rows_of
from .elr import prediction_table
from .own_loss import at_class

TINY = 1e-6  # probabilities are at least this before they are multiplied
RARE = 1e-3  # how often, at least, any class is taken to be labelled as any other
HORIZON = 5_000  # samples that the table of mistakes looks back on where the size of the set is not known


class Remembered(NamedTuple):
    predictions: Tensor  #: (rows, classes) moving average of predictions, from 0; the rest, up to 1, is the label
    mistakes: Tensor  #: (classes, classes) how often rows predicted as the first were given the second, of late


class Opinion(NamedTuple):
    """What is thought of a batch."""

    believed: Tensor  #: (..., B) how far each label is believed
    target: Tensor  #: (..., B, classes) what to train on


@dataclass(frozen=True)
class LabelMemory(Selector[Remembered]):
    """Replace labels that lose against ``prediction * memory * odds``; hold back those that are contested.

    The memory of a row begins as its label and moves towards its predictions at each visit, the further the surer
    they are, so no warm-up is needed. The odds are Bayes' rule: they come from a table of which class is given which
    label, counted as training goes on. A label is replaced if another class has more of ``memory * sqrt(odds)``. It is
    contested if that holds for the predictions alone, the remembered ones and today's: then less is learned from it,
    by as much as the memory is made of predictions. Labels of a class that is hardly found again are left alone.

    Args:
        beta: how slowly the memory moves, in [0, 1); it moves once a visit, so once an epoch.
        caution: how much less it moves by a prediction that is not sure, at least 0. At 0 all move it alike; at 1 next
            to nothing happens while a network has learned little.
    """

    beta: float = 0.8
    caution: float = 0.5

    name: ClassVar[str] = "label-memory"
    summary: ClassVar[str] = "weighs each label against remembered predictions and common mistakes; no warm-up"
    paper: ClassVar[str] = "this library"
    needs_logits: ClassVar[bool] = True
    uses_rows: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("predictions",)

    def __post_init__(self) -> None:
        check_number("LabelMemory", "beta", self.beta, 0, 1, open_high=True)
        check_number("LabelMemory", "caution", self.caution, 0)

    def init(self, task: Task) -> Remembered:
        table = prediction_table("LabelMemory", task._replace(rows=task.rows or 0))  # without rows: nothing to look up
        return Remembered(table, torch.zeros(table.shape[1], table.shape[1]))

    def losses(self, state: Remembered, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Tensor:
        target = self._opinion(state, logits.detach(), labels, rows).target
        return -(target * F.log_softmax(logits, -1)).sum(-1)

    def select(self, state: Remembered, seen: Seen) -> tuple[Tensor, Remembered]:
        assert seen.logits is not None  # Selection has checked needs_logits
        _, moved = self._visit(state, seen.logits.softmax(-1), seen.rows)
        labels, (rows, classes) = _labels(seen), state.predictions.shape[-2:]
        left = (1 - seen.number / (rows or HORIZON)).clamp(min=0)[..., None, None]
        # counted, not a matrix product, which autocast would take in half precision
        pairs = torch.where(seen.counts, moved.argmax(-1) * classes + labels, 0)
        mistakes = (left * state.mistakes).flatten(-2).scatter_add(-1, pairs, seen.counts.float())
        mistakes = mistakes.view_as(state.mistakes)
        return seen.counts, Remembered(moved if rows else state.predictions, mistakes)

    def believed(self, state: Remembered, seen: Seen, weights: Tensor) -> Tensor:
        assert seen.logits is not None
        return self._opinion(state, seen.logits, _labels(seen), seen.rows).believed

    def _visit(self, state: Remembered, p: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """What is remembered of the predictions of each row, (..., B, classes): before today, and with today's."""
        beta = each_run(self.beta, axes=2)
        weight = _sureness(p) ** each_run(self.caution, axes=2)
        if rows is None or not state.predictions.shape[-2]:
            # no memory: as if the row had always been predicted like this, but for the last visit
            always = beta * weight * p
            return always, always
        before = rows_of(state.predictions, rows)
        return before, before + (1 - beta) * weight * (p - before)

    def _opinion(self, state: Remembered, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Opinion:
        p, given = logits.softmax(-1), at_class(labels, logits).float()
        before, moved = self._visit(state, p, rows)
        memory = moved + (1 - moved.sum(-1, keepdim=True)) * given
        odds, trust = (rows_of(table, labels) for table in weigh(state.mistakes))

        replaced = _against(memory, odds, given)
        better = p.clamp(TINY) * memory.clamp(TINY) * odds
        better = better / better.sum(-1, keepdim=True)
        contested = _against(before, odds, given) & _against(p, odds, given)
        held = trust * contested * before.sum(-1)
        # a target that is the prediction itself has no gradient: the sample stays in the mean, and says less
        change = torch.where(replaced.unsqueeze(-1), better - given, p - given)
        far = torch.where(replaced, trust, held)
        return Opinion(torch.where(replaced, 0, 1 - held), given + far.unsqueeze(-1) * change)


def weigh(mistakes: Tensor) -> tuple[Tensor, Tensor]:
    """From counts [predicted, given]: the odds [label, class], at most 1, and how far each label may be doubted."""
    eye = torch.eye(mistakes.shape[-1], device=mistakes.device)
    counts = mistakes + eye  # before there is anything to count, each class is given its own label
    share = (counts / counts.sum(-1, keepdim=True)).clamp(RARE)
    own = (share * eye).sum(-1, keepdim=True)
    found_again = (mistakes * eye).sum(-2) / (mistakes.sum(-2) + 1)
    return (share.transpose(-1, -2) / own).clamp(max=1), (4 * found_again - 1).clamp(0, 1)


def _against(shares: Tensor, odds: Tensor, given: Tensor) -> Tensor:
    """Whether a class other than the label has more of ``shares * sqrt(odds)``, (..., B)."""
    judged = shares * odds.sqrt()
    return (judged * given).sum(-1) < (judged * (1 - given)).amax(-1)


def _sureness(p: Tensor) -> Tensor:
    """1 minus the entropy of probabilities over the most that it can be, (..., 1)."""
    entropy: Tensor = torch.special.entr(p).sum(-1, keepdim=True)
    return (1 - entropy / math.log(max(2, p.shape[-1]))).clamp(TINY, 1)


def _labels(seen: Seen) -> Tensor:
    assert seen.labels is not None  # they come with the logits
    return seen.labels.clamp(min=0)  # below 0: does not count
