"""Vanilla: plain training on every sample, the lower bound of every comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..types import Seen, Selector, Stateless, Task


@dataclass(frozen=True)
class Vanilla(Selector[Stateless]):
    """Keep every sample."""

    name: ClassVar[str] = "vanilla"
    summary: ClassVar[str] = "plain training on every sample: the lower bound"
    paper: ClassVar[str] = "the usual mean loss"
    leaves_out: ClassVar[bool] = False

    def init(self, task: Task) -> Stateless:
        return Stateless()

    def select(self, state: Stateless, seen: Seen) -> tuple[Tensor, Stateless]:
        return seen.counts, state
