"""The models of the audit, fitted to a sample: held-out predictions of its rows, and predictions of all others.

No other row was seen by any model, so what the models of the whole sample predict for it is held out as well.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..held_out import FOLDS, Progress, fit_words, mixed, models, pool_weights, predict_each
from ..predictions import Codes, Floats

MOST_NUMBERS = 4_000_000  #: of predictions that are computed at once, one for each row and class


class Pool(NamedTuple):
    """Fitted models."""

    models: list[tuple[str, Any]]  #: what each learns from, and the model
    weights: Floats
    words: Any  #: what turns texts into features, where there are texts
    classes: int

    def predict(self, texts: list[str] | None, x: NDArray[np.float32] | None) -> Floats:
        """(rows, classes)."""
        rows = len(x) if x is not None else len(texts or [])
        step = max(1, MOST_NUMBERS // self.classes)
        parts = []
        for start in range(0, rows, step):
            part = slice(start, start + step)
            inputs = {
                "words": None if texts is None or self.words is None else self.words.transform(texts[part]).tocsr(),
                "numbers": None if x is None else x[part],
            }
            each = [
                self._of_all(model, inputs["words" if name == "words" else "numbers"]) for name, model in self.models
            ]
            parts.append(mixed(each, self.weights))
        return np.concatenate(parts)

    def _of_all(self, model: Any, x: Any) -> Floats:
        """Its predictions, with 0 for classes that it has never seen."""
        p: Floats = np.zeros((x.shape[0], self.classes))
        p[:, model.classes_] = model.predict_proba(x)
        return p


class Fitted(NamedTuple):
    pool: Pool
    held_out: Floats  #: (rows of the sample, classes)
    words: Any  #: features of the sample's texts


def fits(name: str) -> int:
    """How many there are of these models, each fold counted."""
    pool = [model for part in name.split(" + ") for model in models(part, 1, 0)]
    return len(pool) + sum(1 if hasattr(model, "oob_score") else FOLDS for model in pool)


def fit(
    name: str,
    texts: list[str] | None,
    x: NDArray[np.float32] | None,
    labels: Codes,
    classes: int,
    seed: int,
    progress: Progress | None,
) -> Fitted:
    """Fit the models of this name, each by folds and then to all rows of the sample."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    vectoriser, words = (None, None) if texts is None else fit_words(texts)
    parts = [(part, model) for part in name.split(" + ") for model in models(part, len(labels), seed)]
    pool = [(model, words if part == "words" else x) for part, model in parts]
    total = fits(name)
    each = predict_each(
        pool, labels, classes, seed, None if progress is None else lambda done, _: progress(done, total)
    )
    weights = pool_weights(each, labels)
    found = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for (part, _), (model, inputs) in zip(parts, pool, strict=True):
            whole = clone(model)
            if hasattr(whole, "oob_score"):
                whole.set_params(oob_score=False)  # it is known already
            found.append((part, whole.fit(inputs, labels)))
            if hasattr(whole, "n_jobs"):
                whole.n_jobs = None  # threads would add up the trees in another order each time
            if progress is not None:
                progress(total - len(parts) + len(found), total)
    return Fitted(Pool(found, weights, vectoriser, classes), mixed(each, weights), words)
