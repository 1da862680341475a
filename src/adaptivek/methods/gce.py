"""GCE, generalised cross-entropy: a loss between cross-entropy and the mean absolute error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..checks import check_number
from ..types import Stateless, each_run
from .own_loss import OwnLoss, log_prob


def generalised(logits: Tensor, labels: Tensor, q: float | Tensor, truncate: float | Tensor) -> Tensor:
    """``(1 - p^q) / q``, p the probability of the label; constant where p is at most ``truncate``."""
    log_p, q, truncate = log_prob(logits, labels), each_run(q), each_run(truncate)
    power = (q * log_p).exp()  # p^q by logarithms: the gradient of p^q itself is infinite at p = 0
    return (1 - power.where(log_p.exp() > truncate, truncate**q)) / q


@dataclass(frozen=True)
class GCE(OwnLoss):
    """Minimise ``(1 - p^q) / q``, p the probability of the label.

    Compared with cross-entropy, a sample's gradient is multiplied by p^q: labels that the network finds
    improbable, as wrong ones are, have little say.

    Args:
        q: in (0, 1]. Near 0 it is cross-entropy, at 1 the mean absolute error (up to a factor).
        truncate: in [0, 1). Samples whose label has at most this probability have a constant loss, so no say
            at all. 0 switches it off; else see :class:`TruncatedGCE`, which is given a warm-up.
    """

    q: float = 0.7
    truncate: float = 0.0

    name: ClassVar[str] = "gce"
    summary: ClassVar[str] = "a loss between cross-entropy and absolute error, bounded for wrong labels"
    paper: ClassVar[str] = "Zhang, Sabuncu 2018"

    def __post_init__(self) -> None:
        check_number("GCE", "q", self.q, 0, 1, open_low=True)
        check_number("GCE", "truncate", self.truncate, 0, 1, open_high=True)

    def losses(self, state: Stateless, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Tensor:
        return generalised(logits, labels, self.q, self.truncate)
