"""Label-noised Trim-SGD: flip some labels on purpose, then drop the samples with extreme losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..backend.hashing import scrambled
from ..method import Batch, Decision, Method, Task, log_prob
from .mkl import ranks


class Count(NamedTuple):
    steps: Tensor  #: so far; with a row's number it decides whether that row's label is replaced


@dataclass(frozen=True)
class LabelNoisedTrim(Method[Count]):
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
    needs_logits: ClassVar[bool] = True
    own_loss: ClassVar[bool] = True
    soft_targets: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("LabelNoisedTrim", "flip", self.flip, 0, 1)
        check_number("LabelNoisedTrim", "largest", self.largest, 0, 1, open_high=True)
        check_number("LabelNoisedTrim", "smallest", self.smallest, 0, 1 - self.largest, open_high=True)

    def init(self, task: Task) -> Count:
        return Count(torch.zeros((), dtype=torch.int64))

    def step(self, state: Count, batch: Batch) -> Decision:
        assert batch.rows is not None
        assert batch.logits is not None
        assert batch.labels is not None
        drawn = scrambled(scrambled(state.steps) + batch.rows)
        replaced = (drawn >> 40 & 0xFFFFFF) / 2**24 < self.flip
        other = (drawn & 0x7FFFFFFF) % batch.logits.shape[-1]
        losses = -log_prob(batch.logits, other.where(replaced, batch.labels))
        n = batch.n_valid
        low = torch.minimum((self.smallest * n).round(), n - 1)
        high = torch.minimum((self.largest * n).round(), n - 1 - low)  # at least one stays
        rank = ranks(losses.detach().where(batch.valid, torch.inf))  # what is not valid ranks last
        return Decision((rank >= low) & (rank < n - high), {"steps": state.steps + 1}, losses=losses)
