"""Rows that are alike and have different labels: evidence of noise that needs no model."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..support.text import words
from .predictions import Codes, Floats

FEW_WORDS = 4  #: texts of fewer different words are alike by chance
FEW_COLUMNS = 16  #: so are rows of fewer numbers


class Alike(NamedTuple):
    place: Codes  #: (n,) of a row that is alike and has another label; -1: there is none
    outvoted: NDArray[np.bool_]  #: (n,) rows among these whose label is not the best supported one


def text_keys(texts: Sequence[str]) -> list[Hashable]:
    """The same for texts of the same words, whatever their order, case and marks; None for very short ones."""
    sets = (frozenset(words(text)) - {"!", "?"} for text in texts)
    return [found if len(found) >= FEW_WORDS else None for found in sets]


def number_keys(x: NDArray[Any]) -> list[Hashable]:
    """The same for identical rows of numbers, pixels say."""
    flat = np.ascontiguousarray(x.reshape(len(x), -1))
    if flat.shape[1] < FEW_COLUMNS:
        return [None] * len(x)
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in flat]


def alike(keys: Sequence[Hashable], labels: Codes, probability: Floats) -> Alike:
    """Rows of the same key with different labels.

    The label that most of them have is the best supported; of equally many, the one that is more probable.
    """
    groups: dict[Hashable, list[int]] = {}
    for place, key in enumerate(keys):
        if key is not None:
            groups.setdefault(key, []).append(place)
    other: Codes = np.full(len(labels), -1)
    outvoted = np.zeros(len(labels), bool)
    for rows in groups.values():
        given = labels[rows]
        if len(rows) < 2 or (given == given[0]).all():
            continue
        found, counts = np.unique(given, return_counts=True)
        mean = np.array([probability[rows][given == label].mean() for label in found])
        best = found[np.lexsort((mean, counts))[-1]]
        for row, label in zip(rows, given, strict=True):
            other[row] = rows[int(np.flatnonzero(given != label)[0])]
            outvoted[row] = label != best
    return Alike(other, outvoted)
