"""Bootstrapping: the target is partly the label, partly what the network itself predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor

from ..checks import check_choice, check_number
from ..types import Stateless, each_run
from .own_loss import OwnLoss, log_prob


@dataclass(frozen=True)
class Bootstrapping(OwnLoss):
    """Cross-entropy with the target ``beta * label + (1 - beta) * own prediction``.

    Args:
        kind: ``"hard"`` takes the most probable class for the prediction, ``"soft"`` the probabilities. The
            gradient goes through the soft ones too: the paper reads this term as the entropy, minimised.
        beta: share of the label, in [0, 1]; the paper's 0.8 for ``"hard"``. Use its 0.95 for ``"soft"``.
    """

    kind: Literal["hard", "soft"] = "hard"
    beta: float = 0.8

    name: ClassVar[str] = "bootstrapping"
    summary: ClassVar[str] = "targets that are partly the network's own prediction"
    paper: ClassVar[str] = "Reed et al. 2015"

    def __post_init__(self) -> None:
        check_choice("Bootstrapping", "kind", self.kind, ("hard", "soft"))
        check_number("Bootstrapping", "beta", self.beta, 0, 1)

    def losses(self, state: Stateless, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Tensor:
        log_all, beta = F.log_softmax(logits, -1), each_run(self.beta)
        own = log_all.amax(-1) if self.kind == "hard" else (log_all.exp() * log_all).sum(-1)
        return -beta * log_prob(logits, labels) - (1 - beta) * own
