"""Vanilla+MKL: plain training first, then MKL; the paper's second proposal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, NoState, Task
from .mkl import smallest_share


@dataclass(frozen=True)
class VanillaMKL(Method[NoState]):
    """MKL for use after warm-up, when the losses it sorts already mean something.

    Args:
        keep: share to keep, in (0, 1], as in :class:`MKL`.
    """

    keep: float = 0.6

    name: ClassVar[str] = "vanilla+mkl"
    summary: ClassVar[str] = "plain training first, then MKL"
    paper: ClassVar[str] = "Dedeoglu, Kesgin, Amasyali 2024"
    wants_warmup: ClassVar[bool] = True
    clean_share: ClassVar[str] = "keep"

    def __post_init__(self) -> None:
        check_number("VanillaMKL", "keep", self.keep, 0, 1, open_low=True)

    def init(self, task: Task) -> NoState:
        return NoState()

    def step(self, state: NoState, batch: Batch) -> Decision:
        return Decision(smallest_share(batch.loss, batch, self.keep))
