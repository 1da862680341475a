"""SAT, self-adaptive training: targets move towards the predictions, and samples count by how clear their target is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task, observed
from .selc import Ensemble, moved_targets


@dataclass(frozen=True)
class SAT(Method[Ensemble]):
    """Cross-entropy with moving targets as in :class:`SELC`, each sample weighed by the largest entry of its target.

    A target that is torn between label and prediction counts for less until it has made its way to either. To be used
    after warm-up that ends before noisy labels are memorised.

    Args:
        alpha: how slowly targets move, in [0, 1).
    """

    alpha: float = 0.9

    name: ClassVar[str] = "sat"
    summary: ClassVar[str] = "targets that move towards the predictions, weighed by how clear they are, after warm-up"
    paper: ClassVar[str] = "Huang et al. 2020"
    wants_warmup: ClassVar[bool] = True
    leaves_out: ClassVar[bool] = False  # the weight says how clear a target is, be it the label or not
    needs_rows: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    takes_start: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("predictions",)

    def __post_init__(self) -> None:
        check_number("SAT", "alpha", self.alpha, 0, 1, open_high=True)

    def init(self, task: Task) -> Ensemble:
        return Ensemble(task.remembered())

    def step(self, state: Ensemble, batch: Batch) -> Decision:
        moved, targets = moved_targets(self.alpha, state.predictions, batch)
        return Decision(
            targets.amax(-1).clamp(max=1),
            {"predictions": moved},
            targets=targets,
            confidence=(targets * observed(batch)).sum(-1).clamp(0, 1),
        )
