"""The audit where hard rows are mislabelled more often: the ratio is not absurd, and the order does not hang on it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from adaptivek.auditing.agreement import hard_rows, noise_by_sureness
from adaptivek.auditing.estimate import Slots, fit, for_ranking, posterior
from adaptivek.auditing.floor import Ratio, noise_floor
from adaptivek.auditing.judge import probability, together

CLASSES = 5


class Made(NamedTuple):
    """What two networks say of rows, their classes and their labels."""

    first: Slots
    second: Slots
    true: np.ndarray
    labels: np.ndarray


def made(easy: float, hard: float, seed: int = 0, rows: int = 20_000, sharpness: float = 1.5) -> Made:
    """Labels that are wrong in this share of the easiest and of the hardest rows, most often the nearest class."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, CLASSES, rows)
    ease = rng.gamma(2, 1.2, rows)
    looks = ease[:, None] * np.eye(CLASSES)[true] + rng.standard_normal((rows, CLASSES))  # the same to both networks
    first, second = (_softmax(sharpness * (looks + 0.2 * rng.standard_normal(looks.shape))) for _ in range(2))
    wrong = rng.random(rows) < hard + (easy - hard) * ease.argsort().argsort() / rows
    rival = np.where(np.eye(CLASSES)[true] > 0, -np.inf, looks + rng.gumbel(size=looks.shape)).argmax(1)
    return Made(Slots(first, None), Slots(second, None), true, np.where(wrong, rival, true))


def _softmax(logits: np.ndarray) -> np.ndarray:
    p = np.exp(logits - logits.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def ratios(data: Made) -> tuple[Ratio, Ratio]:
    """By the floor alone, and with what the second network says."""
    p = data.first.p.max(1)
    sureness, guess = np.log(p / (1 - p)), data.first.p.argmax(1)
    floor = noise_floor(sureness, guess == data.labels, guess, CLASSES)
    return floor, hard_rows(floor, sureness, 1 - p, guess != data.labels, guess != data.second.p.argmax(1))


def labelled_by_people(learned: float, seed: int) -> tuple[Ratio, Ratio, float]:
    """By the floor alone, with the second network, and the truth.

    Half of the rows that the network is least sure of are mislabelled, and a fifth of the surest.
    """
    rng = np.random.default_rng(seed)
    sureness = rng.uniform(-1, 5, 50_000)
    chance = 1 / (1 + np.exp(learned * sureness))
    errs, differ = (rng.random(len(chance)) < share for share in (chance, chance**2))
    wrong = rng.random(len(chance)) < 0.5 - 0.3 * ((sureness + 1) / 6) ** 2
    follows = errs & wrong & (rng.random(len(chance)) < 0.5)  # the label is what the network takes the row for
    others = (errs | wrong) & ~follows
    floor = noise_floor(sureness, ~others, np.zeros(len(chance), np.int64), CLASSES)
    return floor, hard_rows(floor, sureness, chance, others, differ), float(wrong.mean())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("learned", [0.6, 0.8, 1.1])
def test_what_the_surest_rows_show_is_not_taken_for_errors_of_the_network(learned, seed):
    floor, found, truth = labelled_by_people(learned, seed)
    assert floor.high < truth - 0.2  # no floor is in sight
    assert found.ratio == pytest.approx(truth, abs=0.1)
    assert found.low <= truth <= found.high


def test_the_floor_stands_or_falls():
    sureness, doubt, differ = np.arange(20_000.0), np.zeros(20_000), np.zeros(20_000, bool)
    others = np.arange(20_000) % 10 < 6
    others[-1_000:] = np.arange(1_000) % 10 < 3  # of the surest twentieth 0.3, of the others 0.6
    share = 0.95 * 0.6 + 0.05 * 0.3
    least, likely = (
        sum(
            part * (other - 2 * (other * (1 - other) / 1_000) ** 0.5 - error) / (1 - error)
            for part, other in ((0.95, 0.6), (0.05, 0.3))
        )
        for error in ((1 / 1_002) ** 0.5, 1 / 1_002)
    )
    for high in (likely - 0.029, 0.7):
        assert hard_rows(Ratio(0.5, 0.4, high), sureness, doubt, others, differ) == (0.5, 0.4, high)
    floor = Ratio(0.2, 0.1, likely - 0.031)
    expected = ((likely + share) / 2, least, share)
    assert hard_rows(floor, sureness, doubt, others, differ) == pytest.approx(expected)
    others[-1_000:] = np.arange(1_000) % 10 < 1  # too few of the surest: classes may overlap
    assert hard_rows(floor, sureness, doubt, others, differ) == floor


def test_where_nothing_was_learned_the_interval_is_still_one():
    rng = np.random.default_rng(0)
    sureness, doubt, others = rng.random(200), np.full(200, 0.9), rng.random(200) < 0.95
    found = hard_rows(Ratio(0.0, 0.0, 0.01), sureness, doubt, others, others)
    assert found.low <= found.ratio <= found.high


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.4])
def test_the_floor_stays_where_it_holds(noise):
    floor, found = ratios(made(noise, noise))
    assert floor.ratio == pytest.approx(noise, abs=0.02)
    assert found == floor


def test_classes_that_overlap_are_not_noise():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(50_000)
    labels = (rng.random(50_000) < 1 / (1 + np.exp(-2 * x))).astype(np.int64)  # none wrong, a quarter against the odds
    for sharpness in (2.0, 6.0):  # as sure as it should be, and too sure
        first, second = (_softmax(np.stack([0 * x, sharpness * (x + shift)], 1)) for shift in (-0.02, 0.02))
        floor, found = ratios(Made(Slots(first, None), Slots(second, None), labels, labels))
        assert found == floor
        assert found.ratio < 0.02


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_the_noise_by_hand(power):
    sureness, doubt = np.arange(2_000.0), np.full(2_000, 0.001)
    others, differ = np.zeros(2_000, bool), np.zeros(2_000, bool)
    others[-50:] = True  # half of the surest hundred
    error = (1 / 102) ** power
    by_hand = (0.5 - 2 * 0.05 - error) / (1 - error)
    found = noise_by_sureness(sureness, doubt, others, differ, power)
    np.testing.assert_allclose(found, by_hand)  # harder rows have no less
    differ[-80:] = True
    assert (noise_by_sureness(sureness, doubt, others, differ, power) == 0).all()
    assert (noise_by_sureness(sureness, doubt + 0.6, others, ~others, power) == 0).all()


@pytest.mark.parametrize("sharpness", [1.5, 6.0])
@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.3])
def test_rows_are_ranked_well_whatever_the_ratio(sharpness, ratio):
    data = made(0.15, 0.8, rows=5_000, sharpness=sharpness)
    both, wrong = together(data.first, data.second), data.labels != data.true
    fitted = fit(data.first, data.labels, CLASSES, ratio)
    plain = roc_auc_score(wrong, -probability(both, data.labels))
    assert roc_auc_score(wrong, -posterior(both, data.labels, for_ranking(fitted)).right) > plain - 0.004
