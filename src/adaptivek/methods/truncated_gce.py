"""Truncated GCE: plain training first, then a loss that improbable labels have no say in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, NoState, Task
from .gce import generalised


@dataclass(frozen=True)
class TruncatedGCE(Method[NoState]):
    """Minimise ``(1 - p^q) / q`` where p, the probability of the label, is above a bound; below it is constant.

    To be used after warm-up, when clean labels have come above the bound.

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
    leaves_out: ClassVar[bool] = False
    needs_logits: ClassVar[bool] = True
    own_loss: ClassVar[bool] = True
    soft_targets: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("TruncatedGCE", "q", self.q, 0, 1, open_low=True)
        check_number("TruncatedGCE", "truncate", self.truncate, 0, 1, open_low=True, open_high=True)

    def init(self, task: Task) -> NoState:
        return NoState()

    def step(self, state: NoState, batch: Batch) -> Decision:
        return Decision(batch.valid, losses=generalised(batch, self.q, self.truncate))
