"""The noise ratio where hard rows are mislabelled more often: what is left to say when the floor is not one.

`floor` takes it that wrong labels do not care how sure the network is. But people mislabel hard rows more often. The
share of other labels then never levels off, and the floor takes wrong labels for errors of the network, at times even
among the rows it is surest of. A second witness says when: the network that has trained on the row, and on none of the
rows that the first one has seen. Networks share most of their errors, but where they err on a share e of the rows, they
were mostly seen to differ on e^2 of them or more (measured; nothing proves it). So among rows of like sureness

    e <= max(sqrt(share on which they differ), mean doubt),   noise >= (P(other label) - e) / (1 - e),

and harder rows have no less noise. If these bounds are within the floor's interval, it stands. Else, as a network that
errs finds the label right more often than it finds its own error there, the noise may be as much as P(other label), and
the interval ends there. If even the surest twentieth has more noise than the interval allows, the floor is wrong, and
all that is known is that the noise lies between what that twentieth has and P(other label): the middle is taken.

Where classes overlap, networks agree as well, and labels are other than what they name without being wrong. But the
surest rows are then hardly touched. So nothing is changed unless they have a third of P(other label).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .floor import Floats, Ratio

BINS = 20  #: of equally many rows
PART = 1 / 3  #: of P(other label) that the surest rows must have, to tell noise from classes that overlap
ERRORS = 2.0  #: standard errors by which a share is taken lower than seen


def hard_rows(
    floor: Ratio, sureness: Floats, doubt: Floats, others: NDArray[np.bool_], differ: NDArray[np.bool_]
) -> Ratio:
    """The floor, or what is left to say if rows on which both networks agree contradict it.

    ``doubt`` is 1 less the probability of the class that the network names, ``others`` where the label is another,
    ``differ`` where the second network names another.
    """
    least, most = least_noise(sureness, doubt, others, differ), float(others.mean())
    surest = float(least[0])
    if least.mean() <= floor.high or surest < PART * most:
        return floor
    if surest <= floor.high:
        return floor._replace(high=most)
    return Ratio((surest + most) / 2, surest, most)


def least_noise(sureness: Floats, doubt: Floats, others: NDArray[np.bool_], differ: NDArray[np.bool_]) -> Floats:
    """The least noise there can be, from the surest rows to the least sure."""
    bins = np.array_split(np.argsort(-sureness, kind="stable"), min(BINS, len(sureness)))
    number = np.array([len(rows) for rows in bins])
    other, differing, doubts = (np.array([of[rows].mean() for rows in bins]) for of in (others, differ, doubt))
    error = np.maximum(((differing * number + 1) / (number + 2)) ** 0.5, doubts).clip(max=0.99)
    seen = other - ERRORS * (other * (1 - other) / number) ** 0.5
    least: Floats = np.maximum.accumulate(np.maximum(seen - error, 0) / (1 - error))
    return least
