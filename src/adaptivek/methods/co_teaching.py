"""Co-teaching: two networks, each trained on what the other finds easy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task
from .mkl import smallest_share
from .rt import Share


def ramp_down(state: Share, epoch: int, keep: float, ramp: int) -> Share:
    """The share to keep: all at first, and in a straight line down to ``keep`` in epoch ``ramp``."""
    return Share(torch.full_like(state.share, 1 - (1 - keep) * min(epoch / ramp, 1.0)))


@dataclass(frozen=True)
class CoTeaching(Method[Share]):
    """Each of two networks picks its smallest losses in a batch, and the other one is trained on these.

    Two networks begin apart and err apart: what one takes for clean, the other has not yet memorised.

    Args:
        keep: share to come down to, in (0, 1]. The right value is one minus the noise ratio.
        ramp: epochs until then.
    """

    keep: float = 0.6
    ramp: int = 10

    name: ClassVar[str] = "co-teaching"
    summary: ClassVar[str] = "two networks, each trained on the smallest losses of the other"
    paper: ClassVar[str] = "Han et al. 2018"
    needs_ratio: ClassVar[bool] = True
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
        return Decision(smallest_share(batch.loss.flip(0), batch, state.share))
