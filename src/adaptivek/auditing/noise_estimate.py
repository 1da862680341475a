"""How much of the labels is noisy: what the data force, what they allow, and a number in between.

No data alone say how many labels are noisy: a label that the model contradicts is noise, or a hard row. So there are
three numbers, each with what it rests on.

**At least**: the lower end of the noise floor (`noise_floor`), the share of labels that disagree with held-out
predictions however confident these are, beyond the errors that their confidence explains. It takes for granted that
hard rows have no less noise than easy ones.

**At most**: the share of all labels that disagree with their held-out prediction. The prediction does not know the
label. So among rows that look alike it disagrees with at least as many labels as are noisy, however bad the model is,
as long as the true class is the most frequent label among them. People, and rules more so, err where the input
misleads, and a model is misled with them. So a part is added, and if a few words settle the labels, as rules do,
nothing is known from above (`rules`).

**Likely**: the floor, if noise does not depend on how hard a row is; or, where that is more, the share of labels that
are contradicted with at least the confidence that is usual in the class that is predicted instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .noise_floor import NoiseRatio, noise_floor
from .predictions import Codes, Predictions, label_probability

MISLED = 0.15  #: of the labels that disagree, so many more may be noisy where the model agrees
STANDARD_ERRORS = 2.0
WIDE = 0.2  #: an interval of the floor beyond which it is not reliable
FAR = 0.03  #: by which confident contradictions may exceed the floor's interval

FLOOR = "The ratio assumes that hard rows are mislabelled no more often than easy ones."
COUNTED = "Counted as noisy are labels contradicted with at least the confidence that is usual for the predicted class."


class NoiseEstimate(NamedTuple):
    """Over all rows."""

    ratio: NoiseRatio
    even: bool  #: the floor is clear, and explains the confident contradictions: noise does not depend on hardness
    assumption: str = FLOOR  #: what the ratio rests on


def estimate_noise(held_out: Predictions, labels: Codes, classes: int) -> NoiseEstimate:
    """From predictions by models that have not seen the row."""
    predicted = held_out.predicted()
    disagrees = predicted != labels
    floor = noise_floor(held_out.confidence(), ~disagrees, predicted, classes)
    share, rows = float(disagrees.mean()), len(labels)
    error = ((share + 1 / rows) * (1 - share) / rows) ** 0.5
    high = min(1.0, (1 + MISLED) * share + STANDARD_ERRORS * error)
    low = min(floor.low, high)
    contradicted = float(confident_contradictions(held_out, labels, classes).mean())
    even = floor.high - floor.low <= WIDE and contradicted <= floor.high + FAR
    ratio = NoiseRatio(min(max(floor.ratio, contradicted, low), high), low, high)
    return NoiseEstimate(ratio, even, FLOOR if floor.ratio >= contradicted else COUNTED)


def confident_contradictions(held_out: Predictions, labels: Codes, classes: int) -> NDArray[np.bool_]:
    """Where the label is not the predicted class, and this is as probable as usual among the rows labelled so."""
    counts = np.maximum(np.bincount(labels, minlength=classes), 1)
    usual = np.bincount(labels, label_probability(held_out, labels), classes) / counts
    predicted = held_out.predicted()
    found: NDArray[np.bool_] = (predicted != labels) & (held_out.p.max(1) >= usual[predicted])
    return found


def unbounded(found: NoiseEstimate, classes: int) -> NoiseEstimate:
    """The same with nothing known above: as much noise as would leave the labels without meaning."""
    return found._replace(ratio=found.ratio._replace(high=max(found.ratio.high, 1 - 1 / classes)))
