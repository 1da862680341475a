"""The noise ratio where some labels are known to be clean: rows that are trusted, or that a person has decided on.

**Trusted rows** show how often the network errs, which labels that may be noisy cannot. Let e be the share of trusted
rows whose label it does not predict, and d the same of the others. Whatever the noise is like, it is at least |d - e|
and at most d + e. If it is c times as frequent where the network errs, which people and networks tend to do together,

    d = e + noise0 (1 - e - a c e)    and    noise = noise0 (1 - e + c e)

where a is how often a wrong prediction meets the noisy label: 1 with two classes, from 1 / (K - 1) to 1 with K; c is
taken as 1 to 1.5, or up to how much more often the network errs in one class than in all: all noise may be of that
class, and where much of a class is labelled as another, a network does err there. Then d is not below e. If it is, the
network has learned noise that follows the inputs, and no more is known than |d - e| and d + e. It takes trusted rows
that were not picked because a network was wrong on them.

**Decisions** are made on rows that look noisy, so they say nothing about e. But they show how far to trust the
scores: a logistic curve from the score of the label before to whether it was noisy. Curves of all slopes are tried, and
of all levels around the one whose mean over the rows is what the audit says itself; the decisions weigh them. The mean
over the rows that nobody has looked at is the noise that is left. But decided rows were picked: of two rows with the
same score a person has looked at the one that seemed noisier before, and noise that the network has learned looks clean
and is not looked at. So the lower end of the interval is halved, and the upper one doubled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..support.streams import stream
from .noise_floor import NoiseRatio
from .predictions import Codes, Predictions, label_probability

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

FEW_TRUSTED, FEW_DECISIONS = 30, 20  #: fewer say too little
MORE = 1.5  #: how much more frequent noise may be where the network errs
PRIOR = 10.0  #: rows' worth by which the errors of a class are drawn to those of all
PICKED = 2.0  #: by which the interval is wider on both sides, since decided rows were picked
DRAWS = 400  #: for the intervals
SLOPES = np.geomspace(0.5, 4, 10)  #: of the curve: scores may say too little or too much
OFFSETS = np.linspace(-8, 8, 129)  #: of its level from the one at which it says what the audit says
SPREAD = 2.0  #: of the offsets, before there are decisions
MOST_ROWS = 20_000  #: over which the mean of a curve is taken


FROM_TRUSTED = "The ratio compares the errors on trusted rows with the labels that disagree elsewhere."
FROM_DECISIONS = "The ratio is that of the labels as they are now, from what was decided on rows of similar scores."


class Known(NamedTuple):
    """What is known of the labels beforehand."""

    trusted: Mask  #: (n,) the label is clean
    before: Codes | None = None  #: (n,) the labels before a person decided on some of them
    decided: Mask | None = None  #: (n,) on which

    @property
    def tells(self) -> bool:
        """Whether there is enough of it to say how much is noisy."""
        decided = 0 if self.decided is None else self.decided.sum()
        return bool(self.drawn.sum() >= FEW_TRUSTED or decided >= FEW_DECISIONS)

    @property
    def drawn(self) -> Mask:
        """Trusted rows that were not picked by an audit."""
        return self.trusted if self.decided is None else self.trusted & ~self.decided


class Told(NamedTuple):
    """What is known says this of the noise."""

    ratio: NoiseRatio
    assumption: str  #: what it rests on
    warning: str = ""  #: empty if there is no reason for one


def ratio_from_known(
    held_out: Predictions, labels: Codes, known: Known, ratio: NoiseRatio, classes: int, seed: int = 0
) -> Told | None:
    """From trusted rows, then from decisions; None if there are too few of both."""
    told = ratio_from_trusted(held_out, labels, known, classes, seed)
    if known.before is None or known.decided is None or known.decided.sum() < FEW_DECISIONS:
        return told
    start = ratio if told is None else told.ratio
    before = 1 - label_probability(held_out, known.before)
    return Told(
        ratio_from_decisions(before, known, labels, start, seed), FROM_DECISIONS, "" if told is None else told.warning
    )


def ratio_from_trusted(held_out: Predictions, labels: Codes, known: Known, classes: int, seed: int = 0) -> Told | None:
    """Of all rows; None if too few are trusted."""
    drawn, others = known.drawn, ~known.trusted
    if drawn.sum() < FEW_TRUSTED or not others.any():
        return None
    wrong = held_out.predicted() != labels
    share, least = float(others.mean()), 1 / (classes - 1)
    e, d = float(wrong[drawn].mean()), float(wrong[others].mean())
    rng = stream(seed, "audit trusted")
    many_e, many_d = (rng.beta(wrong[rows].sum() + 0.5, (~wrong[rows]).sum() + 0.5, DRAWS) for rows in (drawn, others))
    if d <= e:
        low, high = np.quantile(many_e - many_d, 0.025), min(1.0, float(np.quantile(many_d + many_e, 0.975)))
        warning = (
            f"The network errs on {e:.1%} of the trusted rows, and disagrees with {d:.1%} of the other labels: it has "
            f"learned noise that follows the inputs. Of the noise ratio no more is known than its interval."
        )
        found = NoiseRatio(share * (e - d), share * max(0.0, float(low)), share * high)
        return Told(found, FROM_TRUSTED, warning if low > 0 else "")
    more = max(MORE, _hardest(wrong[drawn], labels[drawn], classes) / max(e, 1e-9))
    low = np.quantile(_noise(many_d, many_e, least, 1), 0.025)
    high = min(np.quantile(_noise(many_d, many_e, 1, more), 0.975), np.quantile(many_d + many_e, 0.975))
    middle = float(_noise(np.array(d), np.array(e), (least + 1) / 2, (1 + MORE) / 2))
    return Told(NoiseRatio(*(share * float(value) for value in (np.clip(middle, low, high), low, high))), FROM_TRUSTED)


def _hardest(wrong: Mask, labels: Codes, classes: int) -> float:
    """The share of errors in the class that has most of them, each drawn to that of all by some rows' worth."""
    found: Floats = (np.bincount(labels, wrong, classes) + PRIOR * wrong.mean()) / (
        np.bincount(labels, minlength=classes) + PRIOR
    )
    return float(found.max())


def _noise(d: Floats, e: Floats, meets: float, more: float) -> Floats:
    """The noise, if it is so much more frequent where the network errs; ``meets`` is a of the formula."""
    elsewhere = np.clip((d - e) / np.maximum(1 - e - meets * more * e, 0.05), 0, 1)
    return np.asarray(np.clip(elsewhere * (1 - e + more * e), 0, 1))


def ratio_from_decisions(
    noisy: NDArray[np.floating[Any]], known: Known, labels: Codes, ratio: NoiseRatio, seed: int = 0
) -> NoiseRatio:
    """The noise that is left, over all rows.

    Args:
        noisy: (n,) how likely the label before was noisy, by predictions that do not know the decision.
        known: the decisions.
        labels: the labels now.
        ratio: what the audit says without decisions.
        seed: of the interval.
    """
    if known.decided is None or known.before is None or known.decided.sum() < FEW_DECISIONS:
        return ratio
    open_rows, decided = ~known.trusted, known.decided
    if not open_rows.any():
        return NoiseRatio(0.0, 0.0, 0.0)
    p = np.clip(noisy.astype(np.float64), 1e-6, 1 - 1e-6)
    odds, rng = np.log(p / (1 - p)), stream(seed, "audit decisions")
    rest = odds[open_rows] if open_rows.sum() <= MOST_ROWS else rng.choice(odds[open_rows], MOST_ROWS, replace=False)
    was_noisy = (known.before != labels)[decided]
    before = max(ratio.ratio, ratio.high / 4, 1e-3)
    likelihood, left = [], []
    for slope in SLOPES:
        middle = _level(slope * rest, before)
        for off in OFFSETS:
            curve = _curve(slope * odds[decided] + middle + off)
            likely = np.log(np.where(was_noisy, curve, 1 - curve)).sum()
            likelihood.append(float(likely) - (off / SPREAD) ** 2 / 2)
            left.append(float(_curve(slope * rest + middle + off).mean()))
    weight = np.exp(np.array(likelihood) - max(likelihood))
    weight, found = weight / weight.sum(), open_rows.mean() * np.array(left)
    order = np.argsort(found)
    low, high = found[order][np.searchsorted(np.cumsum(weight[order]), [0.025, 0.975]).clip(max=len(order) - 1)]
    mean = float((weight * found).sum())
    return NoiseRatio(mean, float(min(low, mean)) / PICKED, min(1.0, PICKED * float(max(high, mean))))


def _curve(odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(odds, -30, 30))))


def _level(odds: Floats, ratio: float) -> float:
    """By how much odds are shifted so that their mean probability is this ratio."""
    low, high = -60.0, 60.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _curve(odds + middle).mean() < ratio else (low, middle)
    return (low + high) / 2
