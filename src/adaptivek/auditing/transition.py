"""The transition matrix by which labels come from classes, and how likely each class is given prediction and label.

A network that has never seen a row says how likely each class is, p(k). The observed label comes from the true class
through a transition matrix: ``P(label) = sum_k p(k) T[k, label]``. EM finds the matrix that makes the labels most
likely. So a row that is hard to tell says nothing about noise, while an easy one with another label does.

The probabilities of a network are not calibrated. So p is taken to the power under which the matrix has as much noise
as the noise ratio says (see `noise_estimate`): too flat a p would explain all noise as uncertainty, too sharp a p all
uncertainty as noise. A network may also predict some classes too often. So there are three models of the noise:
symmetric noise, the same for all classes, with 1 parameter; the same with a weight for each class that corrects p, with
K parameters; and the full matrix, with K (K - 1). Schwarz's criterion (BIC) chooses, the full matrix only if it can
have as little noise as the ratio says.

Networks train on what follows (`label_posterior`). Rows are not ranked by it: where the ratio or the matrix is off, the
ranking would be worse than that by the probability of the label.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..support.streams import stream
from .predictions import Codes, Floats, Predictions

POWERS = (0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 1.25, 1.6, 2.0, 2.6, 3.3, 4.5, 6.0, 8.0, 11.0, 15.0)
LEAST = 1e-4  #: no class is less likely than this: a network may err
ITERATIONS = 60  #: of EM, at most
NEAR = 0.01  #: by which a matrix may have more noise than the ratio at the lowest power
PRIOR = 10.0  #: rows' worth by which each class is pulled towards symmetric noise
MOST_ROWS = 50_000  #: more would hardly change the matrix
CHUNK = 500_000


class NoiseModel(NamedTuple):
    """How observed labels come from predictions."""

    transition: Floats  #: (K, K) [true, observed], rows add up to 1
    power: float  #: to which predictions are taken
    symmetric: bool  #: the noise is the same for all classes
    class_weights: Floats  #: (K,) by which the probability of each class is multiplied


def fit(predictions: Predictions, labels: Codes, classes: int, ratio: float, seed: int = 0) -> NoiseModel:
    """The noise model that explains the labels with this noise ratio."""
    if len(labels) > MOST_ROWS:
        some = stream(seed, "audit sample").choice(len(labels), MOST_ROWS, replace=False)
        predictions, labels = predictions.of(some), labels[some]
    found = []
    for symmetric, weighted, parameters in (
        (True, False, 1),
        (True, True, classes),
        (False, False, classes * (classes - 1)),
    ):
        noise, likelihood, model = _fit_to_ratio(ratio, predictions, labels, classes, symmetric, weighted)
        if not symmetric and model.power == POWERS[0] and noise > ratio + NEAR:
            continue  # more noise than there is, though p is as flat as can be: it explains uncertainty, not noise
        found.append((likelihood * len(labels) - math.log(len(labels)) / 2 * parameters, model))
    return max(found, key=lambda pair: pair[0])[1]


def class_posterior(predictions: Predictions, labels: Codes, model: NoiseModel) -> tuple[Floats, Codes]:
    """How likely each class is under the observed label, and which classes these are: (n, k) both."""
    p, candidates = _to_power(predictions, labels, len(model.transition), model.power)
    joint = _joint(p, candidates, labels, model)
    return joint / joint.sum(1, keepdims=True), candidates


def fit_at_power(
    predictions: Predictions, labels: Codes, classes: int, power: float, symmetric: bool, weighted: bool = False
) -> tuple[float, float, NoiseModel]:
    """Noise ratio, mean log likelihood and noise model under this power."""
    p, candidates = _to_power(predictions, labels, classes, power)
    start = NoiseModel(_symmetric(classes, 0.1), power, symmetric, np.ones(classes))
    model, likelihood = _em(p, candidates, labels, start, weighted)
    clean = _label_share(_joint(p, candidates, labels, model), candidates, labels)
    return float(1 - clean.mean()), likelihood, model


def _fit_to_ratio(
    ratio: float, predictions: Predictions, labels: Codes, classes: int, symmetric: bool, weighted: bool
) -> tuple[float, float, NoiseModel]:
    """The fit under the power that comes nearest to this ratio; a sharper p gives more noise, so by bisection."""
    low, high, found = 0, len(POWERS), []
    while low < high:
        middle = (low + high) // 2
        found.append(fit_at_power(predictions, labels, classes, POWERS[middle], symmetric, weighted))
        low, high = (low, middle) if found[-1][0] > ratio else (middle + 1, high)
    return min(found, key=lambda one: abs(one[0] - ratio))


def _symmetric(classes: int, noise: float) -> Floats:
    """The matrix of noise that is the same for all classes."""
    transition: Floats = np.full((classes, classes), noise / max(1, classes - 1))
    np.fill_diagonal(transition, 1 - noise)
    return transition


def _to_power(predictions: Predictions, labels: Codes, classes: int, power: float) -> tuple[Floats, Codes]:
    """Probabilities to a power, and the classes they are of; the label is always among them."""
    candidates = predictions.classes
    p = np.maximum(predictions.p, LEAST).astype(np.float64) ** power
    if candidates is None:
        candidates = np.broadcast_to(np.arange(classes), p.shape)
    else:
        # one column more: the label, where it is not among the most likely classes
        missing = ~((candidates == labels[:, None]) & (predictions.p > 0)).any(1)
        p = np.concatenate([p * (predictions.p > 0), (missing * LEAST**power)[:, None]], 1)
        candidates = np.concatenate([candidates, labels[:, None]], 1)
    return p / p.sum(1, keepdims=True), candidates


def _em(p: Floats, candidates: Codes, labels: Codes, model: NoiseModel, weighted: bool) -> tuple[NoiseModel, float]:
    """The matrix, and the class weights, that make the labels most likely; the mean log likelihood."""
    classes = len(model.transition)
    pairs = (candidates * classes + labels[:, None]).ravel()
    before = -np.inf
    for _ in range(ITERATIONS):
        corrected = _corrected(p, candidates, model)
        joint = corrected * model.transition.ravel()[pairs].reshape(p.shape)
        total = joint.sum(1)
        counts: Floats = np.bincount(pairs, (joint / total[:, None]).ravel(), classes**2).astype(np.float64)
        counts = counts.reshape(classes, classes)
        if weighted:  # how often each class is found, over how often it is predicted
            predicted = np.bincount(candidates.ravel(), corrected.ravel(), classes)
            model = model._replace(class_weights=model.class_weights * (counts.sum(1) + 1) / (predicted + 1))
        same = _symmetric(classes, 1 - counts.trace() / counts.sum())
        counts = same if model.symmetric else counts + PRIOR * same
        model = model._replace(transition=counts / counts.sum(1, keepdims=True))
        likelihood = float(np.log(total).mean())
        if likelihood - before < 1e-5:
            break
        before = likelihood
    return model, likelihood


def _corrected(p: Floats, candidates: Codes, model: NoiseModel) -> Floats:
    """Probabilities with the class weights."""
    if (model.class_weights == 1).all():
        return p
    weighted = p * model.class_weights[candidates]
    weighted /= weighted.sum(1, keepdims=True)
    return weighted


def _joint(p: Floats, candidates: Codes, labels: Codes, model: NoiseModel) -> Floats:
    """How likely each class and this label are together."""
    joint: Floats = _corrected(p, candidates, model) * model.transition[candidates, labels[:, None]]
    return joint


def _label_share(joint: Floats, candidates: Codes, labels: Codes) -> Floats:
    share: Floats = (joint * (candidates == labels[:, None])).sum(1) / joint.sum(1)
    return share
