"""mixup: plain training on mixtures of two samples and of their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, NoState, Task


@dataclass(frozen=True)
class Mixup(Method[NoState]):
    """Cross-entropy of ``share * x + (1 - share) * other x`` with the labels mixed likewise.

    The loop mixes: those of the experiments do, and :func:`adaptivek.mixup` is for loops of your own. On a batch that
    nobody has mixed this criterion is plain training.

    Args:
        alpha: the share is drawn from Beta(alpha, alpha), once a batch; above 0. The larger, the nearer to one half.
    """

    alpha: float = 1.0

    name: ClassVar[str] = "mixup"
    summary: ClassVar[str] = "plain training on mixtures of two samples and of their labels"
    paper: ClassVar[str] = "Zhang et al. 2018"
    leaves_out: ClassVar[bool] = False
    mixing: ClassVar[str] = "alpha"

    def __post_init__(self) -> None:
        check_number("Mixup", "alpha", self.alpha, 0, open_low=True)

    def init(self, task: Task) -> NoState:
        return NoState()

    def step(self, state: NoState, batch: Batch) -> Decision:
        return Decision(batch.valid)
