"""Label-noised Trim-SGD: make some labels wrong on purpose, then drop the samples with extreme losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..checks import check_number
from ..dropout import scrambled
from ..types import Seen, Selector, Task, each_run
from .mkl import ranks
from .own_loss import log_prob


class Count(NamedTuple):
    steps: Tensor  #: so far; with a row's number it decides whether that row's label is replaced


@dataclass(frozen=True)
class LabelNoisedTrim(Selector[Count]):
    """Replace some labels of each batch by random ones, then leave out the largest and the smallest losses.

    What is random is a hash of the step and the row: no random state, and the same draws in any company.

    Args:
        flip: share of the labels that is replaced, each by any class alike; in [0, 1].
        largest: share of the batch to leave out, the largest losses; in [0, 1).
        smallest: the same of the smallest losses. The two together must be below 1.
    """

    flip: float = 0.1
    largest: float = 0.1
    smallest: float = 0.1

    name: ClassVar[str] = "label-noised-trim"
    summary: ClassVar[str] = "replaces some labels at random, then drops the largest and smallest losses"
    paper: ClassVar[str] = "Nakamura et al. 2020"
    needs_rows: ClassVar[bool] = True
    leaves_out: ClassVar[bool] = False  # the share is set, whatever the labels are

    def __post_init__(self) -> None:
        check_number("LabelNoisedTrim", "flip", self.flip, 0, 1)
        check_number("LabelNoisedTrim", "largest", self.largest, 0, 1, open_high=True)
        check_number("LabelNoisedTrim", "smallest", self.smallest, 0, 1 - self.largest, open_high=True)

    def init(self, task: Task) -> Count:
        return Count(torch.zeros((), dtype=torch.int64))

    def losses(self, state: Count, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Tensor:
        assert rows is not None  # Selection has checked needs_rows
        drawn = scrambled(scrambled(state.steps).unsqueeze(-1) + rows)
        replaced = (drawn >> 40 & 0xFFFFFF) / 2**24 < each_run(self.flip)
        other = (drawn & 0x7FFFFFFF) % logits.shape[-1]
        return -log_prob(logits, other.where(replaced, labels))

    def select(self, state: Count, seen: Seen) -> tuple[Tensor, Count]:
        low = torch.minimum((self.smallest * seen.number).round(), seen.number - 1)
        high = torch.minimum((self.largest * seen.number).round(), seen.number - 1 - low)  # at least one stays
        rank = ranks(seen.loss.where(seen.counts, torch.inf))  # what does not count ranks last
        kept = (rank >= low.unsqueeze(-1)) & (rank < (seen.number - high).unsqueeze(-1))
        return kept, Count(state.steps + 1)
