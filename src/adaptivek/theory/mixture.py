"""The paper's model of losses: two normal distributions, and what each method keeps of their mixture.

Losses of samples with clean labels are normal with ``mu1`` and ``sigma1``, those with noisy labels with ``mu2``
and ``sigma2``; a share ``tau`` of the labels is noisy. The error of a method is the mean squared error of the
losses it trains on against the mean of the clean ones: (mean - mu1)^2 + variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..backend.checks import check_number
from .moments import Floats, mix, mkl_moments, normal_pdf, special, standard, truncated_moments


@dataclass(frozen=True, eq=False)  # fields may be arrays, which == compares one by one
class Kept:
    """The losses that a method trains on."""

    clean_mean: Floats
    mean: Floats
    variance: Floats
    pdf: Callable[[ArrayLike], Floats]  #: density at given losses

    @property
    def mse(self) -> Floats:
        """Mean squared error against the mean of the clean losses."""
        bias = self.mean - self.clean_mean
        return np.asarray(bias**2 + self.variance)[()]


@dataclass(frozen=True, eq=False)
class Mixture:
    """Losses of all samples: clean with chance ``1 - tau``, noisy with chance ``tau``.

    Every parameter is a number or an array; arrays broadcast against each other, so that one call
    computes a whole surface.
    """

    mu1: ArrayLike
    sigma1: ArrayLike
    mu2: ArrayLike
    sigma2: ArrayLike
    tau: ArrayLike

    def __post_init__(self) -> None:
        for name in ("mu1", "sigma1", "mu2", "sigma2", "tau"):
            object.__setattr__(self, name, _numbers("Mixture", name, getattr(self, name)))
        for name in ("sigma1", "sigma2"):
            _check_range("Mixture", name, getattr(self, name), 0, open_low=True)
        _check_range("Mixture", "tau", self.tau, 0, 1)
        try:
            np.broadcast_shapes(*(value.shape for value in self._arrays()))
        except ValueError:
            shapes = ", ".join(str(value.shape) for value in self._arrays())
            raise ValueError(f"Mixture: mu1, sigma1, mu2, sigma2 and tau must broadcast, got shapes {shapes}") from None

    def pdf(self, x: ArrayLike) -> Floats:
        """Density at ``x``."""
        return mix(self._arrays(), np.asarray(x, dtype=np.float64), normal_pdf)[()]

    def cdf(self, x: ArrayLike) -> Floats:
        """Share of the losses that are at most ``x``."""
        return mix(self._arrays(), np.asarray(x, dtype=np.float64), lambda z, sigma: special.ndtr(z))[()]

    def survival(self, x: ArrayLike) -> Floats:
        """Share of the losses above ``x``: 1 - cdf, without its loss of digits."""
        return mix(self._arrays(), np.asarray(x, dtype=np.float64), lambda z, sigma: special.ndtr(-z))[()]

    @property
    def mean(self) -> Floats:
        mu1, _, mu2, _, tau = self._arrays()
        return np.asarray((1 - tau) * mu1 + tau * mu2)[()]

    @property
    def variance(self) -> Floats:
        mu1, sigma1, mu2, sigma2, tau = self._arrays()
        within = (1 - tau) * sigma1**2 + tau * sigma2**2
        between = tau * (1 - tau) * (mu2 - mu1) ** 2  # the two squared distances from the mean, weighted
        return np.asarray(within + between)[()]

    def sample(self, n: int, seed: int) -> tuple[Floats, NDArray[np.bool_]]:
        """``n`` losses, and which of them are noisy. Arrays of parameters give ``n`` on a new last axis."""
        check_number("Mixture.sample", "n", n, 1, whole=True)
        mu1, sigma1, mu2, sigma2, tau = (value[..., None] for value in np.broadcast_arrays(*self._arrays()))
        rng = np.random.default_rng(seed)
        noisy = rng.random((*mu1.shape[:-1], n)) < tau
        losses = np.where(noisy, mu2, mu1) + np.where(noisy, sigma2, sigma1) * rng.standard_normal(noisy.shape)
        return losses, noisy

    def sgd(self) -> Kept:
        """Plain training keeps everything."""
        return Kept(self._arrays()[0], self.mean, self.variance, self.pdf)

    def mkl(self, n: int, k: int) -> Kept:
        """The k smallest of every n losses: the mean of the first k order statistics' densities."""
        check_number("Mixture.mkl", "n", n, 1, whole=True)
        check_number("Mixture.mkl", "k", k, 1, n, whole=True)
        if k == n:
            return self.sgd()

        def pdf(x: ArrayLike) -> Floats:
            # the sum over p of C(n-1, p-1) F^(p-1) (1-F)^(n-p) is a binomial distribution function
            return np.asarray(n / k * self.pdf(x) * special.betainc(n - k, k, self.survival(x)))[()]

        mean, variance = mkl_moments(self._arrays(), n, k)
        return Kept(self._arrays()[0], mean, variance, pdf)

    def adaptive_k(self, threshold: ArrayLike | None = None) -> Kept:
        """Losses up to ``threshold``: the mean of all losses, as in the paper, unless another is given."""
        limit = np.asarray(self.mean) if threshold is None else _threshold("Mixture.adaptive_k", threshold)
        mean, variance, log_share = truncated_moments(self._arrays(), limit)

        def pdf(x: ArrayLike) -> Floats:
            at = np.asarray(x, dtype=np.float64)
            logs = [log - 0.5 * z**2 - np.log(sigma) for log, z, sigma in standard(self._arrays(), at)]
            log_density = np.logaddexp(*logs) - 0.5 * math.log(2 * math.pi)
            # in logarithms: far below the losses both are too small to divide
            return np.where(at <= limit, np.exp(np.where(at <= limit, log_density - log_share, 0)), 0)[()]

        return Kept(self._arrays()[0], mean, variance, pdf)

    def _arrays(self) -> tuple[Floats, ...]:
        return tuple(np.asarray(value) for value in (self.mu1, self.sigma1, self.mu2, self.sigma2, self.tau))


def _numbers(owner: str, name: str, value: ArrayLike) -> Floats:
    """``value`` as an array of its own that nobody can change."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{owner}: {name} must be a number or an array of numbers, got {value!r}") from None
    if array.size == 0 or not np.isfinite(array).all():
        found = array[~np.isfinite(array)][:1].tolist()
        raise ValueError(f"{owner}: {name} must be finite, got {found[0] if found else 'no number at all'}")
    array.flags.writeable = False
    return array


def _check_range(owner: str, name: str, value: Any, low: float, high: float = math.inf, open_low: bool = False) -> None:
    for end in (value.min(), value.max()):
        check_number(owner, name, float(end), low, high, open_low=open_low)


def _threshold(owner: str, threshold: ArrayLike) -> Floats:
    limit = np.asarray(threshold, dtype=np.float64)
    if not (limit > -math.inf).all():
        raise ValueError(f"{owner}: threshold must be a number above minus infinity, got {threshold!r}")
    return limit
