"""SCE, symmetric cross-entropy: cross-entropy plus the same with label and prediction exchanged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, NoState, Task


@dataclass(frozen=True)
class SCE(Method[NoState]):
    """Minimise ``alpha * CE + beta * RCE``.

    The reverse cross-entropy RCE takes the logarithm of the one-hot label, in which log 0 stands for a
    constant; so it is ``-log_zero * (1 - p)``, p the probability of the label: bounded, and robust to noise.

    Args:
        alpha: weight of cross-entropy, at least 0. It learns hard classes, and noisy labels.
        beta: weight of the reverse cross-entropy, at least 0.
        log_zero: what log 0 is taken for, below 0.
    """

    alpha: float = 0.1
    beta: float = 1.0
    log_zero: float = -4.0

    name: ClassVar[str] = "sce"
    summary: ClassVar[str] = "cross-entropy plus reverse cross-entropy, which noisy labels cannot pull far"
    paper: ClassVar[str] = "Wang et al. 2019"
    leaves_out: ClassVar[bool] = False
    needs_logits: ClassVar[bool] = True
    own_loss: ClassVar[bool] = True
    soft_targets: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("SCE", "alpha", self.alpha, 0)
        check_number("SCE", "beta", self.beta, 0)
        check_number("SCE", "log_zero", self.log_zero, -math.inf, 0, open_low=True, open_high=True)

    def init(self, task: Task) -> NoState:
        return NoState()

    def step(self, state: NoState, batch: Batch) -> Decision:
        reverse = self.log_zero * (-batch.losses).expm1()  # log_zero * (p - 1), exact where p is near 1
        return Decision(batch.valid, losses=self.beta * reverse + self.alpha * batch.losses)
