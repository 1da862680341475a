"""The theory against sampling, SciPy, numerical integration and plain loops; the files that the command writes."""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from adaptivek.theory import Mixture
from adaptivek.theory.beyond import (
    best_threshold,
    boundary,
    clean_ratio,
    clean_ratio_bias,
    corrected_noise_ratios,
    least_noisy_share,
    noise_ratio_from_share,
    published_ratio,
    surfaces,
    too_many_noisy,
)

PAPER = (0.0, 1.0, 5.0, 2.0, 0.4)
parameters = st.tuples(st.floats(-3, 3), st.floats(0.2, 3), st.floats(-6, 6), st.floats(0.2, 3), st.floats(0.05, 0.95))


def integrals(density, ends):
    """Mass, mean and variance of a density by adaptive integration between consecutive ends."""

    def integral(function):
        return sum(
            integrate.quad(function, low, high, epsabs=1e-13, epsrel=1e-12, limit=400)[0]
            for low, high in itertools.pairwise(ends)
        )

    mean = integral(lambda x: x * density(x))
    return integral(density), mean, integral(lambda x: (x - mean) ** 2 * density(x))


def order_statistics(parts, n, k):
    """The paper's sum over the first k order statistics, term by term."""
    mu1, sigma1, mu2, sigma2, tau = parts

    def density(x):
        f = (1 - tau) * stats.norm.pdf(x, mu1, sigma1) + tau * stats.norm.pdf(x, mu2, sigma2)
        below = (1 - tau) * stats.norm.cdf(x, mu1, sigma1) + tau * stats.norm.cdf(x, mu2, sigma2)
        terms = (math.comb(n - 1, p - 1) * below ** (p - 1) * (1 - below) ** (n - p) for p in range(1, k + 1))
        return n * f * sum(terms) / k

    return density


def agrees(sample, kept, tolerance=6.0):
    """Within ``tolerance`` standard errors, from the sample's own moments."""
    size, centred = sample.size, sample - sample.mean()
    assert abs(sample.mean() - kept.mean) <= tolerance * sample.std() / math.sqrt(size)
    assert abs(sample.var() - kept.variance) <= tolerance * (centred**2).std() / math.sqrt(size)


@settings(max_examples=15)
@given(parameters, st.integers(2, 12), st.data())
def test_moments_agree_with_sampling(parts, n, data):
    k = data.draw(st.integers(1, n))
    mixture = Mixture(*parts)
    losses, noisy = mixture.sample(60_000, seed=n)
    agrees(losses, mixture.sgd())
    assert abs(noisy.mean() - parts[4]) <= 6 * math.sqrt(parts[4] * (1 - parts[4]) / noisy.size)
    agrees(losses[losses <= mixture.mean], mixture.adaptive_k())
    batches = np.sort(losses[: losses.size // n * n].reshape(-1, n), axis=1)[:, :k]
    # the k of a batch depend on each other: the standard error is that of the means of batches
    kept = mixture.mkl(n, k)
    for values, expected in ((batches, kept.mean), ((batches - kept.mean) ** 2, kept.variance)):
        means = values.mean(axis=1)
        assert abs(means.mean() - expected) <= 6 * means.std() / math.sqrt(means.size)


@settings(max_examples=30)
@given(parameters, st.floats(-8, 8))
def test_a_cut_mixture_agrees_with_integration(parts, cut):
    kept = Mixture(*parts).adaptive_k(cut)
    spread = max(parts[1], parts[3])
    # the whole mass below the cut lies within some spreads of it, or of the normals
    low = min(cut, parts[0], parts[2]) - 12 * spread
    ends = sorted({low, cut, *(end for end in (parts[0], parts[2]) if low < end < cut)})
    mass, mean, variance = integrals(lambda x: float(kept.pdf(x)), ends)
    assert mass == pytest.approx(1, abs=1e-8)
    assert kept.mean == pytest.approx(mean, abs=1e-7)
    assert kept.variance == pytest.approx(variance, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("cut", [-3.0, 0.0, 1.5, 9.0])
def test_one_normal_agrees_with_scipys_truncated_normal(cut):
    for tau, mu, sigma in ((0, 0.5, 1.3), (1, 2.0, 0.7)):
        kept = Mixture(0.5, 1.3, 2.0, 0.7, tau).adaptive_k(cut)
        other = stats.truncnorm(-math.inf, (cut - mu) / sigma, loc=mu, scale=sigma)
        assert kept.mean == pytest.approx(other.mean(), rel=1e-9)
        assert kept.variance == pytest.approx(other.var(), rel=1e-7)
        assert kept.pdf(cut - 0.3) == pytest.approx(other.pdf(cut - 0.3), rel=1e-9)


def test_far_below_the_losses_a_cut_keeps_its_digits():
    # for z standard deviations below, mean z + 1/z - 2/z^3 + ..., variance 1/z^2 - 6/z^4 + 50/z^6 - ...
    for z in (-50.0, -1e3, -1e6):
        kept = Mixture(0, 1, 5, 2, 0).adaptive_k(z)
        assert kept.mean - z == pytest.approx(1 / z - 2 / z**3, rel=max(20 / z**4, 4e-16 * z**2))
        assert kept.variance == pytest.approx(1 / z**2 - 6 / z**4 + 50 / z**6, rel=max(600 / z**6, 1e-12))
    # where the two formulas meet, nothing jumps
    near = Mixture(0, 1, 5, 2, 0).adaptive_k(np.array([-6 - 1e-9, -6 + 1e-9]))
    assert near.variance[0] == pytest.approx(near.variance[1], rel=1e-8)
    assert near.mean[0] == pytest.approx(near.mean[1], rel=1e-8)
    assert Mixture(*PAPER).adaptive_k(math.inf).mse == pytest.approx(Mixture(*PAPER).sgd().mse, rel=1e-14)


def test_the_three_errors_of_the_papers_example():
    mixture, ends = Mixture(*PAPER), [-14, -3, 0, 2, 5, 10, 30]
    assert mixture.sgd().mse == pytest.approx(12.2, rel=1e-14)  # 2^2 + 0.6 + 0.4 * 4 + 0.24 * 25
    mass, mean, variance = integrals(order_statistics(PAPER, 10, 6), ends)
    assert mass == pytest.approx(1, abs=1e-10)
    assert mixture.mkl(10, 6).mse == pytest.approx(mean**2 + variance, abs=1e-8)
    f = order_statistics(PAPER, 1, 1)
    below = integrate.quad(f, -14, 2, epsabs=1e-13, points=[0])[0]
    _, mean, variance = integrals(lambda x: f(x) / below, [-14, -3, 0, 2])
    assert mixture.adaptive_k().mse == pytest.approx(mean**2 + variance, abs=1e-8)


HARD = [
    (PAPER, 10, 1),
    (PAPER, 10, 9),
    (PAPER, 5000, 3000),  # the k-th smallest lies in the gap between the normals
    ((0, 1, 12, 0.5, 0.4), 5000, 3000),
    ((0, 1, 0.4, 0.01, 0.3), 5000, 2100),  # a spike inside a wide one
    ((0, 0.05, -3, 4, 0.9), 1000, 999),
    ((2, 1, -1, 1, 0), 128, 77),
    ((0, 1, 9, 0.06, 0.6), 10, 6),
    ((0, 1, 5, 2, 1), 5000, 1),
]


@pytest.mark.parametrize(("parts", "n", "k"), HARD)
def test_mkl_is_right_to_eight_digits(parts, n, k):
    mixture = Mixture(*parts)
    kept = mixture.mkl(n, k)
    mu1, sigma1, mu2, sigma2, tau = parts
    inner = [mu + sigma * z for mu, sigma in ((mu1, sigma1), (mu2, sigma2)) for z in np.linspace(-9, 9, 73)]
    ends = sorted({*inner})

    # through the binomial distribution: the sum over p overflows for thousands
    def density(x):
        below = (1 - tau) * special.ndtr((x - mu1) / sigma1) + tau * special.ndtr((x - mu2) / sigma2)
        f = (1 - tau) * math.exp(-0.5 * ((x - mu1) / sigma1) ** 2) / sigma1
        f += tau * math.exp(-0.5 * ((x - mu2) / sigma2) ** 2) / sigma2
        return n / k * f / math.sqrt(2 * math.pi) * special.bdtr(k - 1, n - 1, below)

    mass, mean, variance = integrals(density, ends)
    assert mass == pytest.approx(1, abs=1e-9)
    assert kept.mean == pytest.approx(mean, abs=1e-8)
    assert kept.variance == pytest.approx(variance, rel=1e-8, abs=1e-8)
    x = mu1 + 0.3 * sigma1
    assert kept.pdf(x) == pytest.approx(density(x), rel=1e-8, abs=1e-12)


def test_all_of_a_batch_is_plain_training():
    mixture = Mixture(*PAPER)
    assert mixture.mkl(7, 7).mse == mixture.sgd().mse
    assert mixture.mkl(1, 1).pdf(0.3) == mixture.pdf(0.3)


def test_a_grid_gives_what_its_points_give():
    mu2, sigma2, tau = np.array([1.0, 5.0, 9.0]), np.array([0.5, 2.0]), np.array([0.0, 0.2, 0.4, 1.0])
    grid = surfaces(0, 1, mu2, sigma2, tau, 10, 6)
    assert grid.mkl.shape == (4, 2, 3)
    for t, s, m in np.ndindex(grid.mkl.shape):
        one = Mixture(0, 1, mu2[m], sigma2[s], tau[t])
        assert grid.sgd[t, s, m] == pytest.approx(one.sgd().mse, rel=1e-13)
        assert grid.mkl[t, s, m] == pytest.approx(one.mkl(10, 6).mse, rel=1e-12)
        assert grid.adaptive_k[t, s, m] == pytest.approx(one.adaptive_k().mse, rel=1e-12)
    # tau in the middle of the axes, and along with the normals
    middle = Mixture(0, 1, mu2, sigma2[:, None, None], tau[:, None]).mkl(10, 6).mse
    np.testing.assert_allclose(middle, grid.mkl.transpose(1, 0, 2), rtol=1e-12)
    along = Mixture(0, 1, mu2, 2.0, tau[:3]).mkl(10, 6).mse
    np.testing.assert_allclose(along, [grid.mkl[i, 1, i] for i in range(3)], rtol=1e-12)
    claims = grid.adaptive_k_beats_mkl()
    assert claims[2] == np.mean([[grid.adaptive_k[2, s, m] < grid.mkl[2, s, m] for m in range(3)] for s in range(2)])
    np.testing.assert_array_equal(grid.mkl_beats_sgd(), [(grid.mkl[t] < grid.sgd[t]).mean() for t in range(4)])


@pytest.mark.parametrize("tau", [0.1, 0.4])
def test_the_errors_are_equal_on_the_boundary_and_only_there(tau):
    sigma2 = np.array([0.3, 1.0, 3.0])
    edge = boundary(0, 1, sigma2, tau, 10, 6, (0, 10), cells=50)
    assert set(edge.sigma2) == set(sigma2)
    mixture = Mixture(0, 1, edge.mu2, edge.sigma2, tau)
    np.testing.assert_allclose(mixture.mkl(10, 6).mse, mixture.adaptive_k().mse, rtol=1e-9)
    for shift in (-0.05, 0.05):
        beside = Mixture(0, 1, edge.mu2 + shift, edge.sigma2, tau)
        wins = beside.adaptive_k().mse < beside.mkl(10, 6).mse
        np.testing.assert_array_equal(wins, (edge.adaptive_k_above == 1) == (shift > 0))


def test_the_claims_depend_on_k_and_on_the_batch():
    close = Mixture(0, 1, 0.5, 1, 0.4)
    assert close.mkl(10, 6).mse < close.sgd().mse < close.mkl(10, 2).mse
    apart = Mixture(0, 1, 6, 1, 0.3)
    assert apart.mkl(128, 77).mse < apart.adaptive_k().mse < apart.mkl(10, 6).mse


def test_no_boundary_is_an_empty_one():
    assert boundary(0, 1, np.array([1.0]), 0.4, 10, 6, (5, 10), cells=10).mu2.size == 0


@settings(max_examples=25)
@given(parameters)
def test_no_cut_is_better_than_the_best(parts):
    mixture = Mixture(*parts)
    best = float(best_threshold(mixture))
    error = float(mixture.adaptive_k(best).mse)
    assert best >= parts[0]
    assert best - parts[0] == pytest.approx(math.sqrt(error), rel=1e-6)
    cuts = np.linspace(parts[0] - 5, parts[0] + 15, 400)
    assert (mixture.adaptive_k(cuts).mse >= error * (1 - 1e-9)).all()


@settings(max_examples=25)
@given(st.floats(0.01, 0.99), st.floats(0.5, 8), st.floats(0.3, 3))
def test_the_corrected_noise_ratio_finds_the_true_one(tau, mu2, sigma2):
    read = float(clean_ratio(Mixture(0, 1, mu2, sigma2, tau)))
    assert clean_ratio_bias(Mixture(0, 1, mu2, sigma2, tau)) == pytest.approx(read - (1 - tau), abs=1e-15)
    found = corrected_noise_ratios(read, 0, 1, mu2, sigma2, cells=4000)
    readings = [float(clean_ratio(Mixture(0, 1, mu2, sigma2, each))) for each in found]
    np.testing.assert_allclose(readings, read, atol=1e-9)
    # where the reading turns, two solutions melt into one that a change of sign cannot show
    slope = np.diff(clean_ratio(Mixture(0, 1, mu2, sigma2, np.array([tau - 1e-3, tau + 1e-3]))))
    if abs(slope) > 1e-5:
        assert min(abs(each - tau) for each in found) < 1e-6


def test_readings_without_a_solution_or_with_several():
    assert corrected_noise_ratios(0.9, 0, 1, 5, 2) == []
    assert corrected_noise_ratios(float(clean_ratio(Mixture(*PAPER))), 0, 1, 5, 2) == pytest.approx(
        [0.08901, 0.4], abs=1e-4
    )
    assert clean_ratio(Mixture(0, 1, 5, 2, 0)) == 0.5


def test_with_a_known_cut_the_noise_ratio_is_unique():
    read = float(Mixture(*PAPER).cdf(1.26))
    assert noise_ratio_from_share(read, 1.26, *PAPER[:4]) == pytest.approx(0.4, rel=1e-12)
    with pytest.raises(ValueError, match="threshold must keep unequal shares of the two, got 0"):
        noise_ratio_from_share(0.5, 0.0, 0, 1, 0, 2)


@pytest.mark.parametrize("factor", [1.0, 0.999, 0.9, 0.999**0.5, 1.01, 0.5])
def test_the_published_threshold_is_that_of_a_plain_loop(factor):
    m = v = 0.0
    for step in range(1, 400):
        mean = 2.5 * factor ** (step - 1)
        m, v = 0.9 * m + 0.1 * mean, 0.999 * v + 0.001 * mean**2
        assert published_ratio(step, loss=2.5, factor=factor) == pytest.approx(m / (math.sqrt(v) + 1e-8), rel=1e-9)


def test_too_many_noisy_samples_by_enumeration():
    n, k, tau = 6, 4, 0.3
    chance = share = 0.0
    for batch in itertools.product((0, 1), repeat=n):
        probability = math.prod(tau if noisy else 1 - tau for noisy in batch)
        chance += probability * (sum(batch) > n - k)
        share += probability * max(0, sum(batch) - (n - k)) / k
    assert too_many_noisy(n, k, tau) == pytest.approx(chance, rel=1e-12)
    assert least_noisy_share(n, k, tau) == pytest.approx(share, rel=1e-12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Mixture(0, 0, 5, 2, 0.4), "Mixture: sigma1 must be a number above 0, got 0.0"),
        (lambda: Mixture(0, 1, 5, [2, -1], 0.4), "Mixture: sigma2 must be a number above 0, got -1.0"),
        (lambda: Mixture(0, 1, 5, 2, 1.2), "Mixture: tau must be a number in [0, 1], got 1.2"),
        (lambda: Mixture(0, 1, 5, 2, [0.1, -0.1]), "Mixture: tau must be a number in [0, 1], got -0.1"),
        (lambda: Mixture(math.nan, 1, 5, 2, 0.4), "Mixture: mu1 must be finite, got nan"),
        (lambda: Mixture(0, 1, "five", 2, 0.4), "Mixture: mu2 must be a number or an array of numbers, got 'five'"),
        (lambda: Mixture(0, 1, [1, 2], 2, [0.1, 0.2, 0.3]), "must broadcast, got shapes (), (), (2,), (), (3,)"),
        (lambda: Mixture(*PAPER).mkl(10, 11), "Mixture.mkl: k must be a whole number in [1, 10], got 11"),
        (lambda: Mixture(*PAPER).mkl(10, 0), "Mixture.mkl: k must be a whole number in [1, 10], got 0"),
        (lambda: Mixture(*PAPER).mkl(0, 1), "Mixture.mkl: n must be a whole number of at least 1, got 0"),
        (lambda: Mixture(*PAPER).adaptive_k(math.nan), "threshold must be a number above minus infinity, got nan"),
        (lambda: Mixture(*PAPER).sample(0, 0), "Mixture.sample: n must be a whole number of at least 1, got 0"),
        (lambda: published_ratio(0), "published_ratio: step must be at least 1, got 0"),
        (lambda: too_many_noisy(10, 6, 2), "tau must be a number in [0, 1], got 2"),
        (lambda: corrected_noise_ratios(1.5, 0, 1, 5, 2), "read must be a number in [0, 1], got 1.5"),
    ],
)  # fmt: skip
def test_bad_parameters_are_named(build, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        build()


def test_the_package_does_not_load_scipy_by_itself():
    extra = ("scipy", "matplotlib", "adaptivek.theory")
    code = f"import sys, adaptivek; print([name for name in {extra} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
