"""Adaptive-k: keep the samples whose loss is at most a threshold that moving averages supply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_choice, check_number
from ..method import Batch, Decision, Method, Task


class Moments(NamedTuple):
    m: Tensor  #: moving average of the batch mean loss
    v: Tensor  #: moving average of its square
    mass: Tensor  #: 1 - beta1^t, how much of m is data rather than its zero start; used by "mean" alone


@dataclass(frozen=True)
class AdaptiveK(Method[Moments]):
    """Keep ``loss <= threshold``; the share left out estimates the noise ratio.

    Args:
        threshold: ``"paper"`` is the published ``m / (sqrt(v) + eps)``, a pure number near 1 whatever
            the unit of the loss. ``"mean"`` is the bias-corrected running mean ``m / (1 - beta1^t)``
            in the loss's own unit, which the paper's theory assumes.
        beta1: decay of m, in (0, 1]. At 1 nothing is ever learned of the losses, so nothing is kept.
        beta2: decay of v, in (0, 1].
        eps: added to ``sqrt(v)``, above 0.
    """

    threshold: Literal["paper", "mean"] = "paper"
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    name: ClassVar[str] = "adaptive-k"
    summary: ClassVar[str] = "keeps losses up to a threshold from moving averages; needs no noise ratio"
    paper: ClassVar[str] = "Dedeoglu, Kesgin, Amasyali 2024"
    wants_warmup: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice("AdaptiveK", "threshold", self.threshold, ("paper", "mean"))
        # the mean divides by 1 - beta1^t, so there a beta1 of 1 is no edge case but an error
        check_number("AdaptiveK", "beta1", self.beta1, 0, 1, open_low=True, open_high=self.threshold == "mean")
        check_number("AdaptiveK", "beta2", self.beta2, 0, 1, open_low=True)
        check_number("AdaptiveK", "eps", self.eps, 0, open_low=True)

    def init(self, task: Task) -> Moments:
        return Moments(torch.zeros(()), torch.zeros(()), torch.zeros(()))

    def step(self, state: Moments, batch: Batch) -> Decision:
        mean = batch.loss.sum(-1) / batch.n_valid
        moved = Moments(
            m=state.m.lerp(mean, 1 - self.beta1),
            v=state.v.lerp(mean.square(), 1 - self.beta2),
            mass=state.mass.lerp(torch.ones_like(mean), 1 - self.beta1) if self.threshold == "mean" else state.mass,
        )
        update = {"m": moved.m, "v": moved.v, "mass": moved.mass}
        return Decision(batch.loss <= self.loss_threshold(moved), update)

    def loss_threshold(self, state: Moments) -> Tensor:
        if self.threshold == "mean":
            return state.m / state.mass
        return state.m / (state.v.sqrt() + self.eps)
