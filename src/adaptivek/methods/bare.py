"""BARE: keep the samples whose label is unusually probable, by the statistics of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..checks import check_number
from ..types import Seen, Selector, Stateless, Task, each_run


@dataclass(frozen=True)
class BARE(Selector[Stateless]):
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

    def __post_init__(self) -> None:
        check_number("BARE", "deviations", self.deviations, 0)

    def init(self, task: Task) -> Stateless:
        return Stateless()

    def select(self, state: Stateless, seen: Seen) -> tuple[Tensor, Stateless]:
        assert seen.logits is not None  # Selection has checked needs_logits
        assert seen.labels is not None
        counted = seen.counts.unsqueeze(-1)
        p = seen.logits.softmax(-1).where(counted, 0.0)
        number = seen.number[..., None, None]
        mean = p.sum(-2, keepdim=True) / number
        square = (p - mean).square().where(counted, 0.0).sum(-2, keepdim=True)
        deviation = (square / (number - 1).clamp(min=1)).sqrt()
        above = p - mean >= each_run(self.deviations, axes=2) * deviation
        kept = above.gather(-1, seen.labels.clamp(min=0).unsqueeze(-1)).squeeze(-1) & seen.counts
        return kept | ~kept.any(-1, keepdim=True), state
