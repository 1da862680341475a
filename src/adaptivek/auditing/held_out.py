"""Held-out predictions from models that are fitted in seconds: linear ones, naive Bayes, trees.

Each row is predicted by models that have not seen it: by folds, or by those trees of a forest that were grown without
it. Models that differ in kind err in different places, so several are pooled: ``log p = sum_m w_m log p_m`` up to a
constant, with the weights under which the observed labels are most likely. So a model that suits the data counts more,
and the pool is neither overconfident nor underconfident in the labels as they are.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..support.streams import stream
from .predictions import Codes, Floats

FOLDS = 5
TREES = 100
ROWS_OF_A_TREE = 5_000  #: at most, drawn for each: a forest of 20,000 rows takes as long as one of 5,000
LEAST = 1e-3  #: no class is less likely than this: a forest of 100 trees that agree is not certain
MOST_FEATURES = 100_000  #: words or parts of words
PAIRS_UP_TO = 5_000_000  #: characters of all texts, up to which pairs of words count too
#: letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
MANY = 0.2  #: share of all letters

#: by name, what can predict; a network is trained by `training.Run`
MODELS = ("words", "trees", "linear", "network")

#: told how many of how many fits are done
Progress = Callable[[int, int], None]


def folds(labels: Codes, number: int, seed: int, name: str = "audit folds") -> list[Codes]:
    """Rows in so many parts, with about the same number of rows of every class in each."""
    order = stream(seed, name).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(order[start::number]) for start in range(number)]


def word_features(texts: list[str]) -> Any:
    """TF-IDF of words and pairs of words; of parts of up to three letters where a script has no spaces."""
    return fit_words(texts)[1]


def fit_words(texts: list[str]) -> tuple[Any, Any]:
    """What turns texts into these features, and the features of the texts it was fitted to."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    letters = sum(map(len, texts))
    if sum(len(UNSPACED.findall(text)) for text in texts) > MANY * letters:
        chosen: dict[str, Any] = {"analyzer": "char", "ngram_range": (1, 3)}
    else:
        chosen = {"token_pattern": r"(?u)\b\w+\b|[!?]", "ngram_range": (1, 2 if letters <= PAIRS_UP_TO else 1)}
    chosen |= {"sublinear_tf": True, "max_features": MOST_FEATURES, "dtype": np.float32}
    try:
        words = TfidfVectorizer(min_df=2, **chosen)
        return words, words.fit_transform(texts).tocsr()
    except ValueError:  # no word is there twice
        words = TfidfVectorizer(**chosen)
        return words, words.fit_transform(texts).tocsr()


def models(name: str, rows: int, seed: int) -> list[Any]:
    """The models of a pool, before they are fitted."""
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.naive_bayes import ComplementNB

    if name == "words":
        linear = (LogisticRegression(C=c, solver="liblinear", dual=True, max_iter=200) for c in (0.3, 3.0))
        return [ComplementNB(alpha=0.3), ComplementNB(alpha=3.0), *map(OneVsRestClassifier, linear)]
    if name == "linear":
        return [LogisticRegression(C=c, max_iter=200) for c in (0.001, 0.01, 0.1)]
    grown: dict[str, Any] = {"n_estimators": TREES, "bootstrap": True, "oob_score": True, "random_state": seed}
    grown |= {"max_samples": min(rows, ROWS_OF_A_TREE), "n_jobs": -1}
    return [
        *(LogisticRegression(C=c, max_iter=200) for c in (0.01, 0.1)),
        RandomForestClassifier(min_samples_leaf=2, **grown),
        ExtraTreesClassifier(min_samples_leaf=3, **grown),
    ]


def predict(
    pool: list[tuple[Any, Any]], labels: Codes, classes: int, seed: int, progress: Progress | None = None
) -> Floats:
    """(rows, classes) the pool of held-out predictions of models, each with its inputs."""
    return pooled(predict_each(pool, labels, classes, seed, progress), labels)


def predict_each(
    pool: list[tuple[Any, Any]], labels: Codes, classes: int, seed: int, progress: Progress | None = None
) -> list[Floats]:
    """(rows, classes) held-out predictions of each model."""
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    found, done = [], 0
    total = sum(1 if hasattr(model, "oob_score") else FOLDS for model, _ in pool)
    # the matrices are small: threads would wait for each other, the more so beside other processes
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
        for model, x in pool:
            p: Floats = np.zeros((len(labels), classes))
            for rows, fitted in _fits(model, x, labels, seed):
                known = fitted.oob_decision_function_ if rows is None else fitted.predict_proba(x[rows])
                p[np.ix_(np.arange(len(p)) if rows is None else rows, fitted.classes_)] = np.nan_to_num(known)
                done += 1
                if progress is not None:
                    progress(done, total)
            found.append(p)
    return found


def _fits(model: Any, x: Any, labels: Codes, seed: int) -> Iterator[tuple[Codes | None, Any]]:
    """Fitted models, each with the rows that it has not seen; None: a forest that knows of each tree."""
    from sklearn.base import clone

    if hasattr(model, "oob_score"):
        yield None, clone(model).fit(x, labels)
        return
    for held_out in folds(labels, FOLDS, seed):
        rest = np.ones(len(labels), bool)
        rest[held_out] = False
        yield held_out, clone(model).fit(x[rest], labels[rest])


def pooled(predictions: list[Floats], labels: Codes) -> Floats:
    """One prediction of several, log-linear, with the weights that make the labels most likely."""
    return mixed(predictions, pool_weights(predictions, labels))


def pool_weights(predictions: list[Floats], labels: Codes) -> Floats:
    from scipy.optimize import minimize

    logs = np.stack([np.log(np.maximum(p, LEAST)) for p in predictions])  # (models, rows, classes)
    rows = np.arange(len(labels))
    of_labels = logs[:, rows, labels]

    def loss(weights: Floats) -> tuple[float, Floats]:
        z = np.tensordot(weights, logs, 1)
        top = z.max(1, keepdims=True)
        p = np.exp(z - top)
        total = p.sum(1, keepdims=True)
        p /= total
        value = (np.log(total[:, 0]) + top[:, 0] - weights @ of_labels).mean()
        slope = np.einsum("nk,mnk->m", p, logs) / len(labels) - of_labels.mean(1)
        return float(value), slope

    start = np.full(len(logs), 1 / len(logs))
    weights: Floats = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.01, 20)] * len(logs)).x
    return weights


def mixed(predictions: list[Floats], weights: Floats) -> Floats:
    """One prediction of several, log-linear with these weights."""
    z = np.tensordot(weights, np.stack([np.log(np.maximum(p, LEAST)) for p in predictions]), 1)
    p = np.exp(z - z.max(1, keepdims=True))
    found: Floats = p / p.sum(1, keepdims=True)
    return found
