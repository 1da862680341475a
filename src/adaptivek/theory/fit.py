"""From data to theory: the mixture of a recorded run, and what it predicts against what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .mixture import Mixture


class Epoch(Protocol):
    """What is needed of an epoch. `experiments.records.EpochRecord` has it."""

    @property
    def epoch(self) -> int: ...
    @property
    def threshold(self) -> float: ...
    @property
    def kept_share(self) -> float: ...
    @property
    def precision(self) -> float: ...
    @property
    def recall(self) -> float: ...
    @property
    def clean_loss_mean(self) -> float: ...
    @property
    def clean_loss_std(self) -> float: ...
    @property
    def noisy_loss_mean(self) -> float: ...
    @property
    def noisy_loss_std(self) -> float: ...
    @property
    def true_noise_ratio(self) -> float: ...


@dataclass(frozen=True)
class Shares:
    """What a threshold does to the samples of an epoch."""

    kept_share: float
    precision: float  #: share of clean among the kept
    recall: float  #: share of the clean that were kept


@dataclass(frozen=True, eq=False)
class EpochFit:
    """One epoch: its mixture, and the shares that follow from it beside those measured."""

    epoch: int
    threshold: float
    mixture: Mixture
    predicted: Shares
    measured: Shares


def fit(record: Epoch) -> Mixture:
    """The mixture of an epoch. Which labels are noisy is known, so the likeliest normals have the recorded moments."""
    clean = record.clean_loss_mean, record.clean_loss_std
    # without noise the second normal has no weight: any will do
    noisy = (record.noisy_loss_mean, record.noisy_loss_std) if record.true_noise_ratio > 0 else clean
    return Mixture(*clean, *noisy, record.true_noise_ratio)


def predict(mixture: Mixture, threshold: float) -> Shares:
    """Shares that follow from the mixture when losses up to ``threshold`` are kept."""
    tau = float(np.asarray(mixture.tau))
    kept = float(mixture.cdf(threshold))
    recall = float(Mixture(mixture.mu1, mixture.sigma1, mixture.mu2, mixture.sigma2, 0).cdf(threshold))
    return Shares(kept, (1 - tau) * recall / kept if kept > 0 else math.nan, recall)


def fit_run(records: Sequence[Epoch]) -> list[EpochFit]:
    """Predicted beside measured, for each epoch in which a threshold selected."""
    selecting = [record for record in records if math.isfinite(record.threshold)]
    if not selecting:
        raise ValueError("fit_run: records must have an epoch with a threshold (a run of adaptive-k past its warm-up)")
    fits = []
    for record in selecting:
        mixture = fit(record)
        measured = Shares(record.kept_share, record.precision, record.recall)
        fits.append(EpochFit(record.epoch, record.threshold, mixture, predict(mixture, record.threshold), measured))
    return fits
