"""AugDesc's rule on one network: a weak view of the image judges, a strong one is learned from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task
from .mkl import smallest_share
from .rt import Share


@dataclass(frozen=True)
class AugDesc(Method[Share]):
    """Keep the samples with the smallest losses of the plain (weak) view; minimise those of the distorted (strong) one.

    What is judged is never learned from, so a noisy label that is memorised shows later; and a distorted image is
    harder to memorise.

    Args:
        keep: share of each batch to come down to, in (0, 1]. The right value is one minus the noise ratio.
        ramp: epochs until then, in a straight line.
    """

    keep: float = 0.6
    ramp: int = 10

    name: ClassVar[str] = "augdesc"
    summary: ClassVar[str] = "images: a weak view judges, a strong one is learned from"
    paper: ClassVar[str] = "Nishi et al. 2021"
    clean_share: ClassVar[str] = "keep"
    needs_epochs: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    views: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_number("AugDesc", "keep", self.keep, 0, 1, open_low=True)
        check_number("AugDesc", "ramp", self.ramp, 1, whole=True)

    def init(self, task: Task) -> Share:
        return Share(torch.ones(()))

    def start_epoch(self, state: Share, epoch: int, full_pass: Tensor | None) -> Share:
        return Share(torch.full_like(state.share, 1 - (1 - self.keep) * min(epoch / self.ramp, 1.0)))

    def step(self, state: Share, batch: Batch) -> Decision:
        chosen = smallest_share(batch.loss[0], batch, state.share)
        return Decision(torch.stack([torch.zeros_like(chosen), chosen]))
