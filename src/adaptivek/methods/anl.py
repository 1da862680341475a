"""ANL-CE, active negative loss: cross-entropy, normalised, beside a loss turned upside down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, NoState, Task, observed

LOWEST = math.log(1e-7)  # no log-probability is below in the negative loss, as in the authors' code


@dataclass(frozen=True)
class ANL(Method[NoState]):
    """Minimise ``alpha * normalised CE + beta * normalised negative CE``.

    Normalised means divided by the same over all classes, which bounds a loss and makes it robust to noisy labels.
    The negative one is the cross-entropy's distance from its largest value: it learns from the classes that a sample
    is not labelled as, and leaves alone those that the network has ruled out.

    Args:
        alpha: weight of the active loss, at least 0.
        beta: weight of the negative loss, at least 0.
    """

    alpha: float = 5.0
    beta: float = 5.0

    name: ClassVar[str] = "anl"
    summary: ClassVar[str] = "normalised cross-entropy plus a negative loss, both bounded for noisy labels"
    paper: ClassVar[str] = "Ye et al. 2023"
    leaves_out: ClassVar[bool] = False
    needs_logits: ClassVar[bool] = True
    own_loss: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("ANL", "alpha", self.alpha, 0)
        check_number("ANL", "beta", self.beta, 0)

    def init(self, task: Task) -> NoState:
        return NoState()

    def step(self, state: NoState, batch: Batch) -> Decision:
        assert batch.logits is not None
        log_p, label = batch.logits.log_softmax(-1), observed(batch)
        finite = log_p.where(log_p.isfinite(), 0.0)  # a class that a logit of minus infinity rules out has no say
        active = (label * finite).sum(-1) / finite.sum(-1)
        above = log_p.clamp(min=LOWEST) - LOWEST
        negative = 1 - (label * above).sum(-1) / above.sum(-1)
        return Decision(batch.valid, losses=self.alpha * active + self.beta * negative)
