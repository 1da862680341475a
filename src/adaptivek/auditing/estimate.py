"""Which classes are confused, and how likely each label is right.

A network that has never seen a row says how likely each class is, p(k). The label that the row was given comes from its
true class through a transition matrix: ``P(label) = sum_k p(k) T[k, label]``. The matrix that makes the labels most
likely is found by EM. A row that is hard to tell thus says nothing about noise; an easy one labelled otherwise does.

How sure networks are of themselves is no probability yet. p is taken to the power under which the matrix has as much
noise as the noise ratio says (see `floor`): too flat a p would explain all noise as doubt, too sharp a one all doubt as
noise. A network may also name some classes too often. So there are three ways to explain the labels: noise that is the
same for all classes, one number; the same with a weight for each class by which p is made fair, K numbers; the full
matrix, K (K - 1). That which pays best for its numbers is taken (Schwarz's criterion), the matrix only if it can have
as little noise as the ratio says.

The ratio may be wrong, and rows are to be ranked well all the same: see `for_ranking`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..support.streams import stream

Floats = NDArray[np.floating[Any]]
Codes = NDArray[np.int64]

POWERS = (0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 1.25, 1.6, 2.0, 2.6, 3.3, 4.5, 6.0, 8.0, 11.0, 15.0)
FLOOR = 1e-4  #: no class is less likely than this: a network may be wrong
ROUNDS = 60  #: of EM, at most
NEAR = 0.01  #: by which a matrix may have more noise than the ratio at the lowest power
ANY = 0.01  #: of the labels may be anything, when rows are ranked
PULL = 10.0  #: rows' worth by which a class is pulled towards noise that is the same for all classes
MOST_ROWS = 50_000  #: more say nothing new about the matrix
CHUNK = 500_000


class Slots(NamedTuple):
    """Predictions of rows: some classes each, and their probabilities."""

    p: Floats  #: (n, slots)
    classes: Codes | None  #: (n, slots); None: slot k is class k

    def of(self, rows: NDArray[np.int64] | slice) -> Slots:
        return Slots(self.p[rows], None if self.classes is None else self.classes[rows])

    def named(self) -> Codes:
        """The most likely class of each row."""
        place: Codes = self.p.argmax(1)
        return place if self.classes is None else np.take_along_axis(self.classes, place[:, None], 1)[:, 0]

    def sureness(self) -> NDArray[np.float64]:
        """Of the most likely class: its log odds."""
        p = np.clip(self.p.max(1).astype(np.float64), 1e-4, 1 - 1e-4)
        odds: NDArray[np.float64] = np.log(p / (1 - p))
        return odds

    def doubt(self) -> NDArray[np.float64]:
        """Of the most likely class: the chance that it is another."""
        doubt: NDArray[np.float64] = 1 - self.p.max(1).astype(np.float64)
        return doubt


class Fit(NamedTuple):
    transition: Floats  #: (K, K) [true, given], rows add up to 1
    power: float
    even: bool  #: the noise is the same for all classes
    fair: Floats  #: (K,) by what each class of p is multiplied


class Posterior(NamedTuple):
    right: Floats  #: (n,) the chance that the label is right
    best_other: Codes  #: (n,) the most likely class but for the label


def fit(slots: Slots, labels: Codes, classes: int, ratio: float, seed: int = 0) -> Fit:
    """The transition matrix that explains the labels with this noise ratio."""
    if len(labels) > MOST_ROWS:
        some = stream(seed, "audit sample").choice(len(labels), MOST_ROWS, replace=False)
        slots, labels = slots.of(some), labels[some]
    found = []
    for even, weighed, numbers in ((True, False, 1), (True, True, classes), (False, False, classes * (classes - 1))):
        noise, likelihood, fitted = _with_noise(ratio, slots, labels, classes, even, weighed)
        if not even and fitted.power == POWERS[0] and noise > ratio + NEAR:
            continue  # more noise than there is, though p is as flat as can be: it explains doubt, not noise
        found.append((likelihood * len(labels) - math.log(len(labels)) / 2 * numbers, fitted))
    return max(found, key=lambda pair: pair[0])[1]


def for_ranking(fitted: Fit, hard: bool = False) -> Fit:
    """The same with p no flatter than the network says, and no way from class to class ruled out.

    A ratio that is too low flattens p and empties the matrix, and all labels look right. So the order of the rows does
    not hang on the ratio: without noise, or where hard rows are mislabelled more often (``hard``), of which the matrix
    knows nothing, it is that of the probability of the label.
    """
    classes = len(fitted.transition)
    if hard:
        fitted = Fit(np.eye(classes), 1.0, True, np.ones(classes))
    return fitted._replace(power=max(1.0, fitted.power), transition=(1 - ANY) * fitted.transition + ANY / classes)


def _with_noise(
    ratio: float, slots: Slots, labels: Codes, classes: int, even: bool, weighed: bool
) -> tuple[float, float, Fit]:
    """The fit under the power that comes nearest to this noise; the sharper p, the more there is, so by halving."""
    low, high, found = 0, len(POWERS), []
    while low < high:
        middle = (low + high) // 2
        found.append(_fit(slots, labels, classes, POWERS[middle], even, weighed))
        low, high = (low, middle) if found[-1][0] > ratio else (middle + 1, high)
    return min(found, key=lambda one: abs(one[0] - ratio))


def _fit(
    slots: Slots, labels: Codes, classes: int, power: float, even: bool, weighed: bool = False
) -> tuple[float, float, Fit]:
    """Noise, mean log likelihood and matrix under this power."""
    p, named = _to_power(slots, labels, classes, power)
    fitted, likelihood = _em(p, named, labels, Fit(_even(classes, 0.1), power, even, np.ones(classes)), weighed)
    right = _label_share(_joint(p, named, labels, fitted), named, labels)
    return float(1 - right.mean()), likelihood, fitted


def posterior(slots: Slots, labels: Codes, fitted: Fit) -> Posterior:
    """How likely each label is right, and what it is if it is not."""
    right, other = np.empty(len(labels), np.float32), np.empty(len(labels), np.int64)
    for start in range(0, len(labels), CHUNK):
        part = slice(start, start + CHUNK)
        given = labels[part]
        p, named = _to_power(slots.of(part), given, len(fitted.transition), fitted.power)
        joint = _joint(p, named, given, fitted)
        right[part] = _label_share(joint, named, given)
        # by the prediction where the matrix knows of no way from there to this label
        joint = np.where(named == given[:, None], -1.0, joint + 1e-9 * p)
        other[part] = np.take_along_axis(named, joint.argmax(1)[:, None], 1)[:, 0]
    return Posterior(right, other)


def shares(slots: Slots, labels: Codes, fitted: Fit) -> tuple[Floats, Codes]:
    """How likely each class is under the label, and the classes that these are of."""
    p, named = _to_power(slots, labels, len(fitted.transition), fitted.power)
    joint = _joint(p, named, labels, fitted)
    return joint / joint.sum(1, keepdims=True), named


def _even(classes: int, noise: float) -> Floats:
    """Noise that is the same for all classes."""
    transition: Floats = np.full((classes, classes), noise / max(1, classes - 1))
    np.fill_diagonal(transition, 1 - noise)
    return transition


def _to_power(slots: Slots, labels: Codes, classes: int, power: float) -> tuple[Floats, Codes]:
    """Probabilities to a power, and the classes they are of; the label's is always there."""
    named = slots.classes
    p = np.maximum(slots.p, FLOOR).astype(np.float64) ** power
    if named is None:
        named = np.broadcast_to(np.arange(classes), p.shape)
    else:
        # a slot beyond: the label, where it is not among the most likely ones
        missing = ~((named == labels[:, None]) & (slots.p > 0)).any(1)
        p = np.concatenate([p * (slots.p > 0), (missing * FLOOR**power)[:, None]], 1)
        named = np.concatenate([named, labels[:, None]], 1)
    return p / p.sum(1, keepdims=True), named


def _em(p: Floats, named: Codes, labels: Codes, fitted: Fit, weighed: bool) -> tuple[Fit, float]:
    """The matrix, and the weights of the classes, that make the labels most likely; the mean log likelihood."""
    classes = len(fitted.transition)
    pairs = (named * classes + labels[:, None]).ravel()
    before = -np.inf
    for _ in range(ROUNDS):
        fair = _fair(p, named, fitted)
        joint = fair * fitted.transition.ravel()[pairs].reshape(p.shape)
        total = joint.sum(1)
        counts: Floats = np.bincount(pairs, (joint / total[:, None]).ravel(), classes**2).astype(np.float64)
        counts = counts.reshape(classes, classes)
        if weighed:  # how often each class is found, over how often it is named
            named_so = np.bincount(named.ravel(), fair.ravel(), classes)
            fitted = fitted._replace(fair=fitted.fair * (counts.sum(1) + 1) / (named_so + 1))
        same = _even(classes, 1 - counts.trace() / counts.sum())
        counts = same if fitted.even else counts + PULL * same
        fitted = fitted._replace(transition=counts / counts.sum(1, keepdims=True))
        likelihood = float(np.log(total).mean())
        if likelihood - before < 1e-5:
            break
        before = likelihood
    return fitted, likelihood


def _fair(p: Floats, named: Codes, fitted: Fit) -> Floats:
    if (fitted.fair == 1).all():
        return p
    weighed = p * fitted.fair[named]
    weighed /= weighed.sum(1, keepdims=True)
    return weighed


def _joint(p: Floats, named: Codes, labels: Codes, fitted: Fit) -> Floats:
    """How likely each class and this label are together."""
    joint: Floats = _fair(p, named, fitted) * fitted.transition[named, labels[:, None]]
    return joint


def _label_share(joint: Floats, named: Codes, labels: Codes) -> Floats:
    share: Floats = (joint * (named == labels[:, None])).sum(1) / joint.sum(1)
    return share
