"""Bootstrapping: the target is partly the label, partly what the network itself predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ..backend.checks import check_choice, check_number
from ..method import Batch, Decision, Method, NoState, Task


@dataclass(frozen=True)
class Bootstrapping(Method[NoState]):
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
    leaves_out: ClassVar[bool] = False
    needs_logits: ClassVar[bool] = True
    own_loss: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice("Bootstrapping", "kind", self.kind, ("hard", "soft"))
        check_number("Bootstrapping", "beta", self.beta, 0, 1)

    def init(self, task: Task) -> NoState:
        return NoState()

    def step(self, state: NoState, batch: Batch) -> Decision:
        assert batch.logits is not None
        log_p = batch.logits.log_softmax(-1)
        own = log_p.amax(-1) if self.kind == "hard" else (log_p.exp() * log_p).sum(-1)
        return Decision(batch.valid, losses=self.beta * batch.losses - (1 - self.beta) * own)
