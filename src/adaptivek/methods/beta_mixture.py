"""Beta mixture: how likely each label is noisy, from a mixture fitted to all losses; then bootstrapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task

EDGE = 1e-3  # scaled losses stay this far from 0 and 1, where densities may be infinite
TINY = 1e-12


class NoisyProbability(NamedTuple):
    noisy: Tensor  #: (rows,) how likely it is that the label is noisy


def percentile(ordered: Tensor, share: float) -> Tensor:
    """Of (n,) values in order, between neighbours in proportion; (1,)."""
    place = share * (ordered.shape[-1] - 1)
    low, high = (ordered[..., i : i + 1] for i in (int(place), min(int(place) + 1, ordered.shape[-1] - 1)))
    return low + (high - low) * (place - int(place))


def posterior(losses: Tensor, rounds: int) -> Tensor:
    """The chance that each of (n,) losses belongs to the higher of two Beta components, fitted by EM."""
    losses = losses.double().nan_to_num(nan=1e6, posinf=1e6)
    ordered = losses.sort(-1).values
    low, high = percentile(ordered, 0.05), percentile(ordered, 0.95)
    inside = ((losses >= low) & (losses <= high)).double()  # outliers have no say in the fit
    x = ((losses - low) / (high - low + 1e-6)).clamp(EDGE, 1 - EDGE)

    def responsibilities(x: Tensor, a: Tensor, b: Tensor, share: Tensor) -> Tensor:
        log_density = (a - 1) * x.log() + (b - 1) * (-x).log1p() - (a.lgamma() + b.lgamma() - (a + b).lgamma())
        weighted = (share * log_density.exp()).clamp(min=TINY)
        return weighted / weighted.sum(0)

    r = torch.stack([x < 0.5, x >= 0.5]).double()  # the two components along a new first axis: at first, the halves
    for _ in range(rounds):
        r = r * inside
        total = r.sum(-1, keepdim=True) + TINY
        mean = ((r * x).sum(-1, keepdim=True) / total).clamp(EDGE, 1 - EDGE)
        spread = ((r * (x - mean).square()).sum(-1, keepdim=True) / total).clamp(min=1e-6)
        size = (mean * (1 - mean) / spread - 1).clamp(min=1e-2)  # a + b, by moments
        a, b, share = mean * size, (1 - mean) * size, total / total.sum(0)
        r = responsibilities(x, a, b, share)
    means = a / (a + b)
    # beyond the means the tails decide, which say little: there it stays what it is at the mean
    r = responsibilities(torch.minimum(torch.maximum(x, means.amin(0)), means.amax(0)), a, b, share)
    return torch.where(means[1] >= means[0], r[1], r[0])


@dataclass(frozen=True)
class BetaMixture(Method[NoisyProbability]):
    """Train towards ``(1 - w) * label + w * own prediction``, w the chance that the label is noisy.

    Each epoch, w comes from a two-component Beta mixture of all losses ("dynamic hard bootstrapping" in the paper).

    Args:
        rounds: of EM, at each beginning of an epoch.
    """

    rounds: int = 10

    name: ClassVar[str] = "beta-mixture"
    summary: ClassVar[str] = "fits a mixture to all losses; trains likely noisy labels towards the prediction"
    paper: ClassVar[str] = "Arazo et al. 2019"
    wants_warmup: ClassVar[bool] = True
    leaves_out: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = True
    needs_epochs: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    own_loss: ClassVar[bool] = True
    full_pass: ClassVar[Literal["", "losses", "features"]] = "losses"
    tables: ClassVar[tuple[str, ...]] = ("noisy",)

    def __post_init__(self) -> None:
        check_number("BetaMixture", "rounds", self.rounds, 1, whole=True)

    def init(self, task: Task) -> NoisyProbability:
        return NoisyProbability(task.per_row(0.0))

    def start_epoch(self, state: NoisyProbability, epoch: int, full_pass: Tensor | None) -> NoisyProbability:
        assert full_pass is not None
        return NoisyProbability(posterior(full_pass, self.rounds).to(state.noisy.dtype))

    def step(self, state: NoisyProbability, batch: Batch) -> Decision:
        assert batch.logits is not None
        own = -batch.logits.log_softmax(-1).amax(-1)
        return Decision(batch.valid, losses=torch.lerp(batch.losses, own, state.noisy.to(own.dtype)))
