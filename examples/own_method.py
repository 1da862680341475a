"""A method of one's own in thirty lines, beside the library's: by name in the criterion, the commands and the report.

python examples/own_method.py
adaptivek bench --import examples/own_method.py --methods vanilla mkl below-mean --out runs/own
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

import adaptivek


class MeanLoss(NamedTuple):
    mean: Tensor  #: EMA of the mean loss of a batch


@adaptivek.register
@dataclass(frozen=True)
class BelowMean(adaptivek.Method[MeanLoss]):
    """Keep the samples whose loss is at most ``factor`` times the recent mean."""

    factor: float = 1.5

    name: ClassVar[str] = "below-mean"
    summary: ClassVar[str] = "keeps losses up to a multiple of the recent mean"
    paper: ClassVar[str] = "an example"
    wants_warmup: ClassVar[bool] = True

    def init(self, task: adaptivek.Task) -> MeanLoss:
        return MeanLoss(torch.ones(()))

    def step(self, state: MeanLoss, batch: adaptivek.Batch) -> adaptivek.Decision:
        mean = state.mean.lerp(batch.loss.sum() / batch.n_valid, 0.01)
        return adaptivek.Decision(weights=batch.loss <= self.factor * mean, update={"mean": mean})


if __name__ == "__main__":
    from adaptivek.experiments.session import Session
    from adaptivek.experiments.spec import RECIPES, RunSpec

    adaptivek.testing.check_method(BelowMean)
    for method in ("vanilla", "below-mean"):
        *_, last = Session(RunSpec("digits", method, noise_rate=0.4, recipe=RECIPES["digits"]))
        print(f"{method}: {last.test_accuracy:.3f} with 40 % noisy labels")
