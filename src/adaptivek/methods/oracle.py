"""Oracle: trains on the truly clean samples only, the upper bound of every comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..method import Batch, Decision, Method, Task


class Truth(NamedTuple):
    clean: Tensor  #: (rows,) bool


@dataclass(frozen=True)
class Oracle(Method[Truth]):
    """Keep exactly the samples whose label is clean. Needs the truth, so it only serves comparison."""

    name: ClassVar[str] = "oracle"
    summary: ClassVar[str] = "trains on the truly clean samples only (knows the truth): the upper bound"
    paper: ClassVar[str] = "Dedeoglu, Kesgin, Amasyali 2024"
    needs_rows: ClassVar[bool] = True
    privileged: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("clean",)

    def init(self, task: Task) -> Truth:
        return Truth(torch.as_tensor(task.clean, dtype=torch.bool).clone())

    def step(self, state: Truth, batch: Batch) -> Decision:
        return Decision(state.clean)
