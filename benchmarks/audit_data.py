"""Data with noisy labels made on purpose, for the benchmarks of the audit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from adaptivek.auditing.networks import NETWORKS
from adaptivek.experiments.data import load
from adaptivek.noise import NOISES, corrupt

DATASETS = ("digits", "mnist", "fashion-mnist", "sarcasm", "20newsgroups", "table")
KINDS = ("directed", "symmetric", "instance")


class Cell(NamedTuple):
    """One data set with one noise."""

    dataset: str
    noise: str
    rate: float
    kind: str  #: image, text or table
    x: Tensor
    inputs: int
    classes: int
    clean: np.ndarray
    labels: np.ndarray

    @property
    def noisy(self) -> np.ndarray:
        return self.labels != self.clean

    @property
    def network(self):
        return NETWORKS[self.kind]


def make(dataset: str, noise: str, rate: float, seed: int) -> Cell:
    """Training rows of a data set, some of their labels noisy."""
    if dataset == "table":
        x, y, classes, inputs, kind = *made_table(10_000, seed), 20, "table"
    else:
        data = load(dataset, seed=seed)
        x, y, classes, inputs = data.x, data.y, data.classes, data.inputs
        kind = "text" if data.vocabulary else "image"
    features = None
    if noise == "instance":
        # of texts, which words they have: by hashing, since numbers of words are no features
        features = _hashed(x) if kind == "text" else x
    labels, _ = corrupt(y, NOISES[noise](rate=rate), classes=classes, seed=seed, features=features)
    return Cell(dataset, noise, rate, kind, x, inputs, classes, np.asarray(y), labels.numpy())


def made_table(rows: int, seed: int, classes: int = 6) -> tuple[Tensor, Tensor, int]:
    """Clusters of points in 20 columns, several a class, 2 % of them beyond telling apart."""
    from sklearn.datasets import make_classification

    x, y = make_classification(
        rows, 20, n_informative=12, n_redundant=4, n_classes=classes, n_clusters_per_class=2, class_sep=2.0,
        flip_y=0, random_state=seed,
    )  # fmt: skip
    return torch.from_numpy((x - x.mean(0)) / x.std(0)).float(), torch.from_numpy(y).long(), classes


def _hashed(tokens: Tensor, buckets: int = 64) -> Tensor:
    counts = torch.zeros(len(tokens), buckets)
    return counts.scatter_add_(1, (tokens.long() * 2654435761 >> 7) % buckets, (tokens > 1).float())
