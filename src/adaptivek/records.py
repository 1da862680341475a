"""What is measured of an epoch. With `Oracle`, the only place that knows which labels are wrong."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class EpochRecord:
    """One epoch of one run. A number that cannot be had is NaN here and null in JSON."""

    epoch: int  #: from 1
    selecting: bool  #: False while warming up
    train_loss: float  #: mean loss on the given labels, all samples
    test_accuracy: float
    best_test_accuracy: float  #: the best so far; chosen on the test set, as the paper reports it
    kept_share: float
    precision: float  #: share of clean among the kept, averaged over the iterations
    recall: float  #: share of the clean that were kept, likewise
    threshold: float  #: mean over the iterations
    clean_loss_mean: float
    clean_loss_std: float
    noisy_loss_mean: float
    noisy_loss_std: float
    noise_ratio: float  #: estimated: the share left out; NaN while warming up
    true_noise_ratio: float
    empty_steps: int  #: steps in which nothing was kept
    nonfinite: int  #: NaN or infinite losses
    samples_per_second: float

    def to_json(self) -> dict[str, Any]:
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in dataclasses.asdict(self).items()
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> EpochRecord:
        values: dict[str, Any] = {key: math.nan if value is None else value for key, value in fields.items()}
        return cls(**values)


def read_lines(path: Path) -> list[EpochRecord]:
    """The records of a file, one a line; a last line cut short by a crash is passed over."""
    lines = path.read_text().splitlines(keepends=True)
    return [EpochRecord.from_json(json.loads(line)) for line in lines if line.endswith("\n")]


def measure(losses: Tensor, weights: Tensor, clean: Tensor) -> dict[str, Any]:
    """Statistics of an epoch from its steps: losses, weights and truth, each (steps, batch)."""
    loss: NDArray[np.float64] = losses.double().cpu().numpy()
    weight: NDArray[np.float64] = weights.double().cpu().numpy()
    right: NDArray[np.bool_] = clean.cpu().numpy()
    finite = np.isfinite(loss)
    with np.errstate(invalid="ignore"):  # 0 / 0 is NaN: a batch that keeps nothing has no precision
        precision = (weight * right).sum(1) / weight.sum(1)
        recall = (weight * right).sum(1) / right.sum(1)
    mean, _ = _mean_std(loss[finite])
    clean_mean, clean_std = _mean_std(loss[finite & right])
    noisy_mean, noisy_std = _mean_std(loss[finite & ~right])
    return {
        "train_loss": mean,
        "kept_share": float(weight.mean()),
        "precision": _mean_std(precision[np.isfinite(precision)])[0],
        "recall": _mean_std(recall[np.isfinite(recall)])[0],
        "clean_loss_mean": clean_mean,
        "clean_loss_std": clean_std,
        "noisy_loss_mean": noisy_mean,
        "noisy_loss_std": noisy_std,
        "empty_steps": int((weight.sum(1) == 0).sum()),
        "nonfinite": int((~finite).sum()),
    }


def _mean_std(values: NDArray[np.float64]) -> tuple[float, float]:
    return (float(values.mean()), float(values.std())) if values.size else (math.nan, math.nan)
