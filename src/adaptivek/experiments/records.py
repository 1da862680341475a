"""What is measured of an epoch. With `Oracle`, the only place that knows which labels are noisy."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

#: histograms of losses: this many bins up to this loss, the last one open
BINS, REACH = 40, 10.0
#: how many iterations of an epoch are recorded one by one
ITERATIONS = 200


@dataclass(frozen=True)
class EpochRecord:
    """One epoch of one run. A number that cannot be had is NaN here and null in JSON."""

    epoch: int  #: from 1
    selecting: bool  #: False while warming up
    train_loss: float  #: mean loss on the given labels, all samples
    test_accuracy: float
    best_test_accuracy: float  #: the best so far; chosen on the test set, as the paper reports it
    kept_share: float  #: mean weight of the samples: 1 where nothing is left out
    precision: float  #: share of clean among the labels there was confidence in, averaged over the iterations
    recall: float  #: share of the clean labels there was confidence in, likewise
    threshold: float  #: mean over the iterations
    clean_loss_mean: float
    clean_loss_std: float
    noisy_loss_mean: float
    noisy_loss_std: float
    #: estimated: one minus the mean confidence in the labels; `1 - kept_share`, unless the method relabels. NaN while
    #: warming up
    noise_ratio: float
    true_noise_ratio: float
    empty_steps: int  #: steps in which nothing was kept
    nonfinite: int  #: NaN or infinite losses
    samples_per_second: float  #: that a run was trained on, while it was trained: see `pace`
    #: on held-out rows with their noisy labels, where a recipe has them; `test_accuracy` is then that of the epoch,
    #: up to this one, in which this was highest
    validation_accuracy: float = math.nan
    #: what `Selection.noise_ratio` says: as `noise_ratio`, but corrected, or NaN, where the first visits of the rows
    #: have shown something else
    noise_ratio_told: float = math.nan

    def to_json(self) -> dict[str, Any]:
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in dataclasses.asdict(self).items()
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> EpochRecord:
        values: dict[str, Any] = {key: math.nan if value is None else value for key, value in fields.items()}
        return cls(**values)


@dataclass(frozen=True)
class Detail:
    """A closer look at one epoch, for the figures."""

    epoch: int  #: from 1
    clean_losses: list[int]  #: histogram: `BINS` bins up to `REACH`, the last one open
    noisy_losses: list[int]
    clean_share: list[float]  #: of each of the first `ITERATIONS` mini-batches
    kept_share: list[float]


class Steps(NamedTuple):
    """All steps of an epoch, on the device; leading axes are runs."""

    losses: Tensor  #: (..., steps, batch)
    weights: Tensor  #: (..., steps, batch)
    confidence: Tensor  #: (..., steps, batch) in each observed label: the weights, unless the method relabels
    clean: Tensor  #: (..., steps, batch) bool
    thresholds: Tensor  #: (..., steps), NaN where the method has no threshold


def read_lines(path: Path) -> list[EpochRecord]:
    """The records of a file, one a line; a last line that a crash left incomplete is passed over."""
    lines = path.read_text().splitlines(keepends=True)
    return [EpochRecord.from_json(json.loads(line)) for line in lines if line.endswith("\n")]


def read_records(folder: str | Path) -> list[EpochRecord]:
    """The epochs of a run that `adaptivek train` wrote."""
    path = Path(folder) / "records.jsonl"
    if not path.is_file():
        raise ValueError(f"read_records: {folder} must be the folder of a run, but has no records.jsonl")
    try:
        return read_lines(path)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"read_records: {path} must hold a record per line: {error}") from None


def measure(steps: Steps) -> dict[str, Tensor]:
    """Statistics of an epoch, one of each for every run. Stays on the device."""
    losses, weights, confidence, clean = steps.losses, steps.weights.double(), steps.confidence.double(), steps.clean
    finite = losses.abs() < math.inf  # False for NaN too
    losses = losses.where(finite, 0).double()
    taken = confidence.sum(-1)
    taken_clean = (confidence * clean).sum(-1)
    mean, _ = _mean_std(losses, finite)
    clean_mean, clean_std = _mean_std(losses, finite & clean)
    noisy_mean, noisy_std = _mean_std(losses, finite & ~clean)
    return {
        "train_loss": mean,
        "kept_share": weights.mean((-2, -1)),
        # 0 / 0 is NaN and passed over: a batch with no confidence in any label has no precision
        "precision": (taken_clean / taken).nanmean(-1),
        "recall": (taken_clean / clean.sum(-1)).nanmean(-1),
        "noise_ratio": 1 - confidence.mean((-2, -1)),
        "threshold": steps.thresholds.mean(-1),
        "clean_loss_mean": clean_mean,
        "clean_loss_std": clean_std,
        "noisy_loss_mean": noisy_mean,
        "noisy_loss_std": noisy_std,
        "empty_steps": (weights.sum(-1) == 0).sum(-1),
        "nonfinite": (~finite).sum((-2, -1)),
    }


def pace(steps: Tensor, started: float) -> float:
    """Samples of one run per second since ``started``, when its steps began. To be called once the device has done
    them and before anything else: what is tested afterwards does not count."""
    return steps.shape[-2] * steps.shape[-1] / (time.perf_counter() - started)


def look_closer(epoch: int, steps: Steps) -> Detail:
    """The detail of one epoch of one run."""
    # what is not finite goes into the open bin
    bins = (steps.losses.nan_to_num(REACH).clamp(0, REACH) * (BINS / REACH)).long().clamp(max=BINS - 1)
    return Detail(
        epoch,
        torch.bincount(bins[steps.clean], minlength=BINS).tolist(),
        torch.bincount(bins[~steps.clean], minlength=BINS).tolist(),
        _rounded(steps.clean[:ITERATIONS].float().mean(1)),
        _rounded(steps.weights[:ITERATIONS].float().mean(1)),
    )


class Reached(NamedTuple):
    """How far a run has come."""

    best: float = 0.0  #: highest accuracy on the test set
    validation: float = -1.0  #: highest accuracy on held-out rows
    chosen: float = 0.0  #: accuracy on the test set in that epoch

    def after(self, accuracy: float, validation: float) -> Reached:
        """With one more epoch; ``validation`` is NaN where nothing is held out."""
        kept = validation <= self.validation  # False for NaN: the last epoch counts
        return Reached(
            max(self.best, accuracy),
            self.validation if kept else validation,
            self.chosen if kept else accuracy,
        )


def epoch_record(
    epoch: int,
    selecting: bool,
    reached: Reached,
    validation: float,
    noise: float,
    rate: float,
    measured: dict[str, float],
) -> EpochRecord:
    """One run's record; ``measured`` is one run's share of what `measure` gives."""
    values: dict[str, Any] = measured | {name: int(measured[name]) for name in ("empty_steps", "nonfinite")}
    if not selecting:
        values |= {"threshold": math.nan, "noise_ratio": math.nan, "noise_ratio_told": math.nan}
    return EpochRecord(
        **values,
        epoch=epoch,
        selecting=selecting,
        test_accuracy=reached.chosen,
        best_test_accuracy=reached.best,
        validation_accuracy=validation,
        true_noise_ratio=noise,
        samples_per_second=rate,
    )


def _mean_std(values: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """Over the steps and samples that count; NaN if none does."""
    number = counted.sum((-2, -1))
    mean = (values * counted).sum((-2, -1)) / number
    square = ((values - mean[..., None, None]).square() * counted).sum((-2, -1)) / number
    return mean, square.sqrt()


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 3) for value in values.tolist()]
