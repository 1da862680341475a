"""Half-way: how much of the labels is wrong, and what each row is then believed to be.

What a row is believed to be comes from a network that has not seen it, its label, and the matrix of mistakes. Both
networks train on that from then on. It is the EM algorithm with the expectation taken by the other network: a network
that judged its own rows would find what it has learned by heart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .agreement import hard_rows
from .estimate import CHUNK, Codes, Floats, Slots, fit, shares
from .floor import Ratio, noise_floor

WIDE = 0.2  #: an interval of the ratio within which nothing can be believed


class Stock(NamedTuple):
    """What is known of all rows."""

    ratio: Ratio
    hard: bool  #: hard rows seem to be mislabelled more often: no floor was found

    @property
    def known(self) -> bool:
        """Whether the ratio is known well enough to believe anything: of too low a ratio wrong labels are believed."""
        return not self.hard and self.ratio.high - self.ratio.low <= WIDE


def take_stock(other: Slots, own: Slots, labels: Codes, classes: int) -> Stock:
    """From the predictions of the network that has not seen a row, and of the one that has."""
    named, sureness = other.named(), other.sureness()
    others = named != labels
    floor = noise_floor(sureness, ~others, named, classes)
    found = hard_rows(floor, sureness, other.doubt(), others, named != own.named())
    return Stock(found, found != floor)


def believe(other: Slots, labels: Codes, classes: int, ratio: float, seed: int) -> Iterator[tuple[slice, Floats]]:
    """(rows, classes) how likely each class is, given the label and the network that has not seen the row; in parts."""
    fitted = fit(other, labels, classes, ratio, seed)
    for start in range(0, len(labels), CHUNK):
        part = slice(start, start + CHUNK)
        p, named = shares(other.of(part), labels[part], fitted)
        found: Floats = np.zeros((len(p), classes), np.float32)
        np.add.at(found, (np.arange(len(p))[:, None], named), p)
        yield part, found
