"""AugDesc's rule on one network: a view of the image as it is judges, a distorted one is learned from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..checks import check_number
from ..types import Seen, Selector, Task
from .mkl import smallest_share
from .own_loss import log_prob
from .rt import Share


@dataclass(frozen=True)
class AugDesc(Selector[Share]):
    """Keep the samples with the smallest losses of the plain (weak) view; minimise those of the distorted (strong) one.

    What is judged is never learned from, so a wrong label that is learned by heart shows later; and a distorted image
    is harder to learn by heart.

    Args:
        keep: share of each batch to come down to, in (0, 1]. The right value is one minus the noise ratio.
        ramp: epochs until then, in a straight line.
    """

    keep: float = 0.6
    ramp: int = 10

    name: ClassVar[str] = "augdesc"
    summary: ClassVar[str] = "images: a plain view judges, a distorted one is learned from"
    paper: ClassVar[str] = "Nishi et al. 2021"
    needs_ratio: ClassVar[bool] = True
    needs_epochs: ClassVar[bool] = True
    views: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_number("AugDesc", "keep", self.keep, 0, 1, open_low=True)
        check_number("AugDesc", "ramp", self.ramp, 1, whole=True)

    def init(self, task: Task) -> Share:
        return Share(torch.ones(()))

    def refresh(self, state: Share, epoch: int, swept: Tensor | None) -> Share:
        return Share((1 - (1 - self.keep) * min(epoch / self.ramp, 1.0)) * torch.ones_like(state.share))

    def losses(self, state: Share, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Tensor:
        weak, strong = (-log_prob(logits, labels)).unbind(-2)
        return torch.stack([weak.detach(), strong], -2)

    def select(self, state: Share, seen: Seen) -> tuple[Tensor, Share]:
        weak = seen._replace(loss=seen.loss[..., 0, :], counts=seen.counts[..., 0, :], number=seen.number[..., 0])
        chosen = smallest_share(weak, state.share)
        return torch.stack([torch.zeros_like(chosen), chosen], -2), state
