"""Label memory: each sample learns what its label may have been, given today's prediction and the remembered ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task, observed

START = 0.2  # noise ratio of the transition matrix before anything has been seen
PRIOR = 20  # how many samples that is worth
RARE = 1e-4  # how often, at least, any class is taken to be labelled as any other
HORIZON = 5_000  # samples that the counts look back on where the size of the training set is not known


class LabelMemoryState(NamedTuple):
    remembered: Tensor  #: (rows, classes) EMA of each row's log-probabilities, 0 before its first visit
    visits: Tensor  #: (rows,) how often each row was seen
    confusion: Tensor  #: (classes, classes) how many samples of the first class are labelled as the second, of late
    horizon: Tensor  #: samples that those counts look back on: the size of the training set


@dataclass(frozen=True)
class LabelMemory(Method[LabelMemoryState]):
    beta: float = 0.5
    power: float = 1.0
    share: float = 1.0
    start: float = 0.2
    prior: float = 20.0

    name: ClassVar[str] = "label-memory"
    summary: ClassVar[str] = "learns what each label may have been, by predictions, remembered ones and their confusion"
    paper: ClassVar[str] = "this library"
    revision: ClassVar[int] = 2
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    uses_rows: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("remembered", "visits")

    def __post_init__(self) -> None:
        check_number("LabelMemory", "beta", self.beta, 0, 1, open_high=True)

    def init(self, task: Task) -> LabelMemoryState:
        classes = task.classes or 0
        horizon = torch.tensor(float(task.rows or HORIZON))
        return LabelMemoryState(
            task.per_row_and_class(0.0), task.per_row(0.0), torch.zeros(classes, classes), horizon
        )

    def step(self, state: LabelMemoryState, batch: Batch) -> Decision:
        assert batch.logits is not None
        assert batch.labels is not None
        today = batch.logits.detach().log_softmax(-1)
        opinion = today if state.remembered is None else today + self.power * state.remembered
        seen_as = self._seen_as(state.confusion, observed(batch), batch.labels).log()
        posterior = (opinion + seen_as).softmax(-1)
        counted = (opinion + self.share * seen_as).softmax(-1)
        update = {"confusion": self._count(state, counted, batch)}
        if state.remembered is not None:
            pace = torch.clamp(1 / (state.visits + 1), min=1 - self.beta).unsqueeze(-1)
            update |= {"remembered": state.remembered + pace * (today - state.remembered), "visits": state.visits + 1}
        confidence = (posterior * observed(batch)).sum(-1)
        return Decision(batch.valid, update, targets=posterior, confidence=confidence)

    def _seen_as(self, confusion: Tensor, label: Tensor, labels: Tensor) -> Tensor:
        classes = confusion.shape[-1]
        other = self.start / max(1, classes - 1)
        prior = self.prior / classes
        column = confusion.t()[labels] + prior * torch.where(label > 0, 1 - self.start, other)
        return (column / (confusion.sum(-1) + prior)).clamp(RARE)

    def _count(self, state: LabelMemoryState, posterior: Tensor, batch: Batch) -> Tensor:
        left = (1 - batch.n_valid / state.horizon).clamp(min=0)
        now = posterior * batch.valid.unsqueeze(-1)
        return (left * state.confusion).t().index_add(0, batch.labels, now.to(state.confusion.dtype)).t()
