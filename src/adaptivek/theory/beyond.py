"""What follows from the model beyond the paper: where its claims hold, better thresholds, what the readings mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..backend.checks import check_number
from .mixture import Mixture
from .moments import Floats, special


@dataclass(frozen=True, eq=False)
class Surfaces:
    """The three errors over a grid, each (tau, sigma2, mu2)."""

    mu2: Floats
    sigma2: Floats
    tau: Floats
    sgd: Floats
    mkl: Floats
    adaptive_k: Floats

    def mkl_beats_sgd(self) -> Floats:
        """Share of the grid on which claim 1 holds, for each tau."""
        return np.asarray((self.mkl < self.sgd).mean(axis=(1, 2)))

    def adaptive_k_beats_mkl(self) -> Floats:
        """Share of the grid on which claim 2 holds, for each tau."""
        return np.asarray((self.adaptive_k < self.mkl).mean(axis=(1, 2)))


def surfaces(mu1: float, sigma1: float, mu2: Floats, sigma2: Floats, tau: Floats, n: int, k: int) -> Surfaces:
    """The errors of plain training, MKL and Adaptive-k over the grid of ``mu2`` and ``sigma2`` for each ``tau``."""
    mixture = Mixture(mu1, sigma1, mu2, sigma2[:, None], tau[:, None, None])
    kept = mixture.sgd(), mixture.mkl(n, k), mixture.adaptive_k()
    return Surfaces(mu2, sigma2, tau, *(np.asarray(method.mse) for method in kept))


@dataclass(frozen=True, eq=False)
class Boundary:
    """Points where MKL and Adaptive-k have the same error, for one tau."""

    mu2: Floats
    sigma2: Floats
    adaptive_k_above: Floats  #: 1 where Adaptive-k wins at larger mu2, 0 where MKL does


def boundary(
    mu1: float, sigma1: float, sigma2: Floats, tau: float, n: int, k: int, mu2: tuple[float, float], cells: int = 200
) -> Boundary:
    """Solve MSE_adk = MSE_MKL for mu2 within a range, for each ``sigma2``.

    A sigma2 may have several solutions or none. Each change of sign between neighbours among ``cells`` + 1
    values of mu2 is narrowed down to rounding; two solutions in one cell would be missed.
    """
    check_number("boundary", "cells", cells, 1, whole=True)

    def gap(at: Floats, spread: Floats) -> Floats:
        mixture = Mixture(mu1, sigma1, at, spread, tau)
        return np.asarray(mixture.mkl(n, k).mse - mixture.adaptive_k().mse)

    grid = np.linspace(*mu2, cells + 1)
    better = gap(grid, sigma2[:, None]) > 0
    row, cell = np.nonzero(better[:, :-1] != better[:, 1:])
    if not row.size:
        return Boundary(np.empty(0), np.empty(0), np.empty(0))
    spread, above = sigma2[row], better[row, cell + 1]
    solved = _bisect(lambda at: (gap(at, spread) > 0) == above, grid[cell], grid[cell + 1])
    return Boundary(solved, spread, above.astype(np.float64))


def best_threshold(mixture: Mixture) -> Floats:
    """The threshold with the smallest error.

    The derivative of the error by the threshold t has the sign of (t - mu1)^2 - MSE(t). At a zero above mu1 this
    difference grows, so there is one zero and one minimum: the best threshold lies above the clean mean
    by the root of the error that it leaves.
    """
    mu1, mu2 = np.asarray(mixture.mu1), np.asarray(mixture.mu2)
    # from max(mu1, mu2) on at least half of all losses are kept, so the error is at most twice that of keeping all
    top = np.maximum(np.maximum(mu1, mu2), mu1 + np.sqrt(2 * mixture.sgd().mse))
    bottom = np.broadcast_to(mu1, top.shape)
    return _bisect(lambda t: (t - mu1) ** 2 > mixture.adaptive_k(t).mse, bottom, top)


def clean_ratio(mixture: Mixture) -> Floats:
    """The share of losses below the mean of all: what Adaptive-k of the theory reads as 1 - tau."""
    return mixture.cdf(mixture.mean)


def clean_ratio_bias(mixture: Mixture) -> Floats:
    """How far that reading is from the truth; below 0 where clean samples are taken for noisy ones."""
    return np.asarray(clean_ratio(mixture) - (1 - np.asarray(mixture.tau)))[()]


def corrected_noise_ratios(
    read: float, mu1: float, sigma1: float, mu2: float, sigma2: float, cells: int = 1000
) -> list[float]:
    """Every tau, in rising order, for which Adaptive-k of the theory reads the clean ratio ``read``.

    The mean halves a single normal, so the reading is 0.5 both at tau = 0 and at tau = 1 and a
    reading between mostly has two solutions; one above the largest possible has none. Two solutions
    closer than 1 / ``cells`` are missed.
    """
    check_number("corrected_noise_ratios", "read", read, 0, 1)
    check_number("corrected_noise_ratios", "cells", cells, 1, whole=True)

    def gap(tau: Floats) -> Floats:
        return np.asarray(clean_ratio(Mixture(mu1, sigma1, mu2, sigma2, tau)) - read)

    tau = np.linspace(0, 1, cells + 1)
    values = gap(tau)
    exact = tau[values == 0]
    (cell,) = np.nonzero(values[:-1] * values[1:] < 0)
    rising = values[cell + 1] > 0
    solved = _bisect(lambda at: (gap(at) > 0) == rising, tau[cell], tau[cell + 1]) if cell.size else np.empty(0)
    return sorted(float(value) for value in (*exact, *solved))


def noise_ratio_from_share(
    read: float, threshold: float, mu1: float, sigma1: float, mu2: float, sigma2: float
) -> float:
    """The one tau for which a share ``read`` of all losses is at most a known ``threshold``.

    With the threshold given, the share kept is linear in tau. Outside [0, 1] no mixture of these two gives it.
    """
    check_number("noise_ratio_from_share", "read", read, 0, 1)
    clean, noisy = (float(Mixture(mu1, sigma1, mu2, sigma2, tau).cdf(threshold)) for tau in (0, 1))
    if clean == noisy:
        raise ValueError(f"noise_ratio_from_share: threshold must keep unequal shares of the two, got {threshold!r}")
    return (clean - read) / (clean - noisy)


def published_ratio(
    step: ArrayLike,
    loss: float = 1.0,
    factor: float = 1.0,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
) -> Floats:
    """The published threshold m / (sqrt(v) + eps) at ``step`` (from 1), in closed form.

    The batch mean is ``loss`` at the first step and is multiplied by ``factor`` at each one after it, 1 for a
    constant loss. m and v are then geometric sums.
    """
    check_number("published_ratio", "loss", loss, 0)
    check_number("published_ratio", "factor", factor, 0, open_low=True)
    for name, value in (("beta1", beta1), ("beta2", beta2)):
        check_number("published_ratio", name, value, 0, 1, open_low=True)
    check_number("published_ratio", "eps", eps, 0, open_low=True)
    steps = np.asarray(step, dtype=np.float64)
    if not (steps >= 1).all():
        raise ValueError(f"published_ratio: step must be at least 1, got {step!r}")
    m = (1 - beta1) * loss * _geometric(beta1, factor, steps)
    v = (1 - beta2) * loss**2 * _geometric(beta2, factor**2, steps)
    return np.asarray(m / (np.sqrt(v) + eps))[()]


def too_many_noisy(n: int, k: int, tau: ArrayLike) -> Floats:
    """The chance that a batch of n holds more than n - k noisy samples: MKL must then train on some."""
    check_number("too_many_noisy", "n", n, 1, whole=True)
    check_number("too_many_noisy", "k", k, 1, n, whole=True)
    return np.asarray(special.bdtrc(n - k, n, Mixture(0, 1, 0, 1, tau).tau))[()]


def least_noisy_share(n: int, k: int, tau: ArrayLike) -> Floats:
    """The share of noisy samples among the k that MKL keeps even if every noisy loss is above every clean one."""
    noisy = np.arange(n - k + 1, n + 1)
    chances = np.stack([too_many_noisy(n, n - int(number) + 1, tau) for number in noisy])
    # the mean of max(0, N - (n - k)) is the sum of the chances that N reaches each number above n - k
    return np.asarray(chances.sum(0) / k)[()]


def _geometric(a: float, b: float, steps: Floats) -> Floats:
    """The sum of a^(t-j) b^(j-1) over j = 1..t, which is (a^t - b^t) / (a - b); exact also where a is near b."""
    large, small = max(a, b), min(a, b)
    if large == small:
        return np.asarray(steps * large ** (steps - 1))
    log = np.log1p((small - large) / large)
    return np.asarray(large ** (steps - 1) * np.expm1(steps * log) / np.expm1(log))


def _bisect(beyond: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Halve all intervals together until rounding stops it; ``beyond`` is False at ``low`` and True at ``high``."""
    for _ in range(60):
        middle = (low + high) / 2
        past = beyond(middle)
        low, high = np.where(past, low, middle), np.where(past, middle, high)
    return np.asarray((low + high) / 2)[()]
