"""ELR, early-learning regularisation: what a sample was predicted to be early on holds it back from its noisy label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task

EDGE = 1e-4  # probabilities stay this far from 0 and 1, as in the authors' code


class Targets(NamedTuple):
    targets: Tensor  #: (rows, classes) moving average of each row's predictions


@dataclass(frozen=True)
class ELR(Method[Targets]):
    """Minimise ``CE + strength * log(1 - <t, p>)``, t the moving average of the sample's own predictions p.

    The second term pulls predictions towards what they have been, and outweighs the pull of a noisy label.

    Args:
        strength: lambda of the paper, at least 0.
        beta: how slowly the average moves, in [0, 1); it moves once a visit, so once an epoch.
    """

    strength: float = 3.0
    beta: float = 0.7

    name: ClassVar[str] = "elr"
    summary: ClassVar[str] = "holds each prediction near the average of its earlier ones"
    paper: ClassVar[str] = "Liu et al. 2020"
    leaves_out: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    own_loss: ClassVar[bool] = True
    takes_start: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("targets",)

    def __post_init__(self) -> None:
        check_number("ELR", "strength", self.strength, 0)
        check_number("ELR", "beta", self.beta, 0, 1, open_high=True)

    def init(self, task: Task) -> Targets:
        return Targets(task.remembered())

    def step(self, state: Targets, batch: Batch) -> Decision:
        assert batch.logits is not None
        p = batch.logits.softmax(-1).clamp(EDGE, 1 - EDGE)
        now = p.detach()
        moved = self.beta * state.targets + (1 - self.beta) * now / now.sum(-1, keepdim=True)
        agreement = (moved * p).sum(-1)
        losses = self.strength * (1 - agreement).log() + batch.losses
        return Decision(batch.valid, {"targets": moved}, losses=losses)


def pull(p: Tensor, remembered: Tensor, strength: Tensor | float = 1.0, part: Tensor | float = 1.0) -> Tensor:
    """What adds the pull of ELR to the targets of a cross-entropy: minus the gradient of log(1 - <t, p>), in logits.

    t is ``part`` of what is remembered. Strength and part are numbers, or (B, 1).
    """
    agreement = (remembered * p).sum(-1, keepdim=True)
    factor = strength * part / (1 - part * agreement).clamp(min=EDGE)
    return factor * (p * (remembered - agreement))
