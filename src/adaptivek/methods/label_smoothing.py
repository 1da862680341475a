"""Label smoothing: a little of every label is spread over all classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, NoState, Task, observed


@dataclass(frozen=True)
class LabelSmoothing(Method[NoState]):
    """Cross-entropy with the target ``(1 - smoothing) * one-hot + smoothing / classes``.

    Args:
        smoothing: share of each label that is spread evenly over all classes, its own included; in [0, 1).
    """

    smoothing: float = 0.1

    name: ClassVar[str] = "label-smoothing"
    summary: ClassVar[str] = "cross-entropy with a share of each label spread over all classes"
    paper: ClassVar[str] = "Szegedy et al. 2016; Lukasik et al. 2020"
    leaves_out: ClassVar[bool] = False
    needs_logits: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("LabelSmoothing", "smoothing", self.smoothing, 0, 1, open_high=True)

    def init(self, task: Task) -> NoState:
        return NoState()

    def step(self, state: NoState, batch: Batch) -> Decision:
        target = observed(batch)
        return Decision(batch.valid, targets=(1 - self.smoothing) * target + self.smoothing / target.shape[-1])
