"""BARE: keep the samples whose label is unusually probable, by the statistics of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..backend.checks import check_number
from ..backend.opaque import opaque
from ..method import Batch, Decision, Method, NoState, Task


@dataclass(frozen=True)
class BARE(Method[NoState]):
    """Keep a sample if its label's probability is at least one standard deviation above that class's mean.

    Mean and deviation of a class are those of its predicted probability over the whole batch. Where no sample
    of a batch qualifies, all are kept.

    Args:
        deviations: how many standard deviations above the mean, at least 0; the authors' value is 1.
    """

    deviations: float = 1.0

    name: ClassVar[str] = "bare"
    summary: ClassVar[str] = "keeps labels that are more probable than usual in the batch; needs no noise ratio"
    paper: ClassVar[str] = "Patel, Sastry 2023"
    needs_logits: ClassVar[bool] = True
    soft_targets: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("BARE", "deviations", self.deviations, 0)

    def init(self, task: Task) -> NoState:
        return NoState()

    def step(self, state: NoState, batch: Batch) -> Decision:
        assert batch.logits is not None
        assert batch.labels is not None
        valid = batch.valid.unsqueeze(-1)
        p = opaque(batch.logits.detach().softmax(-1).where(valid, 0.0))
        mean = p.sum(-2, keepdim=True) / batch.n_valid
        square = (p - mean).square().where(valid, 0.0).sum(-2, keepdim=True)
        deviation = (square / (batch.n_valid - 1).clamp(min=1)).sqrt()
        # Triton cannot compile these sums fused with the softmax before and the look-up after them
        margin = opaque(p - mean - self.deviations * deviation)
        kept = (margin.gather(-1, batch.labels.unsqueeze(-1)).squeeze(-1) >= 0) & batch.valid
        return Decision(kept | ~kept.any(-1, keepdim=True))
