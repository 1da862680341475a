"""Texts to rows of token numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

WORD = re.compile(r"\w+(?:'\w+)*|[!?]")
WORDS = 20_000  #: at most so many words have a number of their own: the most frequent of the training texts
LENGTH = 400  #: longer texts are shortened
PADDING, UNKNOWN, FIRST = 0, 1, 2

Numbers = npt.NDArray[np.int32]


def words(text: str) -> list[str]:
    """Lower-case words, and the marks that carry feeling."""
    return WORD.findall(text.lower())


def tokenise(train: Iterable[str], test: Iterable[str]) -> tuple[Tensor, Tensor, int]:
    """Token numbers of the training and the test texts, and how many numbers there are.

    Words and length are learned from the training texts: the words that occur twice or more, the
    most frequent first; the length that holds 99 of 100 texts whole. Of a longer text the beginning
    and the end are kept, half and half. A text without words is one unknown word.
    """
    seen: dict[str, int] = {}
    rows = [np.array([seen.setdefault(word, len(seen)) for word in words(text)], dtype=np.int32) for text in train]
    other = len(seen)
    test_rows = [np.array([seen.get(word, other) for word in words(text)], dtype=np.int32) for text in test]
    counts = np.bincount(np.concatenate(rows), minlength=other)
    names = list(seen)
    by_frequency = sorted(np.flatnonzero(counts >= 2).tolist(), key=lambda i: (-counts[i], names[i]))[:WORDS]
    number = np.full(other + 1, UNKNOWN, dtype=np.int32)
    number[by_frequency] = np.arange(FIRST, FIRST + len(by_frequency))
    length = min(LENGTH, max(1, int(np.ceil(np.quantile([len(row) for row in rows], 0.99)))))
    table, test_table = (_table([number[row] for row in texts], length) for texts in (rows, test_rows))
    return table, test_table, FIRST + len(by_frequency)


def _table(rows: list[Numbers], length: int) -> Tensor:
    table = np.full((len(rows), length), PADDING, dtype=np.int32)
    head = (length + 1) // 2
    for line, row in zip(table, rows, strict=True):
        if len(row) > length:
            row = np.concatenate((row[:head], row[len(row) - (length - head) :]))
        line[: len(row)] = row
        if not len(row):
            line[0] = UNKNOWN
    return torch.from_numpy(table)
