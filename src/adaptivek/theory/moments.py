"""Moments of a mixture of two normals when only small losses are kept: up to a threshold, or the k smallest of n.

``parameters`` are always mu1, sigma1, mu2, sigma2 and tau, as arrays that broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

try:
    from scipy import special as special  # the other modules of the theory take it from here
except ImportError:
    raise ImportError("the theory needs SciPy: pip install 'adaptivek[theory]'") from None

Floats = NDArray[np.float64]


def normal_pdf(z: Floats, sigma: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * z**2) / (sigma * math.sqrt(2 * math.pi)))


def mix(parameters: tuple[Floats, ...], x: Floats, value: Callable[[Floats, Floats], Floats]) -> Floats:
    mu1, sigma1, mu2, sigma2, tau = parameters
    clean, noisy = value((x - mu1) / sigma1, sigma1), value((x - mu2) / sigma2, sigma2)
    return np.asarray((1 - tau) * clean + tau * noisy)


def standard(parameters: tuple[Floats, ...], x: Floats) -> list[tuple[Floats, Floats, Floats]]:
    """For both distributions: logarithm of its share, ``x`` in its standard deviations, these."""
    mu1, sigma1, mu2, sigma2, tau = parameters
    with np.errstate(divide="ignore"):  # a share of 0 has logarithm minus infinity, as it should
        shares = np.log1p(-tau), np.log(tau)
    return [(shares[0], (x - mu1) / sigma1, sigma1), (shares[1], (x - mu2) / sigma2, sigma2)]


def truncated_moments(parameters: tuple[Floats, ...], threshold: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean and variance of the mixture below ``threshold``, and the logarithm of the share below it."""
    mu1, _, mu2, _, _ = parameters
    means, variances, logs = [], [], []
    for mu, (log_share, z, sigma) in zip((mu1, mu2), standard(parameters, threshold), strict=True):
        gap, variance = _truncated_normal(z)
        # far below the mean the losses lie just under the threshold: count from there, not from mu
        means.append(np.where(z < 0, np.where(z < 0, threshold, 0) - sigma * gap, mu - sigma * _mills(z)))
        variances.append(sigma**2 * variance)
        logs.append(log_share + special.log_ndtr(z))
    log_total = np.logaddexp(*logs)
    clean, noisy = (np.exp(log - log_total) for log in logs)
    mean = clean * means[0] + noisy * means[1]
    variance = clean * variances[0] + noisy * variances[1] + clean * noisy * (means[1] - means[0]) ** 2
    return np.asarray(mean)[()], np.asarray(variance)[()], np.asarray(log_total)


def _mills(z: Floats) -> Floats:
    """phi(z) / Phi(z): how far a standard normal's mean moves down when truncated above at ``z``."""
    return np.asarray(math.sqrt(2 / math.pi) / special.erfcx(-np.minimum(z, 38) / math.sqrt(2)))


def _truncated_normal(z: Floats) -> tuple[Floats, Floats]:
    """For a standard normal truncated above at ``z``: distance of its mean below ``z``, and its variance."""
    near = np.clip(z, -6, 38)  # above 38 nothing is left out
    ratio = _mills(near)
    # far below 0 these formulas subtract near-equal numbers; Laplace's continued fraction does not:
    # ratio = a + 1/(a + 2/(a + 3/(a + ...))) with a = -z
    a = np.maximum(-z, 6)
    tail = a
    for number in range(40, 4, -1):
        tail = a + number / tail
    third = a + 4 / tail
    second = a + 3 / third
    first = a + 2 / second
    far = z < -6
    gap = np.where(far, 1 / first, near + ratio)
    variance = np.where(far, (a + 4 / second - 3 / third) / (second * first**2), 1 - ratio * (near + ratio))
    return gap, variance


#: nodes and weights of one panel of the quadrature, on [0, 1]
_NODES, _WEIGHTS = (
    (value + shift) / 2 for value, shift in zip(np.polynomial.legendre.leggauss(12), (1, 0), strict=True)
)
#: where panels end, in standard deviations from the centre of each normal
_ENDS = np.array([-7.0, -4.0, -2.0, 0.0, 2.0, 4.0, 7.0])
#: values computed at once: more would not fit the processor's cache
_CHUNK = 2**14


def mkl_moments(parameters: tuple[Floats, ...], n: int, k: int) -> tuple[Floats, Floats]:
    """Mean and variance of the k smallest of n.

    Given the (k+1)-th smallest, the k below it are drawn independently from the mixture truncated there. So a
    moment is a one-dimensional integral of the closed form for a truncated mixture, over the density of one
    order statistic: no sum over p, nothing large to cancel, one smooth bump that narrows with n.
    """
    shape = np.broadcast_shapes(*(value.shape for value in parameters))
    *normals, tau = (value.reshape((1,) * (len(shape) - value.ndim) + value.shape) for value in parameters)
    # along axes that only tau has, the normals are evaluated once for all tau: most of the work
    shared = [axis for axis in range(len(shape)) if all(value.shape[axis] == 1 for value in normals)]
    front = list(range(len(shared)))
    inner = [1 if axis in shared else size for axis, size in enumerate(shape)]
    flat = [np.broadcast_to(value, inner).reshape(-1, 1) for value in normals]
    tau = np.moveaxis(np.broadcast_to(tau, shape), shared, front)
    rows = tau.reshape(math.prod(tau.shape[: len(shared)]), -1, 1)
    panels = math.ceil(math.sqrt(n) / 3.5)  # of each width below, as the bump narrows
    step = max(1, _CHUNK // ((2 * len(_ENDS) + 1) * panels * len(_NODES)))
    pieces = [
        _mkl_chunk([value[i : i + step] for value in flat], rows[:, i : i + step], n, k, panels)
        for i in range(0, len(flat[0]), step)
    ]
    moments = [np.concatenate(piece, axis=1).reshape(tau.shape) for piece in zip(*pieces, strict=True)]
    mean, variance = (np.moveaxis(moment, front, shared)[()] for moment in moments)
    return mean, variance


def _mkl_chunk(normals: list[Floats], taus: Floats, n: int, k: int, panels: int) -> tuple[Floats, Floats]:
    """Mean and variance, (taus, normals), for normals in a column and a column of tau for each."""
    mu1, sigma1, mu2, sigma2 = normals
    x, weight = _quadrature(normals, n, k, panels)
    z1, z2 = (x - mu1) / sigma1, (x - mu2) / sigma2
    density1, density2 = normal_pdf(z1, sigma1), normal_pdf(z2, sigma2)
    below1, below2 = special.ndtr(z1), special.ndtr(z2)
    # moments about mu1 of either normal below x
    distance = mu2 - mu1
    first1 = -(sigma1**2) * density1
    first2 = distance * below2 - sigma2**2 * density2
    second1 = sigma1**2 * (below1 - (x - mu1) * density1)
    second2 = (sigma2**2 + distance**2) * below2 - sigma2**2 * (x - mu1 + distance) * density2
    density1 *= weight
    density2 *= weight
    log_scale = math.log(n / k) - special.betaln(k, n - k)
    shift, square = np.empty(taus.shape[:2]), np.empty(taus.shape[:2])
    for row, tau in enumerate(taus):
        below = below1 + tau * (below2 - below1)
        np.clip(below, 1e-300, 1 - 1e-16, out=below)
        # density of the (k+1)-th smallest over `below`, since a moment under the threshold is divided by it
        bump = np.exp(log_scale + (k - 1) * np.log(below) + (n - k - 1) * np.log1p(-below))
        bump *= density1 + tau * (density2 - density1)
        total = np.einsum("ij,ij->i", bump, below)  # 1 but for rounding and what is left out at the ends
        share = tau[:, 0]
        for moment, clean, noisy in ((shift, first1, first2), (square, second1, second2)):
            of_clean, of_noisy = (np.einsum("ij,ij->i", bump, values) for values in (clean, noisy))
            moment[row] = ((1 - share) * of_clean + share * of_noisy) / total
    return mu1[:, 0] + shift, square - shift**2


def _quadrature(normals: list[Floats], n: int, k: int, panels: int) -> tuple[Floats, Floats]:
    """Nodes and weights that resolve both normals wherever the (k+1)-th smallest of n may lie, for any tau."""
    mu1, sigma1, mu2, sigma2 = normals
    # a quantile of the mixture lies between those of the two normals
    low = special.ndtri(special.betaincinv(k + 1, n - k, 1e-15))
    high = -special.ndtri(special.betaincinv(n - k, k + 1, 1e-15))
    bottom = np.minimum(mu1 + sigma1 * low, mu2 + sigma2 * low)
    top = np.maximum(mu1 + sigma1 * high, mu2 + sigma2 * high)
    ends = np.concatenate([bottom, mu1 + sigma1 * _ENDS, mu2 + sigma2 * _ENDS, top], axis=1)
    ends = np.sort(np.clip(ends, bottom, top), axis=1)
    width = np.diff(ends)[:, :, None, None] / panels
    start = ends[:, :-1, None, None] + width * np.arange(panels)[:, None]
    x = start + width * _NODES
    return x.reshape(len(x), -1), np.broadcast_to(width * _WEIGHTS, x.shape).reshape(len(x), -1)
