"""ITLM, iterative trimmed loss minimisation: per round, train on the smallest losses of the whole set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from torch import Tensor

from ..backend.checks import check_choice, check_number
from ..method import Batch, Decision, Method, Task
from .mkl import ranks


class Chosen(NamedTuple):
    chosen: Tensor  #: (rows,) bool: in use in this round


def smallest(losses: Tensor, keep: float | Tensor) -> Tensor:
    """True for the ``floor(keep * n)`` smallest of (n,) losses, at least one of them."""
    return ranks(losses) < max(1, int(float(keep) * len(losses) + 1e-3))  # a hair more: 0.1 * 30 is not always 3


@dataclass(frozen=True)
class ITLM(Method[Chosen]):
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
    clean_share: ClassVar[str] = "keep"
    needs_rows: ClassVar[bool] = True
    needs_epochs: ClassVar[bool] = True
    full_pass: ClassVar[Literal["", "losses", "features"]] = "losses"
    tables: ClassVar[tuple[str, ...]] = ("chosen",)

    def __post_init__(self) -> None:
        check_number("ITLM", "keep", self.keep, 0, 1, open_low=True)
        check_number("ITLM", "every", self.every, 1, whole=True)
        check_choice("ITLM", "begin", self.begin, ("on", "anew"))

    def init(self, task: Task) -> Chosen:
        return Chosen(task.per_row(True))

    def start_epoch(self, state: Chosen, epoch: int, full_pass: Tensor | None) -> Chosen:
        assert full_pass is not None
        return Chosen(smallest(full_pass, self.keep)) if epoch > 0 and epoch % self.every == 0 else state

    def epochs_since_restart(self, epoch: int) -> int:
        return epoch % self.every if self.begin == "anew" else epoch

    def step(self, state: Chosen, batch: Batch) -> Decision:
        return Decision(state.chosen)
