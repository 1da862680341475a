"""Predictions of rows: class probabilities, all of them or the few highest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Codes = NDArray[np.int64]


class Predictions(NamedTuple):
    """Some classes for each row, and their probabilities."""

    p: Floats  #: (n, k)
    classes: Codes | None  #: (n, k) whose probabilities these are; None: column c is class c

    def of(self, rows: NDArray[np.int64] | slice) -> Predictions:
        return Predictions(self.p[rows], None if self.classes is None else self.classes[rows])

    def of_all(self, classes: int) -> NDArray[np.float32]:
        """(n, classes), with 0 for those that are not kept."""
        found = np.zeros((len(self.p), classes), np.float32)
        columns = np.arange(classes)[None] if self.classes is None else self.classes
        np.add.at(found, (np.arange(len(self.p))[:, None], columns), self.p)  # a class may stand in a row twice
        return found

    def predicted(self) -> Codes:
        """The most probable class of each row."""
        place: Codes = self.p.argmax(1)
        return place if self.classes is None else np.take_along_axis(self.classes, place[:, None], 1)[:, 0]

    def confidence(self) -> NDArray[np.float64]:
        """In the predicted class: its log odds."""
        p = np.clip(self.p.max(1).astype(np.float64), 1e-4, 1 - 1e-4)
        odds: NDArray[np.float64] = np.log(p / (1 - p))
        return odds


def mean_prediction(first: Predictions, second: Predictions) -> Predictions:
    """The mean of two predictions; where each has classes of its own, over all of them."""
    if first.classes is None or second.classes is None:
        return Predictions((first.p + second.p) / 2, None)
    same = (first.classes[:, :, None] == second.classes[:, None, :]) & (second.p > 0)[:, None, :]
    p = first.p + (same * second.p[:, None, :]).sum(2)
    rest = second.p * ~(same & (first.p > 0)[:, :, None]).any(1)
    p = np.where(first.p > 0, p, 0)
    return Predictions(np.concatenate([p, rest], 1) / 2, np.concatenate([first.classes, second.classes], 1))


def label_probability(predictions: Predictions, labels: Codes) -> Floats:
    """The predicted probability of the observed label."""
    if predictions.classes is None:
        found: Floats = predictions.p[np.arange(len(labels)), labels]
        return found
    total: Floats = (predictions.p * (predictions.classes == labels[:, None])).sum(1)
    return total


def best_other(predictions: Predictions, labels: Codes) -> tuple[Codes, Floats]:
    """The most probable class besides the label, and its probability."""
    candidates = predictions.classes
    if candidates is None:
        candidates = np.broadcast_to(np.arange(predictions.p.shape[1]), predictions.p.shape)
    rest = np.where(candidates == labels[:, None], -1.0, predictions.p)
    place = rest.argmax(1)[:, None]
    found: Codes = np.take_along_axis(candidates, place, 1)[:, 0]
    likely: Floats = np.maximum(np.take_along_axis(rest, place, 1)[:, 0], 0.0)
    return found, likely
