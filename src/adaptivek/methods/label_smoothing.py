"""Label smoothing: a little of every label is spread over all classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from ..checks import check_number
from ..types import Stateless, each_run
from .own_loss import OwnLoss, log_prob


@dataclass(frozen=True)
class LabelSmoothing(OwnLoss):
    """Cross-entropy with the target ``(1 - smoothing) * one-hot + smoothing / classes``.

    Args:
        smoothing: share of each label that is spread evenly over all classes, its own included; in [0, 1).
    """

    smoothing: float = 0.1

    name: ClassVar[str] = "label-smoothing"
    summary: ClassVar[str] = "cross-entropy with a share of each label spread over all classes"
    paper: ClassVar[str] = "Szegedy et al. 2016; Lukasik et al. 2020"

    def __post_init__(self) -> None:
        check_number("LabelSmoothing", "smoothing", self.smoothing, 0, 1, open_high=True)

    def losses(self, state: Stateless, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Tensor:
        share, evenly = each_run(self.smoothing), F.log_softmax(logits, -1).mean(-1)
        return (share - 1) * log_prob(logits, labels) - share * evenly
