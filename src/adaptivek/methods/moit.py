"""MOIT's selection: a label is believed where the rows nearest in feature space agree with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task
from .mkl import ranks

AT_ONCE = 1_000  # rows whose neighbours are looked for together
UNKNOWN = -1


class Neighbours(NamedTuple):
    labels: Tensor  #: (rows,) as seen at the last visit; `UNKNOWN` before the first
    in_use: Tensor  #: (rows,) bool: in use in this epoch


def nearest(features: Tensor, known: Tensor, neighbours: int) -> Tensor:
    """The rows nearest to each of (n, size) features by angle, (n, neighbours): other rows, and known ones."""
    unit = F.normalize(features, dim=-1)
    number = min(neighbours, max(int(known.sum()) - 1, 1))
    found = []
    for rows in torch.split(torch.arange(len(unit), device=unit.device), AT_ONCE):
        likeness = (unit[rows] @ unit.T).where(known, -torch.inf)
        likeness[torch.arange(len(rows), device=unit.device), rows] = -torch.inf
        found.append(likeness.topk(number).indices)
    return torch.cat(found)


def believe(features: Tensor, labels: Tensor, classes: int, neighbours: int) -> Tensor:
    """Which of n labels to believe: in each class as many as agree with their neighbours in the median class."""
    known = labels != UNKNOWN
    around, given = nearest(features, known, neighbours), labels.clamp(min=0)
    corrected = F.one_hot(given[around], classes).sum(1).argmax(1)
    votes = F.one_hot(corrected[around], classes).sum(1)  # of neighbours whose labels have been put right
    agree = (votes.argmax(1) == given) & known
    number = torch.bincount(given[agree], minlength=classes)[torch.bincount(given[known], minlength=classes) > 0]
    against = -votes.gather(1, given[:, None])[:, 0]
    believed = ~known
    for label in range(classes):
        mine = (given == label) & known
        # never none: a class that is left out would not come back
        believed |= mine & (ranks(against.where(mine, 1)) < number.median().clamp(min=1))
    return believed


@dataclass(frozen=True)
class MOIT(Method[Neighbours]):
    """Each epoch, let the nearest rows in feature space vote on each label, and use the rows that do best in it.

    They vote with labels that a first vote has put right. Every class keeps the same number of rows.

    Args:
        neighbours: how many rows have a vote.
        plain: epochs of plain training first, at least 1, in which the labels become known.
    """

    neighbours: int = 50
    plain: int = 5

    name: ClassVar[str] = "moit"
    summary: ClassVar[str] = "keeps rows whose nearest rows, by the network's features, agree with their label"
    paper: ClassVar[str] = "Ortego et al. 2021"
    needs_rows: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    soft_targets: ClassVar[bool] = False
    needs_epochs: ClassVar[bool] = True
    full_pass: ClassVar[Literal["", "losses", "features"]] = "features"
    tables: ClassVar[tuple[str, ...]] = ("labels", "in_use")

    def __post_init__(self) -> None:
        check_number("MOIT", "neighbours", self.neighbours, 1, whole=True)
        check_number("MOIT", "plain", self.plain, 1, whole=True)

    def init(self, task: Task) -> Neighbours:
        labels = task.per_row(UNKNOWN)
        return Neighbours(labels, torch.ones_like(labels, dtype=torch.bool))

    def start_epoch(self, state: Neighbours, epoch: int, full_pass: Tensor | None) -> Neighbours:
        assert full_pass is not None
        if epoch < self.plain or int(state.labels.max()) == UNKNOWN:
            return state
        classes = int(state.labels.max()) + 1
        return Neighbours(state.labels, believe(full_pass, state.labels, classes, self.neighbours))

    def step(self, state: Neighbours, batch: Batch) -> Decision:
        assert batch.labels is not None
        return Decision(state.in_use, {"labels": batch.labels})
