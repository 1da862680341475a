"""SELC, self-ensemble label correction: labels move, epoch by epoch, towards what the network predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch.nn.functional as F
from torch import Tensor

from ..checks import check_number
from ..types import Seen, Selector, Task, each_run, rows_of
from .elr import prediction_table


class Ensemble(NamedTuple):
    predictions: Tensor  #: (rows, classes) sum of (1 - alpha) * alpha^age * prediction; the rest, up to 1, is the label


@dataclass(frozen=True)
class SELC(Selector[Ensemble]):
    """Cross-entropy with targets that start as the labels and move towards the predictions at each visit.

    After k visits the target is ``alpha^k * label + (1 - alpha) * sum of alpha^(k-j) * prediction j``. To be
    used after warm-up that ends before wrong labels are learned.

    Args:
        alpha: how slowly targets move, in [0, 1).
    """

    alpha: float = 0.9

    name: ClassVar[str] = "selc"
    summary: ClassVar[str] = "moves each label towards the average of its predictions, after warm-up"
    paper: ClassVar[str] = "Lu, He 2022"
    wants_warmup: ClassVar[bool] = True
    leaves_out: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("predictions",)

    def __post_init__(self) -> None:
        check_number("SELC", "alpha", self.alpha, 0, 1, open_high=True)

    def init(self, task: Task) -> Ensemble:
        return Ensemble(prediction_table("SELC", task))

    def losses(self, state: Ensemble, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Tensor:
        moved = self._moved(state, logits.detach(), rows)
        log_all, left = F.log_softmax(logits, -1), 1 - moved.sum(-1)  # left: alpha^k, what is still the label's
        return -(moved * log_all).sum(-1) - left * log_all.gather(-1, labels.unsqueeze(-1)).squeeze(-1)

    def select(self, state: Ensemble, seen: Seen) -> tuple[Tensor, Ensemble]:
        assert seen.logits is not None  # Selection has checked needs_logits
        return seen.counts, Ensemble(self._moved(state, seen.logits, seen.rows))

    def _moved(self, state: Ensemble, logits: Tensor, rows: Tensor | None) -> Tensor:
        assert rows is not None  # Selection has checked needs_rows
        alpha = each_run(self.alpha, axes=2)
        return alpha * rows_of(state.predictions, rows) + (1 - alpha) * logits.softmax(-1)
