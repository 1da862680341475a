"""LCCN, latent class-conditional noise: the true class of each row is inferred, by Bayes' rule, with counted noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend import tables
from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task, at_class, observed

UNKNOWN = -1  # label of a row that has not been visited yet
TINY = 1e-30  # below any share that a prior leaves, above 0, by which nothing can be divided


class Latent(NamedTuple):
    classes: Tensor  #: (rows, classes) how probable each is to be the true one, at the last visit
    labels: Tensor  #: (rows,) observed
    matrix: Tensor  #: (classes, classes) the transition matrix; 0 until there is anything to count


@dataclass(frozen=True)
class LCCN(Method[Latent]):
    """Learn the true classes, which are taken to be as probable as ``p(class) * T[class, label]``.

    The transition matrix T is counted over all rows when an epoch begins: how probable each class was at each row's
    last visit, by observed label, and a Dirichlet prior. In the first epoch after warm-up training is still plain, and
    the predicted classes are counted.

    Args:
        prior: how many rows each pair of class and label counts in advance, above 0; alpha of the Dirichlet prior.
    """

    prior: float = 1.0

    name: ClassVar[str] = "lccn"
    summary: ClassVar[str] = "learns the inferred true classes, with a transition matrix from counts, after warm-up"
    paper: ClassVar[str] = "Yao et al. 2019"
    wants_warmup: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    soft_targets: ClassVar[bool] = False
    needs_epochs: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("classes", "labels")
    reads_packed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("LCCN", "prior", self.prior, 0, open_low=True)

    def init(self, task: Task) -> Latent:
        classes = task.classes or 0
        return Latent(task.per_row_and_class(0.0), task.per_row(UNKNOWN), torch.zeros(classes, classes))

    def start_epoch(self, state: Latent, epoch: int, full_pass: Tensor | None) -> Latent:
        known = state.labels != UNKNOWN
        if not bool(known.any()):
            return state
        by_label = torch.zeros_like(state.matrix)
        for rows, classes in tables.parts(state.classes):
            by_label.index_add_(0, state.labels[rows][known[rows]], classes[known[rows]])
        counts = by_label.t() + self.prior
        return state._replace(matrix=counts / counts.sum(-1, keepdim=True))

    def step(self, state: Latent, batch: Batch) -> Decision:
        assert batch.logits is not None
        assert batch.labels is not None
        p, label, counted = batch.logits.detach().softmax(-1), observed(batch), state.matrix.sum() > 0
        inferred = p * state.matrix.clamp(min=TINY).t()[batch.labels]
        inferred = inferred / inferred.sum(-1, keepdim=True)
        predicted = at_class(p.argmax(-1), p).to(p.dtype)
        targets = torch.where(counted, inferred, label)
        return Decision(
            batch.valid,
            {"classes": torch.where(counted, inferred, predicted), "labels": batch.labels},
            targets=targets,
            confidence=(targets * label).sum(-1).clamp(0, 1),
        )
