"""The noise ratio: how often the label is another than what a network is sure of, however sure it is.

A network that has never seen a row names a class, and is more or less sure of it. The surer, the less often it errs;
wrong labels do not care how sure it is. So the share of rows whose label is another falls with sureness down to a
floor, and the floor is the noise ratio:

    P(other label) = (1 - e) tau + e u,   e = 1 / (1 + exp(a + b sureness))

Where the network errs, it is by chance that the label is what it names: u is 1 - tau / (K - 1) if the noise goes to all
classes alike. But a network errs the way that the noise has taught it, and the more so the more noise goes one way; so
that is the most that u may be. Whether the network is too sure of itself or not sure enough makes no difference, since
a, b and u are fitted. The interval holds the ratios under which the data is not much less likely than under the best
(the profile likelihood).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BINS = 100  #: of equally many rows
RATIOS = np.linspace(0, 0.8, 161)
DROP = 1.92  #: of the log likelihood, at the ends of a 95 % interval
MODEL_ERROR = 0.005  #: by which the interval is wider on both sides, for what the model leaves out
ROUNDS = 50


class Ratio(NamedTuple):
    ratio: float
    low: float
    high: float


def noise_floor(sureness: Floats, agrees: NDArray[np.bool_], classes: int) -> Ratio:
    """The noise ratio and its interval, from how sure the network is of its class, and whether the label is that."""
    number, others, mean = _binned(sureness, ~agrees)
    most = 1 - 1 / classes  # beyond, labels would say nothing
    ratios = RATIOS[most * 0.95 > RATIOS]
    likelihood = _likelihoods(ratios, number, others, mean - mean.max(), classes)
    near = ratios[likelihood > likelihood.max() - DROP]
    low, high = max(0.0, near.min() - MODEL_ERROR), min(1.0, near.max() + MODEL_ERROR)
    return Ratio(_peak(ratios, likelihood), float(low), float(high))


def _binned(sureness: Floats, others: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """Rows, those with another label, and the mean sureness in each bin."""
    edges = np.quantile(sureness, np.linspace(0, 1, BINS + 1)[1:-1])
    place = np.searchsorted(edges, sureness, side="right")
    number = np.bincount(place, minlength=BINS).astype(np.float64)
    some = number > 0
    counts, sums = (np.bincount(place, of, BINS)[some].astype(np.float64) for of in (others, sureness))
    return number[some], counts, sums / number[some]


def _likelihoods(ratios: Floats, number: Floats, others: Floats, sureness: Floats, classes: int) -> Floats:
    """The highest log likelihood under each noise ratio, over a, b (at least 0) and u."""
    most = 1 - ratios / (classes - 1)
    start = np.stack([np.full(len(ratios), 3.0), np.full(len(ratios), 0.5), most], 1)
    lowest = np.stack([np.full(len(ratios), -np.inf), np.zeros(len(ratios)), np.minimum(ratios, most)], 1)
    highest = np.stack([np.full(len(ratios), np.inf)] * 2 + [most], 1)
    found, climbed = _climb(start, ratios[:, None], number, others, sureness, lowest, highest)
    # once more, all from where the best has come to: the others may have stopped on a lower hill
    start = np.clip(climbed[found.argmax()], lowest, highest)
    again, _ = _climb(start, ratios[:, None], number, others, sureness, lowest, highest)
    return np.maximum(found, again)


def _climb(
    fitted: Floats, low: Floats, number: Floats, others: Floats, sureness: Floats, lowest: Floats, highest: Floats
) -> tuple[Floats, Floats]:
    """The log likelihood and (a, b, u) under each noise ratio, by damped scoring from there."""

    def at(fitted: Floats) -> tuple[Floats, Floats, Floats]:
        errs = 1 / (1 + np.exp(np.clip(fitted[:, :1] + fitted[:, 1:2] * sureness, -30, 30)))
        p = np.clip(low + (fitted[:, 2:] - low) * errs, 1e-9, 1 - 1e-9)
        return (others * np.log(p) + (number - others) * np.log(1 - p)).sum(1), errs, p

    damping = np.ones(len(fitted))
    best, errs, p = at(fitted)
    for _ in range(ROUNDS):
        slope = (low - fitted[:, 2:]) * errs * (1 - errs)
        slopes = np.stack([slope, slope * sureness, errs], 1)  # by a, b and u
        gain = ((others - number * p) / (p * (1 - p)))[:, None] * slopes
        weight = (slopes * (number / (p * (1 - p)))[:, None]) @ slopes.transpose(0, 2, 1)
        damp = damping[:, None] * 0.01 * (1 + np.diagonal(weight, axis1=1, axis2=2))
        step = np.linalg.solve(weight + damp[:, :, None] * np.eye(3), gain.sum(2)[:, :, None])[:, :, 0]
        tried = np.clip(fitted + step, lowest, highest)
        value, new_errs, new_p = at(tried)
        better = value > best
        gained = np.where(better, value - best, 0)
        best = np.where(better, value, best)
        fitted, errs, p = (
            np.where(better[:, None], new, old) for new, old in ((tried, fitted), (new_errs, errs), (new_p, p))
        )
        damping = np.where(better, damping / 3, damping * 5).clip(1e-4, 1e8)
        if gained.max() < 1e-4 and (better.any() or damping.min() > 1e6):
            break
    return best, fitted


def _peak(ratios: Floats, likelihood: Floats) -> float:
    """Between the grid's points, by a parabola through the highest one and its neighbours."""
    at = int(likelihood.argmax())
    if at in (0, len(ratios) - 1):
        return float(ratios[at])
    left, middle, right = likelihood[at - 1 : at + 2]
    bend = left - 2 * middle + right
    shift = 0.5 * (left - right) / bend if bend < 0 else 0.0
    return float(ratios[at] + np.clip(shift, -0.5, 0.5) * (ratios[1] - ratios[0]))
