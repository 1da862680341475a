"""What two stages gain over plain training, measured by cross-fitting.

All of it, cross-training included, is done on one half of the rows and judged on the other, and the other way round. So
no label that a network is judged by has had any part in it. Labels that are noisy are judged by as they are: that costs
all ways alike, unless the noise can be learned, as that of rules can. Trusted rows, where there are any, are better.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..auditing.held_out import folds
from .training import Step, Task, cross_predictions, predict, train

FEWEST_ROWS = 80  #: below, halves of halves are too small to say anything


class Gain(NamedTuple):
    """Shares of the rows of which a network that has not seen them knows the label."""

    plain: float
    two_stages: float
    two_rounds: float | None  #: after a second cross-training; None: not tried
    error: float  #: standard error of the difference between two stages and plain training
    rows: int  #: that were judged by
    trusted: bool  #: whether their labels were trusted, or as noisy as all
    rounds: int  #: the better number of cross-trainings

    def as_dict(self) -> dict[str, Any]:
        return {name: round(value, 6) if isinstance(value, float) else value for name, value in self._asdict().items()}

    def sentence(self) -> str:
        of = f"{self.rows:,} trusted rows" if self.trusted else f"{self.rows:,} rows, by their labels as they are"
        best = self.two_rounds if self.rounds == 2 and self.two_rounds is not None else self.two_stages
        return f"right on rows not seen: {best:.1%}, plain training {self.plain:.1%} (half of the rows each, of {of})"


def measure(task: Task, rounds: tuple[int, ...], trusted: NDArray[np.int64] | None, step: Step) -> Gain:
    """Plain training and so many cross-trainings, each on both halves."""
    labels = task.data.labels
    halves = folds(labels, 2, task.plan.seed + 1, "audit halves")
    hits = {way: np.zeros(len(labels), bool) for way in (0, *rounds)}
    for mine, other in (halves, halves[::-1]):
        part = task.part(mine)
        for way, hit in hits.items():
            start = cross_predictions(part, way, step) if way else None
            model = train(part, start, step)
            found = predict(model, task.data.fetch, other, task.plan, task.device)
            hit[other] = found.argmax(1).numpy() == labels[other]
    judged = np.arange(len(labels)) if trusted is None else trusted
    share = {way: float(hit[judged].mean()) for way, hit in hits.items()}
    best = max(rounds, key=lambda way: (share[way], way))
    one = share.get(1, share[rounds[0]])
    error = _error(hits[best][judged], hits[0][judged])
    return Gain(share[0], one, share.get(2), error, len(judged), trusted is not None, best)


def _error(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """Standard error of the difference between two shares of the same rows."""
    return float((first.astype(float) - second).std() / math.sqrt(max(1, len(first))))
