"""Vanilla: plain training on every sample, the lower bound of every comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..method import Batch, Decision, Method, NoState, Task


@dataclass(frozen=True)
class Vanilla(Method[NoState]):
    """Keep every sample."""

    name: ClassVar[str] = "vanilla"
    summary: ClassVar[str] = "plain training on every sample: the lower bound"
    paper: ClassVar[str] = "the usual mean loss"
    leaves_out: ClassVar[bool] = False

    def init(self, task: Task) -> NoState:
        return NoState()

    def step(self, state: NoState, batch: Batch) -> Decision:
        return Decision(batch.valid)
