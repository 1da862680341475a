"""Label posteriors: how likely each class is for a row, given its observed label and a held-out prediction.

From half-way on, both networks train on them in place of the labels. This is the EM algorithm with a cross-fitted
expectation: a network that predicted the rows it trains on would repeat the labels it has memorised.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .predictions import Codes, Floats, Predictions
from .transition import CHUNK, class_posterior, fit


def label_posterior(
    held_out: Predictions, labels: Codes, classes: int, ratio: float, seed: int
) -> Iterator[tuple[slice, Floats]]:
    """(rows, classes) probabilities under this noise ratio, part by part, each with the rows that it is of."""
    model = fit(held_out, labels, classes, ratio, seed)
    for start in range(0, len(labels), CHUNK):
        part = slice(start, start + CHUNK)
        p, candidates = class_posterior(held_out.of(part), labels[part], model)
        found: Floats = np.zeros((len(p), classes), np.float32)
        np.add.at(found, (np.arange(len(p))[:, None], candidates), p)
        yield part, found
