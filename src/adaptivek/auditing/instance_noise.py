"""The noise ratio under instance-dependent noise, where hard rows are mislabelled more often.

`noise_floor` assumes that noise does not depend on the confidence of the network. But people mislabel hard rows more
often. The share of labels that disagree then never levels off, and the floor takes noisy labels for errors of the
network, at times even among its most confident rows. A second network shows when this happens: the one that has trained
on the row, and on none of the rows that the first has seen. Networks share many of their errors. Where they err on a
share e of the rows of similar confidence, they were seen to differ on about e of them, and on e^2 at least (measured;
nothing proves it). So

    noise = (P(label disagrees) - e) / (1 - e)

where the share on which the networks differ is the likely e, and its square root the largest. Also e is at least the
network's own uncertainty, and harder rows have at least as much noise. If the likely noise is inside the interval of
the floor, or not far beyond it, the floor stands. Otherwise the noise may be as much as P(label disagrees), since a
network that errs meets the true label more often than a label with its own error. So the interval runs from the least
noise to P(label disagrees), and the ratio is the middle between the likely noise and P(label disagrees).

Where classes overlap, networks agree as well, and labels disagree with them without being noisy. But the most confident
rows are then hardly touched. So nothing is changed unless these rows have a third of P(label disagrees).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .noise_floor import Floats, NoiseRatio

BINS = 20  #: with equally many rows each
FAR = 0.03  #: by which the likely noise must be above the interval of the floor
PART = 1 / 3  #: of P(label disagrees) that the most confident rows must have, to tell noise from overlapping classes
STANDARD_ERRORS = 2.0  #: by which a share is taken lower than it was seen


def adjust_floor(
    floor: NoiseRatio,
    confidence: Floats,
    uncertainty: Floats,
    disagrees: NDArray[np.bool_],
    networks_differ: NDArray[np.bool_],
) -> NoiseRatio:
    """The floor, or a wider estimate if rows on which both networks agree contradict it.

    Args:
        floor: the estimate from the held-out predictions alone.
        confidence: in the predicted class, as log odds.
        uncertainty: 1 less the probability of the predicted class.
        disagrees: where the label is not the predicted class.
        networks_differ: where the second network predicts another class.
    """
    least, likely = (
        noise_by_confidence(confidence, uncertainty, disagrees, networks_differ, power) for power in (0.5, 1.0)
    )
    most = float(disagrees.mean())
    if likely.mean() <= floor.high + FAR or least[0] < PART * most:
        return floor
    low, middle = (min(most, float(noise.mean())) for noise in (least, likely))
    return NoiseRatio((middle + most) / 2, low, most)


def noise_by_confidence(
    confidence: Floats,
    uncertainty: Floats,
    disagrees: NDArray[np.bool_],
    networks_differ: NDArray[np.bool_],
    power: float,
) -> Floats:
    """The noise from the most to the least confident rows, if networks err as often as they differ, to this power."""
    bins = np.array_split(np.argsort(-confidence, kind="stable"), min(BINS, len(confidence)))
    number = np.array([len(rows) for rows in bins])
    disagreeing, differing, uncertain = (
        np.array([of[rows].mean() for rows in bins]) for of in (disagrees, networks_differ, uncertainty)
    )
    error = np.maximum(((differing * number + 1) / (number + 2)) ** power, uncertain).clip(max=0.99)
    seen = disagreeing - STANDARD_ERRORS * (disagreeing * (1 - disagreeing) / number) ** 0.5
    noise: Floats = np.maximum.accumulate(np.maximum(seen - error, 0) / (1 - error))
    return noise
