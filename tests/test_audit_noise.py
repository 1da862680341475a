"""How many labels are noisy, which rows are flagged, and what is said, on predictions whose noise is known."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import label_binarize

from adaptivek.auditing.duplicates import alike, number_keys, text_keys
from adaptivek.auditing.noise_estimate import COUNTED, confident_contradictions, estimate_noise, unbounded
from adaptivek.auditing.noise_floor import NoiseRatio
from adaptivek.auditing.predictions import Predictions, best_other, label_probability, mean_prediction
from adaptivek.auditing.scoring import NoiseEstimate, Scores, flagged, learned, score_labels

CLASSES = 4
NAMES = list("abcd")


def made(easy: float, hard: float, seed: int = 0, rows: int = 6_000) -> tuple[Predictions, np.ndarray, np.ndarray]:
    """Predictions, true classes, and labels that are noisy in this share of the easiest and of the hardest rows."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, CLASSES, rows)
    ease = rng.gamma(2, 1.2, rows)
    looks = ease[:, None] * np.eye(CLASSES)[true] + rng.standard_normal((rows, CLASSES))
    p = np.exp(1.5 * looks)
    noisy = rng.random(rows) < hard + (easy - hard) * ease.argsort().argsort() / rows
    rival = np.where(np.eye(CLASSES)[true] > 0, -np.inf, looks + rng.gumbel(size=looks.shape)).argmax(1)
    return Predictions(p / p.sum(1, keepdims=True), None), true, np.where(noisy, rival, true)


def scored(held_out: Predictions, labels: np.ndarray, ratio: float = 0.2) -> Scores:
    return score_labels(held_out, labels, NAMES, NoiseEstimate(NoiseRatio(ratio, 0.0, 0.5), True))


@pytest.mark.parametrize(("easy", "hard"), [(0, 0), (0.1, 0.1), (0.4, 0.4), (0.0, 0.3), (0.1, 0.5)])
def test_the_interval_holds_whether_hard_rows_have_more_noise_or_not(easy, hard):
    for seed in range(3):
        held_out, true, labels = made(easy, hard, seed)
        ratio, low, high = estimate_noise(held_out, labels, CLASSES).ratio
        assert low <= (labels != true).mean() <= high
        assert low <= ratio <= high


def test_even_noise_is_told_from_noise_among_hard_rows():
    even = [estimate_noise(*made(0.2, 0.2, seed)[::2], CLASSES) for seed in range(3)]
    assert all(found.even for found in even)
    assert np.mean([found.ratio.ratio for found in even]) == pytest.approx(0.2, abs=0.03)
    uneven = [estimate_noise(*made(0.0, 0.6, seed)[::2], CLASSES) for seed in range(3)]
    assert all(found.assumption == COUNTED for found in uneven)


def test_the_upper_bound_is_what_disagrees_and_needs_no_good_model():
    """A model that knows nothing disagrees with more labels than are noisy, as long as less than half are."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 2, 4_000)
    labels = np.where(rng.random(4_000) < 0.3, 1 - true, true)
    guesses = rng.dirichlet([1, 1], 4_000)
    share = (guesses.argmax(1) != labels).mean()
    found = estimate_noise(Predictions(guesses, None), labels, 2)
    error = ((share + 1 / 4_000) * (1 - share) / 4_000) ** 0.5
    assert found.ratio.high == pytest.approx(1.15 * share + 2 * error)
    assert unbounded(found, 2).ratio == found.ratio._replace(high=max(found.ratio.high, 0.5))


def test_confident_contradictions_by_hand():
    p = np.array([[0.9, 0.1], [0.7, 0.3], [0.8, 0.2], [0.2, 0.8], [0.4, 0.6]])
    labels = np.array([0, 0, 1, 1, 0])  # usual: of 0 (.9 + .7 + .4) / 3 = .667, of 1 (.2 + .8) / 2 = .5
    found = confident_contradictions(Predictions(p, None), labels, 2)
    assert found.tolist() == [False, False, True, False, True]


def test_the_score_is_the_probability_of_the_label_and_all_numbers_agree():
    held_out, _, labels = made(0.1, 0.3)
    found = scored(held_out, labels)
    np.testing.assert_allclose(found.score, held_out.p[np.arange(len(labels)), labels], rtol=1e-6)
    number = round(0.2 * len(labels))
    assert found.is_issue.sum() == number
    first = confident_contradictions(held_out, labels, CLASSES)
    assert found.is_issue[first].all()
    assert found.score[found.is_issue & ~first].max() <= found.score[~found.is_issue].min()
    counts = np.bincount(labels, minlength=CLASSES)
    assert (found.noise_per_class * counts).sum() == pytest.approx(number)
    true = np.bincount(found.suggested, minlength=CLASSES)
    assert ((1 - np.diag(found.transition)) * true).sum() == pytest.approx(number)
    np.testing.assert_allclose((found.transition * true[:, None]).sum(0), counts)
    assert (found.other != labels).all()
    rest = held_out.p.copy()
    rest[np.arange(len(labels)), labels] = 0
    np.testing.assert_allclose(found.other_probability, rest.max(1), rtol=1e-6)


def test_the_highest_few_predictions_give_the_same():
    held_out, _, labels = made(0.1, 0.3, rows=200)
    order = np.argsort(-held_out.p, 1)
    few = Predictions(np.take_along_axis(held_out.p, order, 1), order)
    np.testing.assert_array_equal(best_other(few, labels)[0], best_other(held_out, labels)[0])
    np.testing.assert_allclose(label_probability(mean_prediction(few, few), labels), label_probability(few, labels))


def test_no_class_loses_nearly_all_its_rows():
    labels = np.repeat([0, 1, 2], [100, 30, 6])
    score = np.concatenate([np.full(100, 0.9), np.linspace(0, 0.1, 30), np.full(6, 0.05)])
    none = np.zeros(136, bool)
    found, kept = flagged(score, labels, 3, 36, none)
    assert [int(found[labels == code].sum()) for code in range(3)] == [15, 20, 1]  # the rest from the class with many
    assert kept.tolist() == [False, True, True]
    assert found[labels == 1][:20].all()
    assert not flagged(score, labels, 3, 10, none)[1].any()
    assert np.flatnonzero(flagged(score, labels, 3, 3, np.arange(136) < 3)[0]).tolist() == [0, 1, 2]


def test_a_rare_class_that_is_never_predicted_is_not_nothing_learned():
    rng = np.random.default_rng(0)
    labels = (np.arange(2_000) < 40).astype(np.int64)
    rare = 0.02 + 0.2 * labels + 0.02 * rng.random(2_000)
    held_out = Predictions(np.stack([1 - rare, rare], 1), None)
    assert (held_out.predicted() == 0).all()
    assert not scored_two(held_out, labels).warnings
    assert "next to nothing" in scored_two(Predictions(rng.dirichlet([1, 1], 2_000), None), labels).warnings[0]


def scored_two(held_out: Predictions, labels: np.ndarray) -> Scores:
    return score_labels(held_out, labels, ["a", "b"], NoiseEstimate(NoiseRatio(0.0, 0.0, 0.1), True))


def test_what_was_learned_is_the_area_under_the_curve():
    held_out, _, labels = made(0.1, 0.3, rows=500)
    area = roc_auc_score(label_binarize(labels, classes=range(CLASSES)), held_out.p, average="macro")
    assert learned(held_out, labels, CLASSES) == pytest.approx(2 * area - 1)


def test_rows_alike_with_different_labels_come_first():
    texts = [
        "The same old words here",
        "here, words: the SAME old!",
        "the same old words here",
        "yes",
        "yes",
        "x y z w",
    ]
    labels = np.array([0, 1, 0, 0, 1, 1])
    found = alike(text_keys(texts), labels, np.array([0.5, 0.9, 0.5, 0.5, 0.5, 0.5]))
    assert found.place.tolist() == [-1, -1, -1, -1, -1, -1] or found.place.tolist() == [1, 0, 1, -1, -1, -1]
    pictures = np.zeros((3, 1, 4, 4), np.float32)
    pictures[2] = 1
    found = alike(number_keys(pictures), np.array([0, 1, 1]), np.array([0.2, 0.6, 0.5]))
    assert found.place.tolist() == [1, 0, -1]
    assert found.outvoted.tolist() == [True, False, False]  # of one each, the less probable
    held_out, _, labels = made(0.1, 0.1, rows=400)
    same = alike([0, 0, *[None] * 398], np.array([0, 1, *labels[2:]]), held_out.p[:, 0])
    scores = score_labels(held_out, labels, NAMES, NoiseEstimate(NoiseRatio(0.0, 0.0, 0.0), True), same=same)
    assert scores.is_issue.sum() == 1
    assert scores.ratio == (1 / 400,) * 3
    assert scores.score[same.outvoted][0] == pytest.approx(
        0.01 * held_out.p[same.outvoted][0, labels[same.outvoted][0]], rel=1e-5
    )
