"""The noise ratio: how often the label is another than what a network is sure of, however sure it is.

A network that has never seen a row names a class, and is more or less sure of it. The surer, the less often it errs;
wrong labels do not care how sure it is. So the share of rows whose label is another falls with sureness down to a
floor, and the floor is the noise ratio:

    P(other label) = (1 - e) tau + e u,   e = 1 / (1 + exp(a + b sureness))

Where the network errs, it is by chance that the label is what it names: u is 1 - tau / (K - 1) if the noise goes to all
classes alike. But a network errs the way that the noise has taught it, and the more so the more noise goes one way; so
that is the most that u may be. Whether the network is too sure of itself or not sure enough makes no difference, since
a, b and u are fitted; but b is at least 0.1, since errors that do not care how sure the network is would be noise by
another name. The interval holds the ratios under which the data is not much less likely than under the best
(the profile likelihood).

The noise of one class may be more than that of another, and then the network is surest of the rows of the clean one,
which are not the floor of the others. So each class that the network names gets a floor of its own if that raises the
log likelihood by three for each number more that is fitted; if only by one, which is Akaike's limit, the ratio is that
of one floor, and the interval holds both.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BINS = 100  #: of equally many rows, shared by the groups
FEWEST_BINS = 20  #: of a group
MOST_GROUPS, FEW_ROWS = 20, 100  #: classes with a floor of their own, at most; of fewer rows it would say nothing
NUMBERS, PAYS = 4, 3  #: that are fitted for a floor; what each must raise the log likelihood by
RATIOS = np.linspace(0, 0.8, 161)
DROP = 1.92  #: of the log likelihood, at the ends of a 95 % interval
MODEL_ERROR = 0.005  #: by which the interval is wider on both sides, for what the model leaves out
SLOPE = 0.1  #: by which errors fall with sureness, at least; a network that knows how sure it is has 1
ROUNDS = 50


class Ratio(NamedTuple):
    ratio: float
    low: float
    high: float


class Bins(NamedTuple):
    """Rows of like sureness."""

    number: Floats
    others: Floats  #: how many have another label
    sureness: Floats


def noise_floor(sureness: Floats, agrees: NDArray[np.bool_], named: NDArray[np.int64], classes: int) -> Ratio:
    """The noise ratio and its interval, from how sure the network is of what it names, and where the label is that."""
    groups = _groups(named)
    parts = [_binned(sureness[rows], ~agrees[rows], max(FEWEST_BINS, BINS // len(groups))) for rows in groups]
    most = 1 - 1 / classes  # beyond, labels would say nothing
    ratios = RATIOS[most * 0.95 > RATIOS]
    likelihood = _likelihoods(ratios, Bins(*map(np.concatenate, zip(*parts, strict=True))), classes)
    one = _wider(_interval(ratios, likelihood))
    if len(groups) == 1:
        return one
    each = [_likelihoods(ratios, part, classes) for part in parts]
    gained = sum(float(of.max()) for of in each) - float(likelihood.max())
    more = NUMBERS * (len(groups) - 1)
    if gained <= more:
        return one
    own = _wider(_mean([_interval(ratios, of) for of in each], [len(rows) / len(named) for rows in groups]))
    if gained <= PAYS * more:
        return one._replace(low=min(one.low, own.low), high=max(one.high, own.high))
    return own


def _groups(named: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Rows by the class that is named, those of small classes together."""
    counts = np.bincount(named)
    large = np.argsort(-counts, kind="stable")[:MOST_GROUPS]
    large = large[counts[large] >= FEW_ROWS]
    groups = [np.flatnonzero(named == group) for group in large]
    rest = np.flatnonzero(~np.isin(named, large))
    return [*groups, rest] if len(rest) else groups


def _interval(ratios: Floats, likelihood: Floats) -> Ratio:
    near = ratios[likelihood > likelihood.max() - DROP]
    return Ratio(_peak(ratios, likelihood), float(near.min()), float(near.max()))


def _mean(parts: list[Ratio], shares: list[float]) -> Ratio:
    """Of all rows, from that of each group; groups are independent, so their errors add up in squares."""
    ratio = sum(share * part.ratio for share, part in zip(shares, parts, strict=True))
    below, above = (
        math.sqrt(sum((share * (part.ratio - part[end])) ** 2 for share, part in zip(shares, parts, strict=True)))
        for end in (1, 2)
    )
    return Ratio(ratio, ratio - below, ratio + above)


def _wider(found: Ratio) -> Ratio:
    return found._replace(low=max(0.0, found.low - MODEL_ERROR), high=min(1.0, found.high + MODEL_ERROR))


def _binned(sureness: Floats, others: NDArray[np.bool_], bins: int) -> Bins:
    edges = np.quantile(sureness, np.linspace(0, 1, bins + 1)[1:-1])
    place = np.searchsorted(edges, sureness, side="right")
    number = np.bincount(place, minlength=bins).astype(np.float64)
    some = number > 0
    counts, sums = (np.bincount(place, of, bins)[some].astype(np.float64) for of in (others, sureness))
    return Bins(number[some], counts, sums / number[some])


def _likelihoods(ratios: Floats, bins: Bins, classes: int) -> Floats:
    """The highest log likelihood under each noise ratio, over a, b and u."""
    bins = bins._replace(sureness=bins.sureness - bins.sureness.max())
    most = 1 - ratios / (classes - 1)
    start = np.stack([np.full(len(ratios), 3.0), np.full(len(ratios), 0.5), most], 1)
    lowest = np.stack([np.full(len(ratios), -np.inf), np.full(len(ratios), SLOPE), np.minimum(ratios, most)], 1)
    highest = np.stack([np.full(len(ratios), np.inf)] * 2 + [most], 1)
    found, climbed = _climb(start, ratios[:, None], bins, lowest, highest)
    # once more, all from where the best has come to: the others may have stopped on a lower hill
    start = np.clip(climbed[found.argmax()], lowest, highest)
    again, _ = _climb(start, ratios[:, None], bins, lowest, highest)
    return np.maximum(found, again)


def _climb(fitted: Floats, low: Floats, bins: Bins, lowest: Floats, highest: Floats) -> tuple[Floats, Floats]:
    """The log likelihood and (a, b, u) under each noise ratio, by damped scoring from there."""
    number, others, sureness = bins

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
