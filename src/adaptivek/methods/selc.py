"""SELC, self-ensemble label correction: labels move, epoch by epoch, towards what the network predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task, observed


class Ensemble(NamedTuple):
    predictions: Tensor  #: (rows, classes) sum of (1 - alpha) * alpha^age * prediction; the rest, up to 1, is the label


@dataclass(frozen=True)
class SELC(Method[Ensemble]):
    """Cross-entropy with targets that start as the labels and move towards the predictions at each visit.

    After k visits the target is ``alpha^k * label + (1 - alpha) * sum of alpha^(k-j) * prediction j``. To be
    used after warm-up that ends before noisy labels are memorised.

    Args:
        alpha: how slowly targets move, in [0, 1).
    """

    alpha: float = 0.9

    name: ClassVar[str] = "selc"
    summary: ClassVar[str] = "moves each label towards the average of its predictions, after warm-up"
    paper: ClassVar[str] = "Lu, He 2022"
    wants_warmup: ClassVar[bool] = True
    leaves_out: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    takes_start: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("predictions",)

    def __post_init__(self) -> None:
        check_number("SELC", "alpha", self.alpha, 0, 1, open_high=True)

    def init(self, task: Task) -> Ensemble:
        return Ensemble(task.remembered())

    def step(self, state: Ensemble, batch: Batch) -> Decision:
        moved, targets = moved_targets(self.alpha, state.predictions, batch)
        return Decision(batch.valid, {"predictions": moved}, targets=targets)


def moved_targets(alpha: float, predictions: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """What is remembered of the predictions with today's, and the targets that it makes with the labels."""
    assert batch.logits is not None
    moved = alpha * predictions + (1 - alpha) * batch.logits.detach().softmax(-1)
    left = 1 - moved.sum(-1, keepdim=True)  # alpha^k, what is still the label's
    return moved, moved + left * observed(batch)
