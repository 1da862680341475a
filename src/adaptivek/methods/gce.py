"""GCE, generalised cross-entropy: a loss between cross-entropy and the mean absolute error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, NoState, Task


def generalised(batch: Batch, q: float, truncate: float) -> Tensor:
    """``(1 - p^q) / q``, p the probability of the label; constant where p is at most ``truncate``."""
    log_p = -batch.losses
    power = (q * log_p).exp()  # p^q by logarithms: the gradient of p^q itself is infinite at p = 0
    return (1 - power.where(log_p.exp() > truncate, truncate**q)) / q


@dataclass(frozen=True)
class GCE(Method[NoState]):
    """Minimise ``(1 - p^q) / q``, p the probability of the label.

    Compared with cross-entropy, a sample's gradient is multiplied by p^q: labels that the network finds
    improbable, as noisy ones are, have little say.

    Args:
        q: in (0, 1]. Near 0 it is cross-entropy, at 1 the mean absolute error (up to a factor).
        truncate: in [0, 1). Samples whose label has at most this probability have a constant loss, so no say
            at all. 0 switches it off; else see :class:`TruncatedGCE`, which is given a warm-up.
    """

    q: float = 0.7
    truncate: float = 0.0

    name: ClassVar[str] = "gce"
    summary: ClassVar[str] = "a loss between cross-entropy and absolute error, bounded for noisy labels"
    paper: ClassVar[str] = "Zhang, Sabuncu 2018"
    leaves_out: ClassVar[bool] = False
    needs_logits: ClassVar[bool] = True
    own_loss: ClassVar[bool] = True
    soft_targets: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("GCE", "q", self.q, 0, 1, open_low=True)
        check_number("GCE", "truncate", self.truncate, 0, 1, open_high=True)

    def init(self, task: Task) -> NoState:
        return NoState()

    def step(self, state: NoState, batch: Batch) -> Decision:
        return Decision(batch.valid, losses=generalised(batch, self.q, self.truncate))
