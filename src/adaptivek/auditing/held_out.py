"""Held-out predictions from models that are fitted in seconds: linear ones, naive Bayes, trees.

Each row is predicted by models that have not seen it: by folds, or by those trees of a forest that were grown without
it. Models that differ in kind err in different places, so several are pooled: ``log p(k) = sum_m w_m log p_m(k) + b_k``
up to a constant, with the weights under which the observed labels are most likely. So a model that suits the data
counts more, and the pool is neither overconfident nor underconfident in the labels as they are. The weight b_k of a
class mends models that predict it too often or too seldom: complement naive Bayes does not know how frequent a class
is, and what is regularised much favours frequent ones.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..support.streams import stream
from .predictions import Codes, Floats

Mask = NDArray[np.bool_]

FOLDS = 5
TREES = 100
ROWS_OF_A_TREE = 5_000  #: at most, drawn for each: a forest of 20,000 rows takes as long as one of 5,000
CLASS_PRIOR = 5.0  #: rows' worth by which the weight of a class is drawn to none
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
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.naive_bayes import ComplementNB

    if name == "words":
        drawn: dict[str, Any] = {"solver": "liblinear", "dual": True, "max_iter": 200, "random_state": seed}
        linear = (LogisticRegression(C=c, **drawn) for c in (0.3, 3.0))
        return [ComplementNB(alpha=0.3), ComplementNB(alpha=3.0), *map(OneVsRestClassifier, linear)]
    if name == "linear":
        return [LogisticRegression(C=c, max_iter=200) for c in (0.001, 0.01, 0.1)]
    grown: dict[str, Any] = {"n_estimators": TREES, "min_samples_leaf": 3, "bootstrap": True, "oob_score": True}
    grown |= {"max_samples": min(rows, ROWS_OF_A_TREE), "n_jobs": -1, "random_state": seed}
    return [*(LogisticRegression(C=c, max_iter=200) for c in (0.01, 0.1)), ExtraTreesClassifier(**grown)]


def predict(
    pool: list[tuple[Any, Any]],
    labels: Codes,
    classes: int,
    seed: int,
    progress: Progress | None = None,
    taught: Mask | None = None,
) -> Floats:
    """(rows, classes) the pool of held-out predictions of models, each with its inputs.

    Where ``taught`` is false, a row is predicted too, but no model learns its label.
    """
    return pooled(predict_each(pool, labels, classes, seed, progress, taught), labels, taught)


def predict_each(
    pool: list[tuple[Any, Any]],
    labels: Codes,
    classes: int,
    seed: int,
    progress: Progress | None = None,
    taught: Mask | None = None,
) -> list[Floats]:
    """(rows, classes) held-out predictions of each model."""
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    taught = np.ones(len(labels), bool) if taught is None else taught
    done, total = 0, sum(1 if hasattr(model, "oob_score") else FOLDS for model, _ in pool)
    found = []
    # the matrices are small: threads would wait for each other, the more so beside other processes
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
        for model, x in pool:
            p: Floats = np.zeros((len(labels), classes))
            for fitted, parts in _fits(model, x, labels, seed, taught):
                for rows, known in parts:
                    p[np.ix_(rows, fitted.classes_)] = np.nan_to_num(known)
                done += 1
                if progress is not None:
                    progress(done, total)
            found.append(p)
    return found


def _fits(
    model: Any, x: Any, labels: Codes, seed: int, taught: Mask
) -> Iterator[tuple[Any, list[tuple[Codes, Floats]]]]:
    """Fitted models, each with rows that it has not seen and what it says of them."""
    from sklearn.base import clone

    if hasattr(model, "oob_score"):  # a forest knows which tree has seen which row
        rows, others = np.flatnonzero(taught), np.flatnonzero(~taught)
        fitted = clone(model).set_params(max_samples=min(model.max_samples, len(rows))).fit(x[rows], labels[rows])
        fitted.n_jobs = 1  # threads would add up the trees in another order each time
        rest = [(others, fitted.predict_proba(x[others]))] if len(others) else []
        yield fitted, [(rows, fitted.oob_decision_function_), *rest]
        return
    for held_out in folds(labels, FOLDS, seed):
        rest_taught = taught.copy()
        rest_taught[held_out] = False
        fitted = clone(model).fit(x[rest_taught], labels[rest_taught])
        yield fitted, [(held_out, fitted.predict_proba(x[held_out]))]


def pooled(predictions: list[Floats], labels: Codes, taught: Mask | None = None) -> Floats:
    """One prediction of several, log-linear, with the weights that make the labels most likely, those taught only."""
    return mixed(predictions, pool_weights(predictions, labels, taught))


def pool_weights(predictions: list[Floats], labels: Codes, taught: Mask | None = None) -> Floats:
    """Of the models, and then of the classes."""
    from scipy.optimize import minimize

    logs = np.stack([np.log(np.maximum(p, LEAST)) for p in predictions])  # (models, rows, classes)
    models, rows, classes = logs.shape
    taught = np.ones(rows, bool) if taught is None else taught
    each = taught / taught.sum()  # the weight of a row: rows are not taken apart, or there would be two such tables
    mean, shares = logs[:, np.arange(rows), labels] @ each, np.bincount(labels, each, classes)

    def loss(weights: Floats) -> tuple[float, Floats]:
        of_models, of_classes = weights[:models], weights[models:]
        z = np.tensordot(of_models, logs, 1) + of_classes
        top = z.max(1, keepdims=True)
        p = np.exp(z - top)
        total = p.sum(1, keepdims=True)
        p *= each[:, None] / total
        likelihood = of_models @ mean + of_classes @ shares - each @ (np.log(total) + top)[:, 0]
        pull = CLASS_PRIOR / taught.sum() * of_classes
        slope = np.append(np.einsum("nk,mnk->m", p, logs) - mean, p.sum(0) - shares + pull)
        return float(pull @ of_classes / 2 - likelihood), slope

    start = np.append(np.full(models, 1 / models), np.zeros(classes))
    bounds = [(0.01, 20.0)] * models + [(None, None)] * classes
    weights: Floats = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return weights


def mixed(predictions: list[Floats], weights: Floats) -> Floats:
    """One prediction of several, log-linear with these weights."""
    models = len(predictions)
    logs = np.stack([np.log(np.maximum(p, LEAST)) for p in predictions])
    z = np.tensordot(weights[:models], logs, 1) + weights[models:]
    p = np.exp(z - z.max(1, keepdims=True))
    found: Floats = p / p.sum(1, keepdims=True)
    return found
