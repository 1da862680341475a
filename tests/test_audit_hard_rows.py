"""The audit where hard rows are mislabelled more often: the ratio is not absurd, the ranking good whatever it is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from adaptivek.auditing.instance_noise import adjust_floor, noise_by_confidence
from adaptivek.auditing.noise_floor import NoiseRatio, noise_floor
from adaptivek.auditing.predictions import Predictions, label_probability, mean_prediction
from adaptivek.auditing.transition import fit, for_ranking, posterior

CLASSES = 5


class Made(NamedTuple):
    """What two networks say of rows, their classes and their labels."""

    first: Predictions
    second: Predictions
    true: np.ndarray
    labels: np.ndarray


def made(easy: float, hard: float, seed: int = 0, rows: int = 20_000, sharpness: float = 1.5) -> Made:
    """Labels that are noisy in this share of the easiest and of the hardest rows, most often the nearest class."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, CLASSES, rows)
    ease = rng.gamma(2, 1.2, rows)
    looks = ease[:, None] * np.eye(CLASSES)[true] + rng.standard_normal((rows, CLASSES))  # the same to both networks
    first, second = (_softmax(sharpness * (looks + 0.2 * rng.standard_normal(looks.shape))) for _ in range(2))
    noisy = rng.random(rows) < hard + (easy - hard) * ease.argsort().argsort() / rows
    rival = np.where(np.eye(CLASSES)[true] > 0, -np.inf, looks + rng.gumbel(size=looks.shape)).argmax(1)
    return Made(Predictions(first, None), Predictions(second, None), true, np.where(noisy, rival, true))


def _softmax(logits: np.ndarray) -> np.ndarray:
    p = np.exp(logits - logits.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def ratios(data: Made) -> tuple[NoiseRatio, NoiseRatio]:
    """By the floor alone, and with what the second network says."""
    p = data.first.p.max(1)
    confidence, predicted = np.log(p / (1 - p)), data.first.p.argmax(1)
    floor = noise_floor(confidence, predicted == data.labels, predicted, CLASSES)
    return floor, adjust_floor(floor, confidence, 1 - p, predicted != data.labels, predicted != data.second.p.argmax(1))


def labelled_by_people(learned: float, seed: int) -> tuple[NoiseRatio, NoiseRatio, float]:
    """By the floor alone, with the second network, and the truth.

    Half of the least confident rows are mislabelled, and a fifth of the most confident.
    """
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(-1, 5, 50_000)
    chance = 1 / (1 + np.exp(learned * confidence))
    errs, differ = (rng.random(len(chance)) < share for share in (chance, chance**2))
    noisy = rng.random(len(chance)) < 0.5 - 0.3 * ((confidence + 1) / 6) ** 2
    follows = errs & noisy & (rng.random(len(chance)) < 0.5)  # the label is what the network takes the row for
    disagrees = (errs | noisy) & ~follows
    floor = noise_floor(confidence, ~disagrees, np.zeros(len(chance), np.int64), CLASSES)
    return floor, adjust_floor(floor, confidence, chance, disagrees, differ), float(noisy.mean())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("learned", [0.6, 0.8, 1.1])
def test_noise_among_the_most_confident_rows_is_not_taken_for_errors_of_the_network(learned, seed):
    floor, found, truth = labelled_by_people(learned, seed)
    assert floor.high < truth - 0.2  # no floor is in sight
    assert found.ratio == pytest.approx(truth, abs=0.1)
    assert found.low <= truth <= found.high


def test_the_floor_stands_or_falls():
    confidence, uncertainty, differ = np.arange(20_000.0), np.zeros(20_000), np.zeros(20_000, bool)
    disagrees = np.arange(20_000) % 10 < 6
    disagrees[-1_000:] = np.arange(1_000) % 10 < 3  # of the most confident twentieth 0.3, of the others 0.6
    share = 0.95 * 0.6 + 0.05 * 0.3
    least, likely = (
        sum(
            part * (other - 2 * (other * (1 - other) / 1_000) ** 0.5 - error) / (1 - error)
            for part, other in ((0.95, 0.6), (0.05, 0.3))
        )
        for error in ((1 / 1_002) ** 0.5, 1 / 1_002)
    )
    for high in (likely - 0.029, 0.7):
        floor = NoiseRatio(0.5, 0.4, high)
        assert adjust_floor(floor, confidence, uncertainty, disagrees, differ) == floor
    floor = NoiseRatio(0.2, 0.1, likely - 0.031)
    expected = ((likely + share) / 2, least, share)
    assert adjust_floor(floor, confidence, uncertainty, disagrees, differ) == pytest.approx(expected)
    disagrees[-1_000:] = np.arange(1_000) % 10 < 1  # too few of the most confident: classes may overlap
    assert adjust_floor(floor, confidence, uncertainty, disagrees, differ) == floor


def test_where_nothing_was_learned_the_interval_is_still_one():
    rng = np.random.default_rng(0)
    confidence, uncertainty, disagrees = rng.random(200), np.full(200, 0.9), rng.random(200) < 0.95
    found = adjust_floor(NoiseRatio(0.0, 0.0, 0.01), confidence, uncertainty, disagrees, disagrees)
    assert found.low <= found.ratio <= found.high


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.4])
def test_the_floor_stays_where_it_holds(noise):
    floor, found = ratios(made(noise, noise))
    assert floor.ratio == pytest.approx(noise, abs=0.02)
    assert found == floor


def test_classes_that_overlap_are_not_noise():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(50_000)
    labels = (rng.random(50_000) < 1 / (1 + np.exp(-2 * x))).astype(np.int64)  # none noisy, a quarter against the odds
    for sharpness in (2.0, 6.0):  # calibrated, and overconfident
        first, second = (_softmax(np.stack([0 * x, sharpness * (x + shift)], 1)) for shift in (-0.02, 0.02))
        floor, found = ratios(Made(Predictions(first, None), Predictions(second, None), labels, labels))
        assert found == floor
        assert found.ratio < 0.02


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_the_noise_by_hand(power):
    confidence, uncertainty = np.arange(2_000.0), np.full(2_000, 0.001)
    disagrees, differ = np.zeros(2_000, bool), np.zeros(2_000, bool)
    disagrees[-50:] = True  # half of the most confident hundred
    error = (1 / 102) ** power
    by_hand = (0.5 - 2 * 0.05 - error) / (1 - error)
    found = noise_by_confidence(confidence, uncertainty, disagrees, differ, power)
    np.testing.assert_allclose(found, by_hand)  # harder rows have no less
    differ[-80:] = True
    assert (noise_by_confidence(confidence, uncertainty, disagrees, differ, power) == 0).all()
    assert (noise_by_confidence(confidence, uncertainty + 0.6, disagrees, ~disagrees, power) == 0).all()


@pytest.mark.parametrize("sharpness", [1.5, 6.0])
@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.3])
def test_rows_are_ranked_well_whatever_the_ratio(sharpness, ratio):
    data = made(0.15, 0.8, rows=5_000, sharpness=sharpness)
    both, noisy = mean_prediction(data.first, data.second), data.labels != data.true
    fitted = fit(data.first, data.labels, CLASSES, ratio)
    plain = roc_auc_score(noisy, -label_probability(both, data.labels))
    assert roc_auc_score(noisy, -posterior(both, data.labels, for_ranking(fitted)).clean) > plain - 0.004
