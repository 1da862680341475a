"""Beta mixture: how likely each label is wrong, from a mixture fitted to all losses; then bootstrapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from ..checks import check_number
from ..types import Seen, Selector, Task, rows_of

EDGE = 1e-3  # scaled losses stay this far from 0 and 1, where densities may be infinite
TINY = 1e-12


class Wrong(NamedTuple):
    wrong: Tensor  #: (rows,) how likely it is that the label is wrong


def percentile(ordered: Tensor, share: float) -> Tensor:
    """Of (..., n) values in order, between neighbours in proportion; (..., 1)."""
    place = share * (ordered.shape[-1] - 1)
    low, high = (ordered[..., i : i + 1] for i in (int(place), min(int(place) + 1, ordered.shape[-1] - 1)))
    return low + (high - low) * (place - int(place))


def posterior(losses: Tensor, rounds: int) -> Tensor:
    """The chance that each of (..., n) losses belongs to the higher of two Beta components, fitted by EM."""
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
class BetaMixture(Selector[Wrong]):
    """Train towards ``(1 - w) * label + w * own prediction``, w the chance that the label is wrong.

    Each epoch, w comes from a two-component Beta mixture of all losses ("dynamic hard bootstrapping" in the paper).

    Args:
        rounds: of EM, at each beginning of an epoch.
    """

    rounds: int = 10

    name: ClassVar[str] = "beta-mixture"
    summary: ClassVar[str] = "fits a mixture to all losses; trains likely wrong labels towards the prediction"
    paper: ClassVar[str] = "Arazo et al. 2019"
    wants_warmup: ClassVar[bool] = True
    leaves_out: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = True
    needs_epochs: ClassVar[bool] = True
    sweeps: ClassVar[Literal["", "losses", "features"]] = "losses"
    tables: ClassVar[tuple[str, ...]] = ("wrong",)

    def __post_init__(self) -> None:
        check_number("BetaMixture", "rounds", self.rounds, 1, whole=True)

    def init(self, task: Task) -> Wrong:
        if task.rows is None:
            raise ValueError("BetaMixture: rows must be given: Selection(..., rows=len(train_set)), got None")
        return Wrong(torch.zeros(task.rows))

    def refresh(self, state: Wrong, epoch: int, swept: Tensor | None) -> Wrong:
        assert swept is not None  # it sweeps
        return Wrong(posterior(swept, self.rounds).to(state.wrong.dtype))

    def losses(self, state: Wrong, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Tensor:
        assert rows is not None  # Selection has checked needs_rows
        surprise = -logits.log_softmax(-1)
        label, own = (surprise.gather(-1, of.unsqueeze(-1)).squeeze(-1) for of in (labels, logits.argmax(-1)))
        return torch.lerp(label, own, rows_of(state.wrong, rows).to(label.dtype))

    def select(self, state: Wrong, seen: Seen) -> tuple[Tensor, Wrong]:
        return seen.counts, state
