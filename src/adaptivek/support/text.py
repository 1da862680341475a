"""Texts to rows of token numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

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


class Vocabulary(NamedTuple):
    """Words that have a number of their own, in order, and how many of a text are kept."""

    words: list[str]
    length: int

    @classmethod
    def learn(cls, texts: Iterable[Sequence[str]]) -> Vocabulary:
        """From the words of the training texts: those that occur twice or more, the most frequent first; the length
        that holds 99 of 100 texts whole."""
        counts, lengths = Counter[str](), []
        for text in texts:
            counts.update(text)
            lengths.append(len(text))
        often = sorted((word for word, count in counts.items() if count >= 2), key=lambda word: (-counts[word], word))
        return cls(often[:WORDS], min(LENGTH, max(1, int(np.ceil(np.quantile(lengths, 0.99))))))

    @property
    def size(self) -> int:
        """How many numbers there are, with those for padding and for unknown words."""
        return FIRST + len(self.words)

    def table(self, texts: Iterable[Sequence[str]]) -> Tensor:
        """Token numbers (texts, length) of the words of some texts.

        Of a longer text the beginning and the end are kept, half and half. A text without words is one unknown word.
        """
        number = {word: place for place, word in enumerate(self.words, FIRST)}
        rows = [np.array([number.get(word, UNKNOWN) for word in text], dtype=np.int32) for text in texts]
        return _table(rows, self.length)


def tokenise(train: Iterable[str], test: Iterable[str]) -> tuple[Tensor, Tensor, int]:
    """Token numbers of the training and the test texts, and how many numbers there are."""
    split = [words(text) for text in train]
    vocabulary = Vocabulary.learn(split)
    return vocabulary.table(split), vocabulary.table(words(text) for text in test), vocabulary.size


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
