"""PES, progressive early stopping: later parts of the network, which memorise first, are trained for fewer epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task


class Filtering(NamedTuple):
    filtering: Tensor  #: bool: samples are left out in this epoch


@dataclass(frozen=True)
class PES(Method[Filtering]):
    """Train all; then the last two parts afresh with the rest frozen; then the head alone; then all, by agreement.

    What is kept at the end are the samples whose label is the predicted class, as in :class:`Agreement`. The training
    loop freezes, and gives fresh weights; which parts are the last is for it to know.

    Args:
        plain: epochs in which all of the network is trained first.
        later: epochs for the last two parts, begun afresh.
        head: epochs for the last part alone, begun afresh.
    """

    plain: int = 25
    later: int = 7
    head: int = 7

    name: ClassVar[str] = "pes"
    summary: ClassVar[str] = "begins the network's last parts afresh for a few epochs, then keeps by agreement"
    paper: ClassVar[str] = "Bai et al. 2021"
    needs_logits: ClassVar[bool] = True
    needs_epochs: ClassVar[bool] = True
    freezes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("PES", "plain", self.plain, 0, whole=True)
        check_number("PES", "later", self.later, 0, whole=True)
        check_number("PES", "head", self.head, 0, whole=True)

    def init(self, task: Task) -> Filtering:
        return Filtering(torch.tensor(False))

    def start_epoch(self, state: Filtering, epoch: int, full_pass: Tensor | None) -> Filtering:
        return Filtering(torch.full_like(state.filtering, epoch >= self.plain + self.later + self.head))

    def parts_alone(self, epoch: int) -> int:
        since = epoch - self.plain
        if 0 <= since < self.later:
            return 2
        return int(self.later <= since < self.later + self.head)

    def step(self, state: Filtering, batch: Batch) -> Decision:
        assert batch.logits is not None
        assert batch.labels is not None
        return Decision(~state.filtering | (batch.logits.argmax(-1) == batch.labels))
