"""The noise ratio where hard rows are mislabelled more often: what is left to say when the floor is not one.

`floor` takes it that wrong labels do not care how sure the network is. But people mislabel hard rows more often. The
share of other labels then never levels off, and the floor takes wrong labels for errors of the network, at times even
among the rows it is surest of. A second witness says when: the network that has trained on the row, and on none of the
rows that the first one has seen. Networks share many of their errors. Where they err on a share e of the rows of like
sureness, they were seen to differ on about e of them, and on e^2 at least (measured; nothing proves it). So

    noise = (P(other label) - e) / (1 - e),   e = the share on which they differ: likely; its square root: the least,

where e is no less than the network's own doubt, and harder rows have no less noise. If what is likely is within the
floor's interval or not far beyond, the floor stands. Else, as a network that errs finds the label right more often than
it finds its own error there, the noise may be as much as P(other label): the interval is from the least to that, and
the ratio the middle between what is likely and that.

Where classes overlap, networks agree as well, and labels are other than what they name without being wrong. But the
surest rows are then hardly touched. So nothing is changed unless they have a third of P(other label).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .floor import Floats, Ratio

BINS = 20  #: of equally many rows
FAR = 0.03  #: by which the likely noise must be more than the floor allows
PART = 1 / 3  #: of P(other label) that the surest rows must have, to tell noise from classes that overlap
ERRORS = 2.0  #: standard errors by which a share is taken lower than seen


def hard_rows(
    floor: Ratio, sureness: Floats, doubt: Floats, others: NDArray[np.bool_], differ: NDArray[np.bool_]
) -> Ratio:
    """The floor, or what is left to say if rows on which both networks agree contradict it.

    ``doubt`` is 1 less the probability of the class that the network names, ``others`` where the label is another,
    ``differ`` where the second network names another.
    """
    least, likely = (noise_by_sureness(sureness, doubt, others, differ, power) for power in (0.5, 1.0))
    most = float(others.mean())
    if likely.mean() <= floor.high + FAR or least[0] < PART * most:
        return floor
    low, middle = (min(most, float(noise.mean())) for noise in (least, likely))
    return Ratio((middle + most) / 2, low, most)


def noise_by_sureness(
    sureness: Floats, doubt: Floats, others: NDArray[np.bool_], differ: NDArray[np.bool_], power: float
) -> Floats:
    """The noise from the surest rows to the least sure, if networks err where they differ, to this power."""
    bins = np.array_split(np.argsort(-sureness, kind="stable"), min(BINS, len(sureness)))
    number = np.array([len(rows) for rows in bins])
    other, differing, doubts = (np.array([of[rows].mean() for rows in bins]) for of in (others, differ, doubt))
    error = np.maximum(((differing * number + 1) / (number + 2)) ** power, doubts).clip(max=0.99)
    seen = other - ERRORS * (other * (1 - other) / number) ** 0.5
    noise: Floats = np.maximum.accumulate(np.maximum(seen - error, 0) / (1 - error))
    return noise
