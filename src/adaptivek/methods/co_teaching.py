"""Co-teaching: two networks, each trained on what the other finds easy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task
from .mkl import smallest_number
from .rt import Share


def ramp_down(state: Share, epoch: int, keep: float, ramp: int) -> Share:
    """The share to keep: less from the first epoch on, in a straight line down to ``keep`` in the last but one of ramp.

    The authors' table of ``ramp`` rates begins at 0, and training begins with its second.
    """
    return Share(torch.full_like(state.share, 1 - (1 - keep) * min((epoch + 1) / max(ramp - 1, 1), 1.0)))


def small_losses(loss: Tensor, batch: Batch, share: Tensor) -> Tensor:
    """True for the smallest losses, as many as ``share`` of the valid samples comes to, rounded down; at least one."""
    return smallest_number(
        loss, batch, (share * batch.n_valid + 1e-3).floor()
    )  # a hair more: 0.6 * 20 is not always 12


@dataclass(frozen=True)
class CoTeaching(Method[Share]):
    """Each of two networks picks its smallest losses in a batch, and the other one is trained on these.

    Two networks begin apart and err apart: what one takes for clean, the other has not yet memorised.

    Args:
        keep: share to come down to, in (0, 1]. The right value is one minus the noise ratio.
        ramp: epochs in the authors' schedule; ``keep`` is reached in the last but one.
    """

    keep: float = 0.6
    ramp: int = 10

    name: ClassVar[str] = "co-teaching"
    summary: ClassVar[str] = "two networks, each trained on the smallest losses of the other"
    paper: ClassVar[str] = "Han et al. 2018"
    revision: ClassVar[int] = 2  # 1 reached keep two epochs later, and rounded
    clean_share: ClassVar[str] = "keep"
    needs_epochs: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    networks: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_number("CoTeaching", "keep", self.keep, 0, 1, open_low=True)
        check_number("CoTeaching", "ramp", self.ramp, 1, whole=True)

    def init(self, task: Task) -> Share:
        return Share(torch.ones(()))

    def start_epoch(self, state: Share, epoch: int, full_pass: Tensor | None) -> Share:
        return ramp_down(state, epoch, self.keep, self.ramp)

    def step(self, state: Share, batch: Batch) -> Decision:
        return Decision(small_losses(batch.loss.flip(0), batch, state.share))
