"""Truncated GCE: plain training first, then a loss that improbable labels have no say in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..checks import check_number
from ..types import Stateless
from .gce import generalised
from .own_loss import OwnLoss


@dataclass(frozen=True)
class TruncatedGCE(OwnLoss):
    """Minimise ``(1 - p^q) / q`` where p, the probability of the label, is above a bound; below it is constant.

    To be used after warm-up, when right labels have come above the bound.

    Args:
        q: in (0, 1], as in :class:`GCE`.
        truncate: the bound, in (0, 1).
    """

    q: float = 0.7
    truncate: float = 0.5

    name: ClassVar[str] = "truncated-gce"
    summary: ClassVar[str] = "plain training first, then GCE without the labels it finds improbable"
    paper: ClassVar[str] = "Zhang, Sabuncu 2018"
    wants_warmup: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("TruncatedGCE", "q", self.q, 0, 1, open_low=True)
        check_number("TruncatedGCE", "truncate", self.truncate, 0, 1, open_low=True, open_high=True)

    def losses(self, state: Stateless, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Tensor:
        return generalised(logits, labels, self.q, self.truncate)
