"""ITLM, iterative trimmed loss minimisation: per round, train on the smallest losses of the whole set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from ..checks import check_choice, check_number
from ..types import Seen, Selector, Task, rows_of
from .mkl import ranks


class Chosen(NamedTuple):
    chosen: Tensor  #: (rows,) bool: in use in this round


def smallest(losses: Tensor, keep: float | Tensor) -> Tensor:
    """True for the ``floor(keep * n)`` smallest of (..., n) losses, at least one of them."""
    rows = torch.full(losses.shape[:-1], losses.shape[-1], dtype=torch.float64, device=losses.device)
    number = (keep * rows + 1e-3).floor().clamp(min=1)  # a hair more: 0.1 * 30 is not always 3
    return ranks(losses) < number.unsqueeze(-1)


@dataclass(frozen=True)
class ITLM(Selector[Chosen]):
    """Keep the ``floor(keep * n)`` rows with the smallest losses of all n, chosen anew each round.

    The first round trains on everything.

    Args:
        keep: share of the rows to keep, in (0, 1]; at or a little below one minus the noise ratio.
        every: epochs in a round.
        begin: whether the network goes ``"on"`` from round to round, or begins each one ``"anew"``, with the weights
            and the learning rate of the beginning; for rounds of several epochs. The training loop sees to it.
    """

    keep: float = 0.6
    every: int = 1
    begin: Literal["on", "anew"] = "on"

    name: ClassVar[str] = "itlm"
    summary: ClassVar[str] = "trimmed loss: per epoch, keeps the smallest losses of the whole training set"
    paper: ClassVar[str] = "Shen, Sanghavi 2019"
    needs_ratio: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True
    needs_epochs: ClassVar[bool] = True
    sweeps: ClassVar[Literal["", "losses", "features"]] = "losses"
    tables: ClassVar[tuple[str, ...]] = ("chosen",)

    def __post_init__(self) -> None:
        check_number("ITLM", "keep", self.keep, 0, 1, open_low=True)
        check_number("ITLM", "every", self.every, 1, whole=True)
        check_choice("ITLM", "begin", self.begin, ("on", "anew"))

    def init(self, task: Task) -> Chosen:
        if task.rows is None:
            raise ValueError("ITLM: rows must be given: Selection(..., rows=len(train_set)), got None")
        return Chosen(torch.ones(task.rows, dtype=torch.bool))

    def refresh(self, state: Chosen, epoch: int, swept: Tensor | None) -> Chosen:
        assert swept is not None  # it sweeps
        return Chosen(smallest(swept, self.keep)) if epoch > 0 and epoch % self.every == 0 else state

    def age(self, epoch: int) -> int:
        return epoch % self.every if self.begin == "anew" else epoch

    def select(self, state: Chosen, seen: Seen) -> tuple[Tensor, Chosen]:
        assert seen.rows is not None  # Selection has checked needs_rows
        return rows_of(state.chosen, seen.rows), state
