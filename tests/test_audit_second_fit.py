"""The second fit of the audit's models, without the labels that the first contradicts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gmean
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

import adaptivek
from adaptivek.auditing.held_out import predict
from adaptivek.auditing.second_fit import contradicted, geometric_mean, predict_twice


def slowly_contradicted(p: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Row by row, from the words of the rule."""
    rows = range(len(labels))
    usual = {}
    for k in range(classes):
        agreeing = [p[row, k] for row in rows if labels[row] == k and p[row].argmax() == k]
        if len(agreeing) >= 10:
            usual[k] = sum(agreeing) / len(agreeing)
    found = []
    for row in rows:
        k = int(p[row].argmax())
        if k != labels[row] and k in usual and p[row, k] >= usual[k]:
            found.append(row)
    for k in range(classes):  # a third of a class and five rows of it stay, those whose label is most probable
        mine = [row for row in rows if labels[row] == k]
        stay = max(int(np.ceil(len(mine) / 3)), 5)
        doubted = sorted((row for row in found if labels[row] == k), key=lambda row: p[row, k])
        for row in doubted[max(0, len(mine) - stay) :]:
            found.remove(row)
    return np.isin(np.arange(len(labels)), found)


@pytest.mark.parametrize("seed", range(5))
def test_labels_that_are_contradicted_with_confidence(seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.3, 0.3, 0.3, 0.02], 200)  # the last class is seldom predicted
    labels = np.where(rng.random(200) < 0.4, rng.integers(0, 4, 200), p.argmax(1))
    labels[:12] = 3
    p[:12] = [0.97, 0.01, 0.01, 0.01]  # nearly all of a class, more than may be left out
    found = contradicted(p, labels, 4)
    np.testing.assert_array_equal(found, slowly_contradicted(p, labels, 4))
    assert 0 < found.sum() < (p.argmax(1) != labels).sum()


def test_the_mean_of_two_predictions_is_geometric():
    rng = np.random.default_rng(0)
    first, second = rng.dirichlet([1, 1, 1], (2, 20))
    expected = gmean([first, second], axis=0)
    np.testing.assert_allclose(geometric_mean(first, second), expected / expected.sum(1, keepdims=True))
    assert np.isfinite(np.log(geometric_mean(np.eye(3), np.eye(3)[::-1]))).all()


def one_way(apart: float = 1.5, rows: int = 900) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three classes that overlap; a third of the first is labelled as the second."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, rows)
    x = rng.standard_normal((rows, 6)) + apart * np.eye(6)[y]
    return x, y, np.where((y == 0) & (rng.random(rows) < 0.35), 1, y)


def test_the_second_fit_is_one_without_the_contradicted_labels():
    x, _, labels = one_way()
    pool = [(LogisticRegression(), x)]
    told = []
    found = predict_twice(pool, labels, 3, 0, lambda done, total: told.append((done, total)))
    np.testing.assert_array_equal(found.first, predict(pool, labels, 3, 0))
    second = predict(pool, labels, 3, 0, taught=~slowly_contradicted(found.first, labels, 3))
    np.testing.assert_allclose(found.both, geometric_mean(found.first, second))
    assert told == [(number, 10) for number in range(1, 11)]


def test_where_nothing_is_contradicted_or_all_is_trusted_there_is_one_fit():
    x, _, labels = one_way()
    pool = [(LogisticRegression(), x)]
    trusted = predict_twice(pool, labels, 3, 0, trusted=np.ones(len(labels), bool))
    np.testing.assert_array_equal(trusted.both, trusted.first)
    assert not np.array_equal(predict_twice(pool, labels, 3, 0).both, trusted.first)


def test_noise_that_goes_one_way_is_ranked_better_and_the_ratio_is_that_of_the_first_fit():
    x, y, labels = one_way(apart=3)
    result = adaptivek.audit(x, labels)
    first = result.held_out.p[np.arange(len(labels)), labels]
    best = [average_precision_score(labels != y, -score) for score in (result.score, first)]
    assert best[0] > best[1] + 0.05
    assert result.noise_ratio_low <= (labels != y).mean() <= result.noise_ratio_high
