"""Held-out predictions by models that are fitted in seconds, and whether a rule made the labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits, load_wine
from sklearn.metrics import log_loss, roc_auc_score

import adaptivek
from adaptivek.auditing.held_out import folds, models, pooled, predict, word_features
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

    def fit(self, x: np.ndarray, y: np.ndarray) -> Spy:
        self.classes_, self.seen_ = np.unique(y), set(x[:, 0].tolist())
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        seen = np.array([value in self.seen_ for value in x[:, 0].tolist()], float)
        return np.stack([1 - seen, seen], 1)


def test_no_row_is_predicted_by_a_model_that_has_seen_it():
    labels = np.arange(40) % 2
    p = predict([(Spy(), np.arange(40.0)[:, None])], labels, 2, 0)
    assert (p[:, 0] > 0.5).all()


def test_the_pool_of_one_has_the_temperature_that_makes_the_labels_most_likely():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.5, 0.5, 0.5], 2_000)
    labels = (rng.random((2_000, 1)) > np.cumsum(p, 1)).sum(1).clip(max=2)
    sharp = p**3 / (p**3).sum(1, keepdims=True)

    def loss(power: float) -> float:
        z = np.maximum(sharp, 1e-3) ** power
        return float(log_loss(labels, z / z.sum(1, keepdims=True)))

    best = minimize_scalar(loss, bounds=(0.05, 2), method="bounded")
    assert log_loss(labels, pooled([sharp], labels)) == pytest.approx(best.fun, abs=1e-5)


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
