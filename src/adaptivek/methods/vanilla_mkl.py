"""Vanilla+MKL: plain training first, then MKL; the paper's second proposal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..checks import check_number
from ..types import Seen, Selector, Stateless, Task
from .mkl import smallest_share


@dataclass(frozen=True)
class VanillaMKL(Selector[Stateless]):
    """MKL for use after warm-up, when the losses it sorts already mean something.

    Args:
        keep: share to keep, in (0, 1], as in :class:`MKL`.
    """

    keep: float = 0.6

    name: ClassVar[str] = "vanilla+mkl"
    summary: ClassVar[str] = "plain training first, then MKL"
    paper: ClassVar[str] = "Dedeoglu, Kesgin, Amasyali 2024"
    wants_warmup: ClassVar[bool] = True
    needs_ratio: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("VanillaMKL", "keep", self.keep, 0, 1, open_low=True)

    def init(self, task: Task) -> Stateless:
        return Stateless()

    def select(self, state: Stateless, seen: Seen) -> tuple[Tensor, Stateless]:
        return smallest_share(seen, self.keep), state
