"""The audit's estimates, the noise floor and the transition matrix, against data whose noise is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import xlogy

from adaptivek.auditing.noise_floor import RATIOS, _interval, noise_floor
from adaptivek.auditing.predictions import Predictions
from adaptivek.auditing.transition import fit


def drawn(
    ratio: float, classes: int, seed: int, rows: int = 3_000, follows: float | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidence, agreement and predictions of a network that errs less the more confident it is, under this noise.

    ``follows`` is how often it errs the way that the noise goes: by chance, unless told.
    """
    rng = np.random.default_rng(seed)
    confidence = rng.normal(2, 2, rows)
    true_guess = rng.random(rows) < 1 / (1 + np.exp(-(0.5 + 0.9 * confidence)))
    noisy = rng.random(rows) < ratio
    lucky = ~true_guess & noisy & (rng.random(rows) < (1 / (classes - 1) if follows is None else follows))
    return confidence, (true_guess & ~noisy) | lucky, rng.integers(0, classes, rows)


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.4])
def test_the_floor_is_the_noise_and_the_interval_holds_it(ratio):
    found = [noise_floor(*drawn(ratio, 10, seed), 10) for seed in range(20)]
    assert np.mean([one.ratio for one in found]) == pytest.approx(ratio, abs=0.02)
    assert sum(one.low <= ratio <= one.high for one in found) >= 18
    assert np.mean([one.high - one.low for one in found]) < 0.2


def test_for_a_network_that_never_errs_labels_that_disagree_are_noisy():
    near = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        noisy = rng.random(1_500) < 0.15  # however confident it is
        found = noise_floor(rng.uniform(2, 9, 1_500), ~noisy, rng.integers(0, 3, 1_500), 3)
        near += abs(found.ratio - noisy.mean()) < 0.03
    assert near >= 8


def test_errors_that_follow_the_noise_are_not_taken_for_less_noise():
    found = [noise_floor(*drawn(0.4, 10, seed, 10_000, follows=0.7), 10) for seed in range(10)]
    assert np.mean([one.ratio for one in found]) == pytest.approx(0.4, abs=0.01)
    assert all(one.low <= 0.4 <= one.high for one in found)


@pytest.mark.parametrize(("first", "second"), [(0.2, 0.0), (0.3, 0.05)])
def test_the_noise_of_one_class_is_not_lost_in_the_confidence_of_the_other(first, second):
    found, truth = [], (first + second) / 2
    for seed in range(10):
        (one, agrees, _), (other, agree, _) = drawn(first, 2, seed), drawn(second, 2, seed + 100)
        # the network is most confident in the clean class
        predicted = np.repeat([0, 1], 3_000)
        found.append(noise_floor(np.append(one, other + 6), np.append(agrees, agree), predicted, 2))
    assert np.mean([one.ratio for one in found]) == pytest.approx(truth, abs=0.01)
    assert sum(one.low <= truth <= one.high for one in found) >= 9


@pytest.mark.parametrize("sharpness", [1.0, 8.0])
def test_the_matrix_of_known_data_is_found_however_flat_the_predictions_are(sharpness):
    rng = np.random.default_rng(0)
    truth = np.array([[0.9, 0.1, 0.0], [0.0, 0.7, 0.3], [0.05, 0.05, 0.9]])
    p = rng.dirichlet([0.2, 0.2, 0.2], 20_000)
    true = (rng.random((20_000, 1)) > np.cumsum(p, 1)).sum(1).clip(max=2)
    labels = (rng.random((20_000, 1)) > np.cumsum(truth[true], 1)).sum(1).clip(max=2)
    flat = p ** (1 / sharpness)
    flat /= flat.sum(1, keepdims=True)
    found = fit(Predictions(flat, None), labels, 3, ratio=float((labels != true).mean()))
    assert not found.symmetric
    assert found.power == sharpness
    np.testing.assert_allclose(found.transition, truth, atol=0.03)


def test_a_network_that_favours_a_class_is_not_taken_for_noise():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.4, 0.4], 20_000)
    true = (rng.random(20_000) > p[:, 0]).astype(np.int64)
    labels = np.where(rng.random(20_000) < 0.2, 1 - true, true)
    favoured = p * [4.0, 1.0]
    found = fit(Predictions(favoured / favoured.sum(1, keepdims=True), None), labels, 2, ratio=0.2)
    assert found.symmetric
    assert found.class_weights[1] / found.class_weights[0] == pytest.approx(4, rel=0.2)
    np.testing.assert_allclose(found.transition, [[0.8, 0.2], [0.2, 0.8]], atol=0.03)


@pytest.mark.parametrize(("noisy", "rows"), [(0, 400), (12, 1_346), (300, 1_000), (90, 6_000)])
def test_the_ends_of_an_interval_lie_between_the_points_of_the_grid(noisy, rows):
    def likelihood(ratio: float) -> float:
        return float(xlogy(noisy, max(ratio, 1e-9)) + xlogy(rows - noisy, 1 - ratio))

    least = likelihood(noisy / rows) - 1.92
    high = brentq(lambda ratio: likelihood(ratio) - least, noisy / rows, 0.79)
    low = brentq(lambda ratio: likelihood(ratio) - least, 1e-12, noisy / rows) if noisy else 0.0
    found = _interval(RATIOS, np.array([likelihood(ratio) for ratio in RATIOS]))
    assert found.low == pytest.approx(low, abs=0.002)
    assert found.high == pytest.approx(high, abs=0.002)
