"""PLC, progressive label correction: replace labels that recent predictions contradict, the clearest cases first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend import tables
from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task, at_class

UNKNOWN = -1  # label of a row that has not been visited yet
FEW = 0.001  # share of the rows: if fewer labels are replaced in an epoch, the threshold rises
HIGHEST = 0.9  # the threshold rises up to this


class Corrected(NamedTuple):
    labels: Tensor  #: (rows,) as they are learned now
    predictions: Tensor  #: (rows, window, classes) of the latest visits
    place: Tensor  #: which of these the visits of this epoch are written to
    threshold: Tensor  #: of the likelihood ratio; labels with a lower one are replaced


@dataclass(frozen=True)
class PLC(Method[Corrected]):
    """When an epoch begins, replace each label that is much less probable than the most probable class.

    By how much is the likelihood ratio ``p(label) / max p``, p the mean of the row's latest predictions. Once next to
    no label is below the threshold any more, it rises, so the clearest cases are corrected first. A label that has
    been replaced is judged as any other, and may be replaced again.

    Args:
        threshold: labels with a lower ratio are replaced, in (0, 0.9]; the threshold of the first corrections.
        increment: by how much it rises, up to 0.9; at least 0. At 0 it is fixed, as in LRT.
        window: how many of a row's latest visits p is the mean of.
        plain: epochs of plain training first, at least 1, in which predictions are remembered already.
    """

    threshold: float = 0.3
    increment: float = 0.1
    window: int = 5
    plain: int = 8

    name: ClassVar[str] = "plc"
    summary: ClassVar[str] = "replaces labels far less probable than the predicted class; the bound loosens"
    paper: ClassVar[str] = "Zhang et al. 2021"
    needs_rows: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    soft_targets: ClassVar[bool] = False
    needs_epochs: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("labels", "predictions")
    reads_packed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("PLC", "threshold", self.threshold, 0, HIGHEST, open_low=True)
        check_number("PLC", "increment", self.increment, 0)
        check_number("PLC", "window", self.window, 1, whole=True)
        check_number("PLC", "plain", self.plain, 1, whole=True)

    def init(self, task: Task) -> Corrected:
        predictions = task.per_row_and_class(0.0).unsqueeze(1).repeat(1, self.window, 1)
        place = torch.zeros((), dtype=torch.int64)
        return Corrected(task.per_row(UNKNOWN), predictions, place, torch.tensor(self.threshold))

    def start_epoch(self, state: Corrected, epoch: int, full_pass: Tensor | None) -> Corrected:
        state = state._replace(place=torch.full_like(state.place, epoch % self.window))
        known = state.labels != UNKNOWN
        if epoch < self.plain or not bool(known.any()):
            return state
        replaced, labels, threshold = torch.zeros_like(known), state.labels.clone(), state.threshold
        for rows, predictions in tables.parts(state.predictions):
            mean, old = predictions.mean(1), state.labels[rows]
            label = mean.gather(-1, old.clamp(min=0).unsqueeze(-1)).squeeze(-1)
            replaced[rows] = known[rows] & (label < threshold * mean.amax(-1))
            labels[rows] = mean.argmax(-1).where(replaced[rows], old)
        if int(replaced.sum()) < FEW * int(known.sum()):
            threshold = (threshold + self.increment).clamp(max=HIGHEST)
        return state._replace(labels=labels, threshold=threshold)

    def step(self, state: Corrected, batch: Batch) -> Decision:
        assert batch.logits is not None
        assert batch.labels is not None
        labels = batch.labels.where(state.labels == UNKNOWN, state.labels)
        p = batch.logits.detach().softmax(-1).unsqueeze(1).to(state.predictions.dtype)
        here = (torch.arange(self.window, device=p.device) == state.place).view(1, -1, 1)
        return Decision(
            batch.valid,
            {"labels": labels, "predictions": p.where(here, state.predictions)},
            targets=at_class(labels, batch.logits).to(batch.logits.dtype),
            confidence=labels == batch.labels,
        )
