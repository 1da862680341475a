"""A second fit, without the labels that the first one contradicts.

Models learn noisy labels too. Where much of one class is labelled as another, they say of both classes that they are
likely, and clean rows look as noisy as noisy ones. So labels that held-out predictions contradict with confidence are
left out, and all rows are predicted anew by models that have not met these labels. Rows are ranked by the geometric
mean of both predictions: the first still tells rows apart where the second is certain, and certain of its own choice.

Confident is a prediction that is at least as probable as is usual where prediction and label agree. A weaker condition
leaves out the hard rows of a small class, whose other rows then look noisy. Where fewer than ten rows agree on a class,
its predictions contradict nothing. At least a third of a class stays.

Only the ranking comes from it. How much is noisy is estimated from the first predictions: the second ones agree with
the labels that were left for them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .held_out import Mask, Progress, predict
from .predictions import Codes, Floats
from .scoring import FEW_ROWS, flagged

LEAST = 1e-4  #: no class is less likely than this in either prediction


class Twice(NamedTuple):
    """(rows, classes) each."""

    first: Floats  #: by models of all labels
    both: Floats  #: with those that have not met the contradicted ones


def predict_twice(
    pool: list[tuple[Any, Any]],
    labels: Codes,
    classes: int,
    seed: int,
    progress: Progress | None = None,
    trusted: Mask | None = None,
) -> Twice:
    """Held-out predictions of a pool, as `held_out.predict` makes them; trusted labels are never left out."""

    def told(fit: int) -> Progress | None:
        return None if progress is None else lambda done, total: progress(done + fit * total, 2 * total)

    first = predict(pool, labels, classes, seed, told(0))
    doubted = contradicted(first, labels, classes, trusted)
    if not doubted.any():
        return Twice(first, first)
    second = predict(pool, labels, classes, seed, told(1), ~doubted)
    return Twice(first, geometric_mean(first, second))


def contradicted(p: Floats, labels: Codes, classes: int, trusted: Mask | None = None) -> Mask:
    """Labels that are contradicted with confidence, but of no class nearly all, and none that is trusted."""
    predicted, confidence = p.argmax(1), p.max(1)
    agrees = predicted == labels
    counts = np.bincount(labels[agrees], minlength=classes)
    usual = np.bincount(labels[agrees], confidence[agrees], classes) / np.maximum(counts, 1)
    usual[counts < FEW_ROWS] = np.inf  # what is usual cannot be said
    found: Mask = ~agrees & (confidence >= usual[predicted])
    chosen, _ = flagged(p[np.arange(len(labels)), labels], labels, classes, int(found.sum()), found)
    return found & chosen if trusted is None else found & chosen & ~trusted


def geometric_mean(first: Floats, second: Floats) -> Floats:
    """Of two predictions, as probabilities again."""
    mean = np.sqrt(np.maximum(first, LEAST) * np.maximum(second, LEAST))
    found: Floats = mean / mean.sum(1, keepdims=True)
    return found
