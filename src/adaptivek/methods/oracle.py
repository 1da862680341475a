"""Oracle: trains on the truly clean samples only, the upper bound of every comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..types import Seen, Selector, Task


class Truth(NamedTuple):
    clean: Tensor  #: (rows,) bool


@dataclass(frozen=True)
class Oracle(Selector[Truth]):
    """Keep exactly the samples whose label is right. Needs the truth, so it only serves comparison."""

    name: ClassVar[str] = "oracle"
    summary: ClassVar[str] = "trains on the truly clean samples only (knows the truth): the upper bound"
    paper: ClassVar[str] = "Dedeoglu, Kesgin, Amasyali 2024"
    needs_rows: ClassVar[bool] = True
    privileged: ClassVar[bool] = True

    def init(self, task: Task) -> Truth:
        if task.clean is None:
            raise ValueError("Oracle: clean must be one bool per training row (True: the label is right), got None")
        return Truth(torch.as_tensor(task.clean, dtype=torch.bool).clone())

    def select(self, state: Truth, seen: Seen) -> tuple[Tensor, Truth]:
        assert seen.rows is not None  # Selection has checked needs_rows
        return state.clean.gather(-1, seen.rows), state
