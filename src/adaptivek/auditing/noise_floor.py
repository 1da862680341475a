"""The noise ratio: the share of labels that disagree with a network however confident it is.

A network that has never seen a row predicts its class, with some confidence. The more confident it is, the less often
it errs, while noisy labels do not depend on its confidence. So the share of rows whose label disagrees falls as the
confidence grows, down to a floor. This noise floor is the noise ratio tau:

    P(label disagrees) = (1 - e) tau + e u,   e = 1 / (1 + exp(a + b confidence))

Where the network errs, the label agrees with it only by chance: u is 1 - tau / (K - 1) if the noise goes to all classes
alike. But a network learns some errors from the noise, and more of them the more the noise goes one way. So this is
only an upper bound of u. It does not matter whether the network is overconfident or underconfident, since a, b and u
are fitted. But b is at least 0.1: errors that do not depend on the confidence could not be told from noise. The
interval holds the ratios under which the data is not much less likely than under the best one (the profile likelihood).

One class may have more noise than another. The network is then most confident in the rows of the clean class, whose
floor is not that of the others. So each predicted class gets a floor of its own if that raises the log likelihood by
three for each extra parameter. If it raises it only by one (Akaike's limit), the ratio is that of the single floor, and
the interval covers both.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BINS = 100  #: with equally many rows each, shared by the groups
FEWEST_BINS = 20  #: of a group
MOST_GROUPS, FEW_ROWS = 20, 100  #: classes with a floor of their own, at most; from fewer rows nothing can be fitted
PARAMETERS, GAIN = 4, 3  #: parameters of a floor; how much each must raise the log likelihood
RATIOS = np.linspace(0, 0.8, 161)
DROP = 1.92  #: of the log likelihood, at the ends of a 95 % interval
MODEL_ERROR = 0.005  #: added to the interval on both sides, for what the model leaves out
LEAST_SLOPE = 0.1  #: by which errors fall with confidence; a calibrated network has 1
ITERATIONS = 50
LITTLE = 1e-4  #: of the log likelihood, below which a step has gained nothing


class NoiseRatio(NamedTuple):
    """An estimate with its interval."""

    ratio: float
    low: float
    high: float


class Bins(NamedTuple):
    """Rows of similar confidence."""

    number: Floats
    disagreeing: Floats  #: how many have a label other than the predicted class
    confidence: Floats


def noise_floor(
    confidence: Floats, agrees: NDArray[np.bool_], predicted: NDArray[np.int64], classes: int
) -> NoiseRatio:
    """The noise ratio and its interval, from held-out predictions.

    Args:
        confidence: in the predicted class, as log odds.
        agrees: where the label is the predicted class.
        predicted: the predicted class of each row.
        classes: how many there are.
    """
    groups = _groups(predicted)
    parts = [_binned(confidence[rows], ~agrees[rows], max(FEWEST_BINS, BINS // len(groups))) for rows in groups]
    most = 1 - 1 / classes  # beyond, labels would say nothing
    ratios = RATIOS[most * 0.95 > RATIOS]
    likelihood = _likelihoods(ratios, Bins(*map(np.concatenate, zip(*parts, strict=True))), classes)
    shared = _widened(_interval(ratios, likelihood))
    if len(groups) == 1:
        return shared
    each = [_likelihoods(ratios, part, classes) for part in parts]
    gained = sum(float(of.max()) for of in each) - float(likelihood.max())
    extra = PARAMETERS * (len(groups) - 1)
    if gained <= extra:
        return shared
    separate = _widened(_mean([_interval(ratios, of) for of in each], [len(rows) / len(predicted) for rows in groups]))
    if gained <= GAIN * extra:
        return shared._replace(low=min(shared.low, separate.low), high=max(shared.high, separate.high))
    return separate


def _groups(predicted: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Rows by predicted class, those of small classes together."""
    counts = np.bincount(predicted)
    large = np.argsort(-counts, kind="stable")[:MOST_GROUPS]
    large = large[counts[large] >= FEW_ROWS]
    groups = [np.flatnonzero(predicted == group) for group in large]
    rest = np.flatnonzero(~np.isin(predicted, large))
    return [*groups, rest] if len(rest) else groups


def _interval(ratios: Floats, likelihood: Floats) -> NoiseRatio:
    """Its ends are where the likelihood has dropped, between two points of the grid."""
    above = likelihood - likelihood.max() + DROP
    near = np.flatnonzero(above > 0)

    def crossing(inside: int, outside: int) -> float:
        if not 0 <= outside < len(ratios):
            return float(ratios[inside])
        share = above[inside] / (above[inside] - above[outside])
        return float(ratios[inside] + share * (ratios[outside] - ratios[inside]))

    low, high = crossing(near[0], near[0] - 1), crossing(near[-1], near[-1] + 1)
    return NoiseRatio(_peak(ratios, likelihood), low, high)


def _mean(parts: list[NoiseRatio], shares: list[float]) -> NoiseRatio:
    """Of all rows, from that of each group; groups are independent, so their errors add up in squares."""
    ratio = sum(share * part.ratio for share, part in zip(shares, parts, strict=True))
    below, above = (
        math.sqrt(sum((share * (part.ratio - part[end])) ** 2 for share, part in zip(shares, parts, strict=True)))
        for end in (1, 2)
    )
    return NoiseRatio(ratio, ratio - below, ratio + above)


def _widened(found: NoiseRatio) -> NoiseRatio:
    return found._replace(low=max(0.0, found.low - MODEL_ERROR), high=min(1.0, found.high + MODEL_ERROR))


def _binned(confidence: Floats, disagrees: NDArray[np.bool_], bins: int) -> Bins:
    edges = np.quantile(confidence, np.linspace(0, 1, bins + 1)[1:-1])
    place = np.searchsorted(edges, confidence, side="right")
    number = np.bincount(place, minlength=bins).astype(np.float64)
    filled = number > 0
    counts, sums = (np.bincount(place, of, bins)[filled].astype(np.float64) for of in (disagrees, confidence))
    return Bins(number[filled], counts, sums / number[filled])


def _likelihoods(ratios: Floats, bins: Bins, classes: int) -> Floats:
    """The highest log likelihood under each noise ratio, over a, b and u."""
    bins = bins._replace(confidence=bins.confidence - bins.confidence.max())
    most = 1 - ratios / (classes - 1)
    start = np.stack([np.full(len(ratios), 3.0), np.full(len(ratios), 0.5), most], 1)
    lowest = np.stack([np.full(len(ratios), -np.inf), np.full(len(ratios), LEAST_SLOPE), np.minimum(ratios, most)], 1)
    highest = np.stack([np.full(len(ratios), np.inf)] * 2 + [most], 1)
    found, fitted = _fisher_scoring(start, ratios[:, None], bins, lowest, highest)
    # once more, all from where the best one ended: the others may have stopped in a lower maximum
    start = np.clip(fitted[found.argmax()], lowest, highest)
    again, _ = _fisher_scoring(start, ratios[:, None], bins, lowest, highest)
    return np.maximum(found, again)


def _fisher_scoring(
    fitted: Floats, ratio: Floats, bins: Bins, lowest: Floats, highest: Floats
) -> tuple[Floats, Floats]:
    """The log likelihood and (a, b, u) under each noise ratio, by damped Fisher scoring from ``fitted``.

    A ratio is left alone as soon as its likelihood hardly rises any more: most are after a few steps.
    """
    number, disagreeing, confidence = bins

    def at(fitted: Floats, ratio: Floats) -> tuple[Floats, Floats, Floats]:
        errors = 1 / (1 + np.exp(np.clip(fitted[:, :1] + fitted[:, 1:2] * confidence, -30, 30)))
        p = np.clip(ratio + (fitted[:, 2:] - ratio) * errors, 1e-9, 1 - 1e-9)
        return np.log(p) @ disagreeing + np.log(1 - p) @ (number - disagreeing), errors, p

    damping = np.ones(len(fitted))
    best, errors, p = at(fitted, ratio)
    found, ended = best.copy(), fitted.copy()
    left = np.arange(len(fitted))
    for _ in range(ITERATIONS):
        slope = (ratio - fitted[:, 2:]) * errors * (1 - errors)
        slopes = np.stack([slope, slope * confidence, errors], 1)  # of p by a, b and u
        score = ((disagreeing - number * p) / (p * (1 - p)))[:, None] * slopes
        information = (slopes * (number / (p * (1 - p)))[:, None]) @ slopes.transpose(0, 2, 1)
        damp = damping[:, None] * 0.01 * (1 + np.diagonal(information, axis1=1, axis2=2))
        step = np.linalg.solve(information + damp[:, :, None] * np.eye(3), score.sum(2)[:, :, None])[:, :, 0]
        tried = np.clip(fitted + step, lowest, highest)
        value, new_errors, new_p = at(tried, ratio)
        better = value > best
        done = np.where(better, value - best < LITTLE, damping > 1e6)
        best = np.where(better, value, best)
        fitted, errors, p = (
            np.where(better[:, None], new, old) for new, old in ((tried, fitted), (new_errors, errors), (new_p, p))
        )
        damping = np.where(better, damping / 3, damping * 5).clip(1e-4, 1e8)
        found[left], ended[left] = best, fitted
        if done.all():
            break
        left = left[~done]
        ratio, lowest, highest, damping, best, fitted, errors, p = (
            of[~done] for of in (ratio, lowest, highest, damping, best, fitted, errors, p)
        )
    return found, ended


def _peak(ratios: Floats, likelihood: Floats) -> float:
    """Between the grid's points, by a parabola through the highest one and its neighbours."""
    at = int(likelihood.argmax())
    if at in (0, len(ratios) - 1):
        return float(ratios[at])
    left, middle, right = likelihood[at - 1 : at + 2]
    bend = left - 2 * middle + right
    shift = 0.5 * (left - right) / bend if bend < 0 else 0.0
    return float(ratios[at] + np.clip(shift, -0.5, 0.5) * (ratios[1] - ratios[0]))
