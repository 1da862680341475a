"""Label memory: train on what the given label, today's prediction and remembered predictions agree on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..checks import check_number
from ..types import Seen, Selector, Task, each_run, rows_of
from .elr import prediction_table

TINY = 1e-6  # probabilities are at least this before they are multiplied
RARE = 1e-3  # how often, at least, any class is taken to be labelled as any other
HORIZON = 5_000  # samples that the table of mistakes looks back on where the size of the set is not known


class Remembered(NamedTuple):
    predictions: Tensor  #: (rows, classes) sum of (1 - beta) * beta^age * prediction; the rest, up to 1, is the label
    mistakes: Tensor  #: (classes, classes) how often rows remembered as the first were given the second, of late


class Opinion(NamedTuple):
    """What is thought of a batch, (..., B, classes) each."""

    moved: Tensor  #: entries of the table of predictions, today's included
    memory: Tensor  #: the same, and what is left to 1 for the given label
    odds: Tensor  #: how often a row of each class is given this label, over how often a row of the label's own class is
    target: Tensor  #: what to train on


@dataclass(frozen=True)
class LabelMemory(Selector[Remembered]):
    """Cross-entropy with targets ``sqrt(prediction * memory * odds)``, normalised; needs no warm-up and no ratio.

    The memory of a row begins as its label and moves towards its predictions at each visit. The odds are
    Bayes' rule: they come from a table of which class is given which label, counted as training goes on. As
    long as less than half of a class is found again by the memory, its labels are trusted to that degree.

    Args:
        beta: how slowly the memory moves, in [0, 1); it moves once a visit, so once an epoch.
    """

    beta: float = 0.8

    name: ClassVar[str] = "label-memory"
    summary: ClassVar[str] = "weighs each label against remembered predictions and common mistakes; no warm-up"
    paper: ClassVar[str] = "this library"
    needs_logits: ClassVar[bool] = True
    uses_rows: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("predictions",)

    def __post_init__(self) -> None:
        check_number("LabelMemory", "beta", self.beta, 0, 1, open_high=True)

    def init(self, task: Task) -> Remembered:
        table = prediction_table("LabelMemory", task._replace(rows=task.rows or 0))  # without rows: nothing to look up
        return Remembered(table, torch.zeros(table.shape[1], table.shape[1]))

    def losses(self, state: Remembered, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Tensor:
        target = self._opinion(state, logits.detach(), labels, rows).target
        return -(target * F.log_softmax(logits, -1)).sum(-1)

    def select(self, state: Remembered, seen: Seen) -> tuple[Tensor, Remembered]:
        assert seen.logits is not None  # Selection has checked needs_logits
        assert seen.labels is not None
        opinion = self._opinion(state, seen.logits, seen.labels, seen.rows)
        given = _one_hot(seen.labels, seen.logits) * seen.counts.unsqueeze(-1)
        found = _one_hot(opinion.memory.argmax(-1), seen.logits)
        rows = state.predictions.shape[-2] or HORIZON
        left = (1 - seen.number / rows).clamp(min=0)[..., None, None]
        mistakes = left * state.mistakes + found.transpose(-1, -2) @ given
        return seen.counts, Remembered(opinion.moved if state.predictions.shape[-2] else state.predictions, mistakes)

    def believed(self, state: Remembered, seen: Seen, weights: Tensor) -> Tensor:
        assert seen.logits is not None
        assert seen.labels is not None
        opinion = self._opinion(state, seen.logits, seen.labels, seen.rows)
        given = _one_hot(seen.labels, seen.logits)
        judged = opinion.memory * opinion.odds.sqrt()
        return (judged * given).sum(-1) >= (judged * (1 - given)).amax(-1)

    def _opinion(self, state: Remembered, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Opinion:
        p, given = logits.softmax(-1), _one_hot(labels, logits)
        beta = each_run(self.beta, axes=2)
        if rows is None or not state.predictions.shape[-2]:
            moved = beta * p  # no memory: as if the row had always been predicted like this, but for the last visit
        else:
            moved = beta * rows_of(state.predictions, rows) + (1 - beta) * p
        memory = moved + (1 - moved.sum(-1, keepdim=True)) * given
        odds, trust = (_of_label(table, given) for table in weigh(state.mistakes))
        target = (p.clamp(TINY) * memory.clamp(TINY) * odds).sqrt()
        target = target / target.sum(-1, keepdim=True)
        return Opinion(moved, memory, odds, given + trust * (target - given))


def weigh(mistakes: Tensor) -> tuple[Tensor, Tensor]:
    """From counts [found, given]: the odds [class, label], at most 1, and how far each label may be doubted."""
    eye = torch.eye(mistakes.shape[-1], device=mistakes.device)
    counts = mistakes + eye  # before there is anything to count, each class is given its own label
    share = (counts / counts.sum(-1, keepdim=True)).clamp(RARE)
    own = (share * eye).sum(-1)
    odds = (share / own.unsqueeze(-2)).clamp(max=1)
    found_again = (counts * eye).sum(-2) / counts.sum(-2)
    return odds, (2 * found_again).clamp(max=1).unsqueeze(-2)


def _of_label(table: Tensor, given: Tensor) -> Tensor:
    """The columns (..., B, k) of a table (..., k, classes) that belong to the labels, one-hot."""
    return given @ table.transpose(-1, -2)


def _one_hot(labels: Tensor, logits: Tensor) -> Tensor:
    return (labels.unsqueeze(-1) == torch.arange(logits.shape[-1], device=labels.device)).float()
