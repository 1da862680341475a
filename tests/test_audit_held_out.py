"""Held-out predictions by models that are fitted in seconds, and whether a rule made the labels."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits, load_wine
from sklearn.metrics import log_loss, roc_auc_score

import adaptivek
from adaptivek.auditing.held_out import enough, folds, models, pooled, predict, word_features
from adaptivek.auditing.rules import follows_few_words
from adaptivek.noise import Symmetric, corrupt


def test_folds_have_as_many_rows_of_every_class():
    labels = np.repeat([0, 1, 2], [50, 23, 3])
    parts = folds(labels, 5, 0)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(76))
    for code, number in enumerate((50, 23, 3)):
        counts = [int((labels[part] == code).sum()) for part in parts]
        assert max(counts) - min(counts) <= 1
        assert sum(counts) == number


class Spy(ClassifierMixin, BaseEstimator):
    """Says of each row whether it has seen it."""

    met: ClassVar[set[float]] = set()  #: by any of them

    def fit(self, x: np.ndarray, y: np.ndarray) -> Spy:
        self.classes_, self.seen_ = np.unique(y), set(x[:, 0].tolist())
        Spy.met |= self.seen_
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        seen = np.array([value in self.seen_ for value in x[:, 0].tolist()], float)
        return np.stack([1 - seen, seen], 1)


@pytest.mark.parametrize("taught", [None, np.arange(40) % 5 > 0])
def test_no_row_is_predicted_by_a_model_that_has_seen_it(taught):
    labels = np.arange(40) % 2
    p = predict([(Spy(), np.arange(40.0)[:, None])], labels, 2, 0, taught=taught)
    assert (p[:, 0] > 0.5).all()


def test_a_label_that_is_not_taught_is_met_by_no_model():
    rng = np.random.default_rng(0)
    labels, taught = rng.integers(0, 2, 60), rng.random(60) < 0.7
    Spy.met = set()
    predict([(Spy(), np.arange(60.0)[:, None])], labels, 2, 0, taught=taught)
    assert Spy.met == set(np.flatnonzero(taught).tolist())


def test_a_table_of_many_rows_takes_fewer_folds():
    labels = np.arange(6_000) % 2
    rare = np.where(np.arange(6_000) < 40, 1, 0)
    for columns, given, taken in ((3, labels, 2), (100, labels, 5), (3, rare, 5)):
        assert enough(np.zeros((6_000, columns)), given) == taken
    told: list[tuple[int, int]] = []
    x = np.random.default_rng(0).random((6_000, 3))
    predict([(Spy(), x)], labels, 2, 0, lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]


def slow_pool(predictions: list[np.ndarray], labels: np.ndarray, taught: np.ndarray) -> np.ndarray:
    """The pool again, row by row, its weights found without slopes."""
    models, classes = len(predictions), predictions[0].shape[1]

    def chances(weights: np.ndarray, row: int) -> list[float]:
        z = []
        for k in range(classes):
            of_models = [w * math.log(max(p[row, k], 1e-3)) for w, p in zip(weights, predictions, strict=False)]
            z.append(math.exp(sum(of_models) + weights[models + k]))
        return [value / sum(z) for value in z]

    def loss(weights: np.ndarray) -> float:
        rows = np.flatnonzero(taught)
        unlikely = -sum(math.log(chances(weights, row)[labels[row]]) for row in rows)
        return (unlikely + 5 * sum(b * b for b in weights[models:]) / 2) / len(rows)

    start = np.append(np.full(models, 1 / models), np.zeros(classes))
    bounds = [(0.01, 20.0)] * models + [(-20.0, 20.0)] * classes
    found = minimize(loss, start, method="Powell", bounds=bounds, options={"xtol": 1e-6, "ftol": 1e-10}).x
    return np.array([chances(found, row) for row in range(len(labels))])


@pytest.mark.parametrize("models", [1, 2])
def test_weights_of_models_and_classes_make_the_labels_most_likely(models):
    rng = np.random.default_rng(models)
    p = rng.dirichlet([0.5, 0.5, 0.5], 120)
    labels = (rng.random((120, 1)) > np.cumsum(p, 1)).sum(1).clip(max=2)
    predictions = []
    for favoured in ([1.0, 4.0, 1.0], [0.2, 1.0, 1.0])[:models]:  # too sharp, and a class too often
        sharp = p ** rng.uniform(1, 4, (120, 1)) * favoured
        predictions.append(sharp / sharp.sum(1, keepdims=True))
    taught = rng.random(120) < 0.8
    found = pooled(predictions, labels, taught)
    np.testing.assert_allclose(found, slow_pool(predictions, labels, taught), atol=2e-3)
    np.testing.assert_allclose(found[taught].mean(0), np.bincount(labels[taught]) / taught.sum(), atol=0.05)


def test_a_pool_is_no_worse_than_any_of_its_models_and_guesses_do_not_count():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 3, 2_000)
    first, second = (
        np.exp(z) / np.exp(z).sum(1, keepdims=True)
        for z in (2 * np.eye(3)[true] + rng.standard_normal((2_000, 3)) for _ in range(2))
    )
    nothing = rng.dirichlet([1, 1, 1], 2_000)
    both = log_loss(true, pooled([first, second], true))
    assert both < min(log_loss(true, pooled([one], true)) for one in (first, second))
    assert log_loss(true, pooled([first, second, nothing], true)) == pytest.approx(both, abs=0.002)


@pytest.mark.parametrize(("model", "least"), [(None, 0.97), ("linear", 0.95), ("trees", 0.97)])
def test_noisy_rows_of_a_table_are_found(model, least):
    x, y = load_wine(return_X_y=True)
    labels = corrupt(y, Symmetric(0.15), classes=3, seed=0)[0].numpy()
    result = adaptivek.audit(x, labels, model)
    assert roc_auc_score(labels != y, -result.score) > least
    assert result.noise_ratio_low <= (labels != y).mean() <= result.noise_ratio_high
    assert result.settings["model"] == model or model is None
    again = adaptivek.audit(x, labels, model)
    np.testing.assert_array_equal(result.score, again.score)


def made_texts(rows: int = 300, spaces: bool = True) -> tuple[list[str], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    kinds = [list("好棒喜美赞"), list("坏差脏破慢")]
    true = rng.integers(0, 2, rows)
    texts = [
        (" " if spaces else "").join([*rng.choice(kinds[y], 3), *rng.choice(list("我的店里有很多人在这个"), 12)])
        for y in true
    ]
    noisy = rng.random(rows) < 0.15
    return texts, true, np.where(noisy, 1 - true, true)


@pytest.mark.parametrize("spaces", [True, False])
def test_texts_with_and_without_spaces(spaces):
    texts, true, labels = made_texts(spaces=spaces)
    result = adaptivek.audit(texts, labels)
    assert roc_auc_score(labels != true, -result.score) > 0.93
    assert result.settings["model"] == "words"
    assert not result.by_rule


def test_texts_have_the_same_scores_each_time():
    """Their models draw at random while they are fitted: from the seed, not from what NumPy has drawn before."""
    texts, _, labels = made_texts()
    first, second = (adaptivek.audit(texts, labels).score for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_texts_in_which_no_word_is_there_twice():
    assert word_features(["one two", "three four"]).shape == (2, 6)


def test_labels_that_a_rule_has_made_are_said_to_be():
    rng = np.random.default_rng(0)
    many = [f"word{number}" for number in range(300)]
    texts = [" ".join(rng.choice(many, 12)) for _ in range(900)]
    rule = np.array([int(any(f"word{number}" in text.split() for number in range(12))) for text in texts])
    vague = np.array([sum(int(word[4:]) for word in text.split()) > 12 * 150 for text in texts]).astype(np.int64)
    x = word_features(texts)
    wrong = {}
    for name, labels in (("rule", rule), ("vague", vague)):
        p = predict([(model, x) for model in models("words", 900, 0)], labels, 2, 0)
        wrong[name] = float((p.argmax(1) != labels).mean())
    assert follows_few_words(x, rule, wrong["rule"])
    assert not follows_few_words(x, vague, wrong["vague"])
    result = adaptivek.audit(texts, rule)
    assert result.by_rule
    assert "noisy cannot be known" in result.headline
    assert result.noise_ratio_high >= 0.5


def test_what_is_known_is_in_the_first_line():
    x, y = load_digits(return_X_y=True)
    labels = corrupt(y, Symmetric(0.1), classes=10, seed=0)[0].numpy()
    result = adaptivek.audit(x[:600], labels[:600])
    assert result.headline.startswith(f"{result.noise_ratio:.1%} ({result.noise_ratio_low:.1%} to ")
    rng = np.random.default_rng(0)
    unclear = adaptivek.audit(rng.standard_normal((200, 4)), rng.integers(0, 2, 200))
    assert unclear.headline.startswith("between ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "best"}, "model must be one of"),
        ({"model": "words"}, "model must be one of trees, linear, network for features inputs, got words"),
        ({"model": "trees", "epochs": 3}, "epochs must be left out with model trees"),
    ],
)
def test_a_model_that_does_not_suit_is_an_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        adaptivek.audit(np.random.default_rng(0).random((40, 3)), [0, 1] * 20, **arguments)


def test_told_how_to_train_it_is_a_network():
    result = adaptivek.audit(np.random.default_rng(0).random((40, 3)), [0, 1] * 20, epochs=1)
    assert (result.settings["model"], result.settings["network"]) == ("network", "mlp")
