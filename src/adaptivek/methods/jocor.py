"""JoCoR: two networks that are trained as one, and to agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..checks import check_number
from ..types import Seen, Selector, Task, each_run
from .co_teaching import ramp_down, remembered
from .rt import Share


@dataclass(frozen=True)
class JoCoR(Selector[Share]):
    """Minimise ``(1 - agreement) * (CE of both) + agreement * (KL of each to the other)`` where it is smallest.

    Networks that differ about a sample have a high joint loss on it, and so do those that both reject its label.

    Args:
        keep: share of each batch to come down to, in (0, 1]. The right value is one minus the noise ratio.
        ramp: epochs in the authors' schedule; ``keep`` is reached in the last but one.
        agreement: lambda of the paper, in [0, 1): how much agreeing counts beside the labels.
    """

    keep: float = 0.6
    ramp: int = 10
    agreement: float = 0.5

    name: ClassVar[str] = "jocor"
    summary: ClassVar[str] = "two networks trained to agree, on the smallest joint losses"
    paper: ClassVar[str] = "Wei et al. 2020"
    revision: ClassVar[int] = 2  # 1 reached keep two epochs later, and rounded
    needs_ratio: ClassVar[bool] = True
    needs_epochs: ClassVar[bool] = True
    networks: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_number("JoCoR", "keep", self.keep, 0, 1, open_low=True)
        check_number("JoCoR", "ramp", self.ramp, 1, whole=True)
        check_number("JoCoR", "agreement", self.agreement, 0, 1, open_high=True)

    def init(self, task: Task) -> Share:
        return Share(torch.ones(()))

    def refresh(self, state: Share, epoch: int, swept: Tensor | None) -> Share:
        return ramp_down(state, epoch, self.keep, self.ramp)

    def losses(self, state: Share, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Tensor:
        """Each network's half of the joint loss, (..., 2, B)."""
        log_p, agreement = logits.log_softmax(-1), each_run(self.agreement, axes=2)
        label = -log_p.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        divergence = (log_p.exp() * (log_p - log_p.flip(-3))).sum(-1)
        return (1 - agreement) * label + agreement * divergence

    def select(self, state: Share, seen: Seen) -> tuple[Tensor, Share]:
        joint = seen._replace(loss=seen.loss.sum(-2, keepdim=True).expand_as(seen.loss))
        return remembered(joint, state.share.unsqueeze(-1)), state
