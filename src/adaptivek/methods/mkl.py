"""MKL, min-k loss: keep a fixed share of each mini-batch, the samples with the smallest loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, NoState, Task


def ranks(values: Tensor) -> Tensor:
    """The place of each value along the last axis, from 0 for the smallest; ties go to the earlier one."""
    order = values.argsort(dim=-1, stable=True)  # stable: the same on every device
    place = torch.arange(values.shape[-1], device=values.device).expand_as(order)
    return torch.zeros_like(order).scatter(-1, order, place)


def smallest_share(loss: Tensor, batch: Batch, keep: float | Tensor) -> Tensor:
    """True for the ``round(keep * n)`` smallest losses of the n valid samples, at least one of them."""
    return smallest_number(loss, batch, (keep * batch.n_valid).round())


def smallest_number(loss: Tensor, batch: Batch, number: Tensor) -> Tensor:
    """True for the ``number`` smallest losses of the valid samples, at least one of them."""
    return ranks(loss.where(batch.valid, torch.inf)) < number.clamp(min=1)  # what is not valid ranks last


@dataclass(frozen=True)
class MKL(Method[NoState]):
    """Keep the samples with the smallest losses, a fixed share of every mini-batch.

    Args:
        keep: share to keep, in (0, 1]. The right value is one minus the noise ratio, which is
            seldom known; the default is the share that the Adaptive-k paper draws its figures with.
    """

    keep: float = 0.6

    name: ClassVar[str] = "mkl"
    summary: ClassVar[str] = "keeps a fixed share of each batch, the smallest losses"
    paper: ClassVar[str] = "Shah, Wu, Sanghavi 2020"
    clean_share: ClassVar[str] = "keep"

    def __post_init__(self) -> None:
        check_number("MKL", "keep", self.keep, 0, 1, open_low=True)

    def init(self, task: Task) -> NoState:
        return NoState()

    def step(self, state: NoState, batch: Batch) -> Decision:
        return Decision(smallest_share(batch.loss, batch, self.keep))
