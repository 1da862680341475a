"""From predictions to numbers: which classes are confused, how much, and how likely each label is right.

A network that has never seen a row says how likely each class is, p(k). The label that the row was given comes from its
true class through a transition matrix: ``P(label) = sum_k p(k) T[k, label]``. The matrix that makes the labels most
likely is found by EM, together with one temperature for p, since networks are too sure or not sure enough of themselves.
A row that is hard to tell thus says nothing about noise; a row that is easy and labelled otherwise does.

Noise that is the same for all classes needs one number, the full matrix K (K - 1). The full one is taken if it explains
the labels so much better that it pays for its numbers (Schwarz's criterion): else the network's own confusions of
classes that look alike would pass for noise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

TEMPERATURES = (0.5, 0.65, 0.8, 1.0, 1.25, 1.6, 2.0, 2.6, 3.3)
FLOOR = 1e-4  #: no class is less likely than this: a network may be wrong
ROUNDS = 80  #: of EM, at most
PULL = 10.0  #: rows' worth by which a class is pulled towards noise that is the same for all classes
MOST_ROWS = 100_000  #: more say nothing new about the matrix
CHUNK = 500_000


class Slots(NamedTuple):
    """Predictions of rows: some classes each, and their probabilities."""

    p: Floats  #: (n, slots)
    classes: Codes | None  #: (n, slots); None: slot k is class k

    def of(self, rows: NDArray[np.int64] | slice) -> Slots:
        return Slots(self.p[rows], None if self.classes is None else self.classes[rows])


class Fit(NamedTuple):
    transition: Floats  #: (K, K) [true, given], rows add up to 1
    temperature: float
    even: bool  #: the noise is the same for all classes


class Posterior(NamedTuple):
    right: Floats  #: (n,) the chance that the label is right
    best_other: Codes  #: (n,) the most likely class but for the label


def fit(slots: Slots, labels: Codes, classes: int, seed: int = 0) -> Fit:
    """The transition matrix and the temperature under which the labels are most likely."""
    if len(labels) > MOST_ROWS:
        some = np.random.default_rng(seed).choice(len(labels), MOST_ROWS, replace=False)
        slots, labels = slots.of(some), labels[some]
    found: list[tuple[float, Fit]] = []
    for even in (True, False):
        transition, price = _even(classes, 0.1), math.log(len(labels)) / 2 * (1 if even else classes * (classes - 1))
        for temperature in TEMPERATURES:
            p, named = _tempered(slots, labels, classes, temperature)
            transition, likelihood = _em(p, named, labels, transition, even)
            found.append((likelihood * len(labels) - price, Fit(transition, temperature, even)))
    return max(found, key=lambda pair: pair[0])[1]


def refit(slots: Slots, labels: Codes, start: Fit, weight: Floats) -> float:
    """The noise ratio when rows count ``weight`` times, from a fit nearby."""
    p, named = _tempered(slots, labels, len(start.transition), start.temperature)
    transition, _ = _em(p, named, labels, start.transition, start.even, weight, rounds=15)
    wrong = 1 - _label_share(p * transition[named, labels[:, None]], named, labels)
    return float((wrong * weight).sum() / weight.sum())


def posterior(slots: Slots, labels: Codes, fitted: Fit) -> Posterior:
    """How likely each label is right, and what it is if it is not."""
    right, other = np.empty(len(labels), np.float32), np.empty(len(labels), np.int64)
    for start in range(0, len(labels), CHUNK):
        part = slice(start, start + CHUNK)
        given = labels[part]
        p, named = _tempered(slots.of(part), given, len(fitted.transition), fitted.temperature)
        joint = p * fitted.transition[named, given[:, None]]
        right[part] = _label_share(joint, named, given)
        # by the prediction where the matrix knows of no way from there to this label
        joint = np.where(named == given[:, None], -1.0, joint + 1e-9 * p)
        other[part] = np.take_along_axis(named, joint.argmax(1)[:, None], 1)[:, 0]
    return Posterior(right, other)


def _even(classes: int, noise: float) -> Floats:
    """Noise that is the same for all classes."""
    transition: Floats = np.full((classes, classes), noise / max(1, classes - 1))
    np.fill_diagonal(transition, 1 - noise)
    return transition


def _tempered(slots: Slots, labels: Codes, classes: int, temperature: float) -> tuple[Floats, Codes]:
    """Probabilities to the power of the temperature, and the classes they are of; the label's is always there."""
    p, named = slots
    p = np.maximum(p, FLOOR) ** temperature
    if named is None:
        named = np.broadcast_to(np.arange(classes), p.shape)
    else:
        # a slot beyond: the label, where it is not among the most likely ones
        missing = ~((named == labels[:, None]) & (slots.p > 0)).any(1)
        p = np.concatenate([p * (slots.p > 0), (missing * FLOOR**temperature)[:, None]], 1)
        named = np.concatenate([named, labels[:, None]], 1)
    return p / p.sum(1, keepdims=True), named


def _em(
    p: Floats,
    named: Codes,
    labels: Codes,
    transition: Floats,
    even: bool,
    weight: Floats | None = None,
    rounds: int = ROUNDS,
) -> tuple[Floats, float]:
    """The matrix that makes the labels most likely, and the mean log likelihood under it."""
    classes = len(transition)
    pairs = (named * classes + labels[:, None]).ravel()
    weight = np.ones(len(labels)) if weight is None else weight
    before = -np.inf
    for _ in range(rounds):
        joint = p * transition[named, labels[:, None]]
        total = joint.sum(1)
        counts = np.bincount(pairs, (joint * (weight / total)[:, None]).ravel(), classes**2).reshape(classes, classes)
        same = _even(classes, 1 - counts.trace() / counts.sum())
        counts = same if even else counts + PULL * same
        transition = counts / counts.sum(1, keepdims=True)
        likelihood = float((np.log(total) * weight).sum() / weight.sum())
        if likelihood - before < 1e-6:
            break
        before = likelihood
    return transition, likelihood


def _label_share(joint: Floats, named: Codes, labels: Codes) -> Floats:
    share: Floats = (joint * (named == labels[:, None])).sum(1) / joint.sum(1)
    return share
