"""The models of the audit, fitted to a sample: held-out predictions of its rows, and predictions of all others.

No other row was seen by any model, so what the models of the whole sample predict for it is held out as well. As in
memory, models are fitted twice: see `second_fit`.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..held_out import Mask, Progress, fit_words, folded, mixed, models, pool_weights, predict_each
from ..predictions import Codes, Floats
from ..second_fit import Twice, contradicted, geometric_mean
from .ranks import Ranks

MOST_NUMBERS = 4_000_000  #: of predictions that are computed at once, one for each row and class

Inputs = dict[str, Any]  #: "words" and "numbers" of some rows; None where there are none


class Pool(NamedTuple):
    """Models that were fitted at once."""

    models: list[tuple[str, Any]]  #: what each learns from, and the model
    weights: Floats

    def predict(self, inputs: Inputs, rows: int, classes: int) -> Floats:
        each = []
        for name, model in self.models:
            p: Floats = np.zeros((rows, classes))  # of a class that it has never seen
            p[:, model.classes_] = model.predict_proba(inputs[name])
            each.append(p)
        return mixed(each, self.weights)


class Pools(NamedTuple):
    first: Pool
    second: Pool | None  #: without the labels that the first one contradicts, if there are any
    words: Any  #: what turns texts into features, where there are texts
    classes: int

    def predict(self, texts: list[str] | None, x: NDArray[np.float32] | None) -> Twice:
        """(rows, classes) each."""
        rows = len(x) if x is not None else len(texts or [])
        step = max(1, MOST_NUMBERS // self.classes)
        parts = [self._predict(texts, x, slice(start, min(start + step, rows))) for start in range(0, rows, step)]
        return Twice(*map(np.concatenate, zip(*parts, strict=True)))

    def _predict(self, texts: list[str] | None, x: NDArray[np.float32] | None, part: slice) -> Twice:
        words = None if texts is None else self.words.transform(texts[part]).tocsr()
        inputs, rows = {"words": words, "numbers": None if x is None else x[part]}, part.stop - part.start
        first = self.first.predict(inputs, rows, self.classes)
        if self.second is None:
            return Twice(first, first)
        return Twice(first, geometric_mean(first, self.second.predict(inputs, rows, self.classes)))


class Fitted(NamedTuple):
    pools: Pools
    held_out: Twice  #: of the rows of the sample
    words: Any  #: features of the sample's texts


def fits(name: str, ranks: Ranks) -> int:
    """How many of these models this process fits, each fold counted, both times."""
    pool = ranks.every([model for part in name.split(" + ") for model in models(part, 1, 0)])
    return 2 * (len(pool) + sum(map(folded, pool)))


def fit(
    name: str,
    texts: list[str] | None,
    x: NDArray[np.float32] | None,
    labels: Codes,
    classes: int,
    seed: int,
    ranks: Ranks,
    progress: Progress | None = None,
    trusted: Mask | None = None,
) -> Fitted:
    """Fit the models of this name, each by folds and then to all rows of the sample, and that twice.

    Each of the processes that share the work fits some of them.
    """
    vectoriser, words = (None, None) if texts is None else fit_words(texts)
    inputs = {"words": words, "numbers": x}
    total = fits(name, ranks)

    def told(before: int) -> Progress | None:
        return None if progress is None else lambda done, _: progress(before + done, total)

    everything = np.ones(len(labels), bool)
    first, p = _fit(name, inputs, labels, classes, seed, ranks, told(0), everything)
    doubted = contradicted(p, labels, classes, trusted)
    if not doubted.any():
        return Fitted(Pools(first, None, vectoriser, classes), Twice(p, p), words)
    second, again = _fit(name, inputs, labels, classes, seed, ranks, told(total // 2), ~doubted)
    return Fitted(Pools(first, second, vectoriser, classes), Twice(p, geometric_mean(p, again)), words)


def _fit(
    name: str,
    inputs: Inputs,
    labels: Codes,
    classes: int,
    seed: int,
    ranks: Ranks,
    progress: Progress | None,
    taught: Mask,
) -> tuple[Pool, Floats]:
    """The models, and what they predict for rows that they have not seen."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    parts = [(part, model) for part in name.split(" + ") for model in models(part, len(labels), seed)]
    parts = [("words" if part == "words" else "numbers", model) for part, model in parts]
    mine, rows = ranks.every(parts), np.flatnonzero(taught)
    held_out = predict_each([(model, inputs[part]) for part, model in mine], labels, classes, seed, progress, taught)
    fitted: list[tuple[Any, Floats]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for (part, model), p in zip(mine, held_out, strict=True):
            fitted.append((clone(model).fit(inputs[part][rows], labels[rows]), p))
            if progress is not None:
                progress(fits(name, ranks) // 2 - len(mine) + len(fitted), fits(name, ranks))
    everyones = ranks.told_every(fitted, len(parts))
    each = [p for _, p in everyones]
    weights = pool_weights(each, labels, taught)
    found = [(part, model) for (part, _), (model, _) in zip(parts, everyones, strict=True)]
    return Pool(found, weights), mixed(each, weights)
