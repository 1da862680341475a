"""JoCoR: two networks that are trained as one, and to agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task
from .co_teaching import ramp_down, small_losses
from .rt import Share


@dataclass(frozen=True)
class JoCoR(Method[Share]):
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
    clean_share: ClassVar[str] = "keep"
    needs_epochs: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    own_loss: ClassVar[bool] = True
    networks: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_number("JoCoR", "keep", self.keep, 0, 1, open_low=True)
        check_number("JoCoR", "ramp", self.ramp, 1, whole=True)
        check_number("JoCoR", "agreement", self.agreement, 0, 1, open_high=True)

    def init(self, task: Task) -> Share:
        return Share(torch.ones(()))

    def start_epoch(self, state: Share, epoch: int, full_pass: Tensor | None) -> Share:
        return ramp_down(state, epoch, self.keep, self.ramp)

    def step(self, state: Share, batch: Batch) -> Decision:
        assert batch.logits is not None
        log_p = batch.logits.log_softmax(-1)
        divergence = (log_p.exp() * (log_p - log_p.flip(0))).sum(-1)
        losses = (
            1 - self.agreement
        ) * batch.losses + self.agreement * divergence  # each network's half of the joint loss
        joint = losses.detach().sum(0).expand_as(losses)
        return Decision(small_losses(joint, batch, state.share), losses=losses)
