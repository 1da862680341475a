"""MKL, min-k loss: keep a fixed share of each mini-batch, the samples with the smallest loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..checks import check_number
from ..types import Seen, Selector, Stateless, Task


def ranks(values: Tensor) -> Tensor:
    """The place of each value along the last axis, from 0 for the smallest; ties go to the earlier one."""
    order = values.argsort(dim=-1, stable=True)  # stable: the same on every device
    place = torch.arange(values.shape[-1], device=values.device).expand_as(order)
    return torch.zeros_like(order).scatter(-1, order, place)


def smallest_share(seen: Seen, keep: float | Tensor) -> Tensor:
    """True for the ``round(keep * n)`` smallest of the n losses that count, at least one of them."""
    return smallest_number(seen, (keep * seen.number).round())


def smallest_number(seen: Seen, number: Tensor) -> Tensor:
    """True for the ``number`` smallest of the losses that count, at least one of them."""
    loss = seen.loss.where(seen.counts, torch.inf)  # what does not count ranks last
    return ranks(loss) < number.clamp(min=1).unsqueeze(-1)


@dataclass(frozen=True)
class MKL(Selector[Stateless]):
    """Keep the samples with the smallest losses, a fixed share of every mini-batch.

    Args:
        keep: share to keep, in (0, 1]. The right value is one minus the noise ratio, which is
            seldom known; the default is the share that the Adaptive-k paper draws its figures with.
    """

    keep: float = 0.6

    name: ClassVar[str] = "mkl"
    summary: ClassVar[str] = "keeps a fixed share of each batch, the smallest losses"
    paper: ClassVar[str] = "Shah, Wu, Sanghavi 2020"
    needs_ratio: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("MKL", "keep", self.keep, 0, 1, open_low=True)

    def init(self, task: Task) -> Stateless:
        return Stateless()

    def select(self, state: Stateless, seen: Seen) -> tuple[Tensor, Stateless]:
        return smallest_share(seen, self.keep), state
