"""The noise ratio where some labels are known to be clean: rows that are trusted, or that a person has decided on.

**Trusted rows** show how often the network errs, which labels that may be noisy cannot. Let e be the share of trusted
rows whose label it does not predict, and d the same of the others. Whatever the noise is like, it is at least |d - e|
and at most d + e. If it is c times as frequent where the network errs, which people and networks tend to do together,

    d = e + noise0 (1 - e - a c e)    and    noise = noise0 (1 - e + c e)

where a is how often a wrong prediction meets the noisy label: 1 with two classes, from 1 / (K - 1) to 1 with K; c is
taken as 1 to 1.5. Then d is not below e. If it is, the network has learned noise that follows the inputs, and no more
is known than |d - e| and d + e. It takes trusted rows that were not picked because a network was wrong on them.

**Decisions** are made on rows that look noisy, so they say nothing about e. But they show how far to trust the
scores: a logistic curve from the score of the label before to whether it was noisy, which starts at what the audit says
itself and is moved by the decisions. Its mean over the rows that nobody has looked at is the noise that is left, rather
more than less, since of two rows with the same score a person has looked at the one that seemed noisier before. So the
lower end of the interval is halved.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..support.streams import stream
from .noise_floor import NoiseRatio
from .predictions import Codes, Predictions

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

FEW_TRUSTED, FEW_DECISIONS = 30, 20  #: fewer say too little
MORE = 1.5  #: how much more frequent noise may be where the network errs
PICKED = 0.5  #: by which the lower end is taken, since decided rows were picked
DRAWS = 400  #: for the intervals
SPREAD = np.array([2.0, 0.5])  #: of level and slope, before there are decisions


class Known(NamedTuple):
    """What is known of the labels beforehand."""

    trusted: Mask  #: (n,) the label is clean
    before: Codes | None = None  #: (n,) the labels before a person decided on some of them
    decided: Mask | None = None  #: (n,) on which

    @property
    def drawn(self) -> Mask:
        """Trusted rows that were not picked by an audit."""
        return self.trusted if self.decided is None else self.trusted & ~self.decided


class FromTrusted(NamedTuple):
    ratio: NoiseRatio
    warning: str  #: empty if there is no reason for one


def ratio_from_trusted(
    held_out: Predictions, labels: Codes, known: Known, classes: int, seed: int = 0
) -> FromTrusted | None:
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
        return FromTrusted(found, warning if low > 0 else "")
    low, high = (
        np.quantile(_noise(many_d, many_e, least, 1), 0.025),
        np.quantile(_noise(many_d, many_e, 1, MORE), 0.975),
    )
    middle = float(_noise(np.array(d), np.array(e), (least + 1) / 2, (1 + MORE) / 2))
    return FromTrusted(NoiseRatio(*(share * float(value) for value in (np.clip(middle, low, high), low, high))), "")


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
    p = np.clip(noisy.astype(np.float64), 1e-4, 1 - 1e-4)
    odds = np.log(p / (1 - p))
    open_rows = ~known.trusted
    if not open_rows.any():
        return NoiseRatio(0.0, 0.0, 0.0)
    level = _level(odds[open_rows], ratio.ratio * len(labels) / open_rows.sum())
    was_noisy = (known.before != labels)[known.decided].astype(np.float64)
    centre, covariance = _logistic(odds[known.decided], was_noisy, np.array([level, 1.0]))
    draws = stream(seed, "audit decisions").multivariate_normal(centre, covariance, DRAWS)
    left = np.array([_curve(odds[open_rows], draw).sum() for draw in draws]) / len(labels)
    low, high = np.quantile(left, [0.025, 0.975])
    found = _curve(odds[open_rows], centre).sum() / len(labels)
    return NoiseRatio(float(found), float(min(low, found)) * PICKED, float(max(high, found)))


def _curve(odds: Floats, line: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(line[0] + line[1] * odds, -30, 30))))


def _level(odds: Floats, ratio: float) -> float:
    """The level of a curve of slope 1 whose mean is this ratio."""
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _curve(odds, np.array([middle, 1.0])).mean() < ratio else (low, middle)
    return float(np.clip((low + high) / 2, -8, 8))


def _logistic(odds: Floats, outcome: Floats, start: Floats) -> tuple[Floats, Floats]:
    """Level and slope that are most likely, given a normal prior around the start; and their covariance."""
    x = np.stack([np.ones(len(odds)), odds], 1)
    line, precision = start.copy(), np.diag(1 / SPREAD**2)
    for _ in range(50):
        p = _curve(odds, line)
        gradient = x.T @ (outcome - p) - precision @ (line - start)
        bend = (x * (p * (1 - p))[:, None]).T @ x + precision
        move = np.linalg.solve(bend, gradient)
        line = line + move / max(1.0, float(np.abs(move).max()))
        if np.abs(move).max() < 1e-8:
            break
    return line, np.asarray(np.linalg.inv(bend), dtype=np.float64)
