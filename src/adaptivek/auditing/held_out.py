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
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..support.streams import stream
from ..support.threads import in_threads
from .forest import Forest
from .predictions import Codes, Floats

Mask = NDArray[np.bool_]

FOLDS = 5
FEWER = 2  #: folds are enough where half of the rows are plenty: so many, so many for each column, and of every class
PLENTY, FOR_EACH_COLUMN, OF_A_CLASS = 5_000, 100, 50
TREES = (150, 100)  #: of up to 5,000 rows; of more
ROWS_OF_A_TREE = 5_000  #: at most: a forest of 20,000 rows grows as fast as one of 10,000
CLASS_PRIOR = 5.0  #: rows' worth by which the weight of a class is drawn to none
LEAST = 1e-3  #: no class is less likely than this: a forest of 100 trees that agree is not certain
MOST_FEATURES = 100_000  #: words or parts of words
PAIRS_UP_TO = 5_000_000  #: characters of all texts, up to which pairs of words count too
#: letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
MANY = 0.2  #: share of all letters

ALONE = Lock()  #: for fits by liblinear, which draws from one generator of the whole process

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
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.naive_bayes import ComplementNB

    if name == "words":
        drawn: dict[str, Any] = {
            "solver": "liblinear",
            "dual": True,
            "max_iter": 200,
            "tol": 0.01,
            "random_state": seed,
        }
        of_two = [LogisticRegression(C=c, **drawn) for c in (0.3, 3.0)]
        return [ComplementNB(alpha=0.3), ComplementNB(alpha=3.0), *map(OneVsRestClassifier, of_two)]
    if name == "linear":
        return [LogisticRegression(C=c, max_iter=200) for c in (0.001, 0.01, 0.1)]
    forest = Forest(TREES[rows > PLENTY], ROWS_OF_A_TREE, seed)
    return [*(LogisticRegression(C=c, max_iter=200) for c in (0.01, 0.1)), forest]


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
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    taught = np.ones(len(labels), bool) if taught is None else taught
    found: list[Floats] = [np.zeros((len(labels), classes)) for _ in pool]

    def fit(model: Any, x: Any, p: Floats, held_out: Codes) -> None:
        """A model that has not seen these rows, and what it says of them."""
        rest = taught.copy()
        rest[held_out] = False
        own = getattr(model, "estimator", model)
        if len(np.unique(labels[rest])) == 2:
            model = own  # it tells both of two classes; others, one from the rest
        with ALONE if getattr(own, "solver", "") == "liblinear" else nullcontext():
            fitted = clone(model).fit(x[rest], labels[rest])
        p[np.ix_(held_out, fitted.classes_)] = fitted.predict_proba(x[held_out])

    def grow(forest: Forest, x: Any, p: Floats) -> None:
        grown = forest if forest.is_of(x, labels) else forest.fit(x, labels)
        p[:, grown.classes_] = grown.held_out(taught)

    jobs: list[Callable[[], None]] = []
    for (model, x), p in zip(pool, found, strict=True):
        if isinstance(model, Forest):
            jobs.append(partial(grow, model, x, p))
        else:
            jobs += [partial(fit, model, x, p, held_out) for held_out in folds(labels, enough(x, labels), seed)]
    # the matrices are small, and threads within a fit would wait for each other: so there are several fits at once
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for done, _ in enumerate(in_threads(lambda job: job(), jobs), 1):
            if progress is not None:
                progress(done, len(jobs))
    return found


def enough(x: Any, labels: Codes) -> int:
    """How many folds: fewer where a table has many more rows than columns."""
    rows, columns = x.shape
    counts = np.bincount(labels)
    many = rows > max(PLENTY, FOR_EACH_COLUMN * columns) and counts[counts > 0].min() >= OF_A_CLASS
    return FEWER if many else FOLDS


def folded(model: Any) -> int:
    """How often a model is fitted for held-out predictions, at most."""
    return 1 if isinstance(model, Forest) else FOLDS


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
