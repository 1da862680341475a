"""All rows scored, batch after batch: of each the probability of its label, and the most probable class besides.

Predictions of all classes would not fit. These two are what the score, the suggestion and the flag are made of; what
needs all classes, the noise ratio and whether anything was learned, comes from the sample. Every part of the rows that
is done is kept in a file until the end, so that a run that was stopped can go on: `kept`.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...support.text import words
from ..data import AuditData
from ..duplicates import text_keys
from ..held_out import Progress
from ..noise_estimate import NoiseEstimate, estimate_noise
from ..predictions import Codes, Floats, Predictions, best_other, label_probability
from ..rules import follows_few_words
from ..second_fit import Twice
from .kept import Part, Parts
from .load import Streamed
from .pool import Pools, fit, fits
from .ranks import Ranks


class Scored(NamedTuple):
    """What is known of all rows that have words, if they are texts."""

    data: AuditData
    held_out: Predictions  #: (rows, 2) of the label, and of the most probable class besides
    ranking: Predictions  #: the same of the predictions by which rows are ranked
    keys: list[Any]  #: the same for rows that are alike, None where no other is
    noise: NoiseEstimate  #: from the sample
    some: tuple[Predictions, Codes]  #: of the sample: predictions of all classes, and labels
    by_rule: bool


class _Sample(NamedTuple):
    """Rows that the models have seen, in order, with predictions that have not."""

    place: Codes  #: among all rows
    held_out: Twice


def score_rows(
    data: AuditData, name: str, seed: int, folder: Path | None, resume: bool, progress: Progress | None, ranks: Ranks
) -> Scored:
    """Fit the models ``name`` to the sample, and predict all rows, together with the other processes if there are."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # threads add up in another order, and the matrices are small
    with threadpool_limits(1):
        return _score_rows(data, name, seed, folder, resume, progress, ranks)


def _score_rows(
    data: AuditData, name: str, seed: int, folder: Path | None, resume: bool, progress: Progress | None, ranks: Ranks
) -> Scored:
    streamed, classes = data.streamed, len(data.classes)
    assert streamed is not None
    steps, batches = fits(name, ranks), len(ranks.stretch(-(-len(streamed.rows) // streamed.rows.batch)))

    def step(done: int, _: int = 0) -> None:
        if progress is not None:
            progress(done, steps + batches)

    place = np.searchsorted(data.row, streamed.row).clip(max=len(data.row) - 1)
    texts, x = streamed.encoder.texts(streamed.sample), streamed.encoder.numbers(streamed.sample)
    kept = np.flatnonzero((data.row[place] == streamed.row) & _filled(texts, len(place)))  # some may be dropped
    if not len(kept):
        raise ValueError("audit: texts must have words in them, got only empty ones")
    place, drawn = place[kept], np.flatnonzero(streamed.drawn[kept])
    labels = data.labels[place]
    texts, x = None if texts is None else [texts[at] for at in kept], None if x is None else x[kept]
    trusted = None if data.trusted is None else data.trusted[place]
    fitted = fit(name, texts, x, labels, classes, seed, ranks, step, trusted)
    sample = Predictions(fitted.held_out.first, None)
    # not from rows that were added for the sake of rare classes
    noise = estimate_noise(sample.of(drawn), labels[drawn], classes)
    wrong = float((sample.of(drawn).predicted() != labels[drawn]).mean())
    by_rule = fitted.words is not None and follows_few_words(fitted.words, labels, wrong, seed)
    seen = _Sample(place, fitted.held_out)
    parts = Parts(folder, data, fitted.held_out.both, resume, ranks)
    columns = list(streamed.encoder.columns.used)
    for start, table in streamed.rows.batches(columns, parts.start) if parts.start is not None else ():
        if parts.lacks(start):
            parts.add(start, _scored(data, streamed, fitted.pools, seen, start, table))
            step(steps + len(parts.done))
        if len(parts.done) == batches:
            break  # the rest is for other processes
    found = parts.whole()
    readable, key = found.readable, found.key
    held_out, ranking = _of_two(data, found.p, found.other), _of_two(data, found.ranking, found.ranked_other)
    if not readable.all():
        empty = [(int(row), "empty text") for row in data.row[~readable]]
        data = replace(data.of(np.flatnonzero(readable)), skipped=sorted(data.skipped + empty))
        held_out, ranking = (each.of(np.flatnonzero(readable)) for each in (held_out, ranking))
        key = key[readable]
    return Scored(data, held_out, ranking, _repeated(key), noise, (sample, labels), by_rule)


def chosen(model: Any, data: AuditData) -> str:
    """The name of what predicts."""
    assert data.streamed is not None
    kinds = "words" if data.kind == "text" else "trees"
    default = "trees + words" if data.kind == "text" and data.streamed.encoder.learned else kinds
    allowed = ["words"] if data.kind == "text" else ["trees", "linear"]
    if model is not None and model not in allowed:
        raise ValueError(f"audit: model must be {' or '.join(allowed)} for large data of this kind, got {model!r}")
    return default if model is None else str(model)


def _scored(data: AuditData, streamed: Streamed, pools: Pools, seen: _Sample, start: int, table: Any) -> Part:
    """The rows of a batch that can be used."""
    low, high = np.searchsorted(data.row, [start, start + len(table)])
    if high - low < len(table):
        table = table.take(data.row[low:high] - start)
    labels, frame = data.labels[low:high], streamed.frame(table)
    texts, x = streamed.encoder.texts(frame), streamed.encoder.numbers(frame)
    none = np.zeros((0, pools.classes))
    predicted = pools.predict(texts, x) if high > low else Twice(none, none)
    begin, end = np.searchsorted(seen.place, [low, high])
    for p, known in zip(predicted, seen.held_out, strict=True):
        p[seen.place[begin:end] - low] = known[begin:end]
    return Part(
        *_two(predicted.first, labels),
        *_two(predicted.both, labels),
        _filled(texts, len(labels)),
        np.zeros(len(labels), np.uint64) if texts is None else _hashed(texts),
    )


def _two(p: Floats, labels: Codes) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """The probabilities of the label and of the most probable class besides, and that class."""
    predictions = Predictions(p, None)
    other, likely = best_other(predictions, labels)
    both = np.stack([label_probability(predictions, labels), likely], 1)
    return both.astype(np.float32), other.astype(np.int32)


def _of_two(data: AuditData, p: NDArray[np.float32], other: NDArray[np.int32]) -> Predictions:
    """Predictions of the label and of another class."""
    codes: Any = np.stack([data.labels, other], 1, dtype=np.int32, casting="same_kind")  # half the bytes of int64
    return Predictions(p, codes)


def _filled(texts: list[str] | None, rows: int) -> NDArray[np.bool_]:
    """Which texts have words; all rows where there are no texts."""
    return np.ones(rows, bool) if texts is None else np.array([bool(words(text)) for text in texts], dtype=bool)


def _hashed(texts: list[str]) -> NDArray[np.uint64]:
    """A number for the words of each text, the same for texts that are alike; 0 where that says nothing."""
    found = np.zeros(len(texts), np.uint64)
    for place, key in enumerate(text_keys(texts)):
        if isinstance(key, frozenset):
            digest = hashlib.blake2b("\n".join(sorted(key)).encode("utf-8", "replace"), digest_size=8)
            found[place] = int.from_bytes(digest.digest(), "little")
    return found


def _repeated(key: NDArray[np.uint64]) -> list[Any]:
    """Keys as a list, with None for those that only one row has."""
    found: list[Any] = [None] * len(key)
    if key.any():
        _, which, counts = np.unique(key, return_inverse=True, return_counts=True)
        for place in np.flatnonzero((counts[which] > 1) & (key != 0)).tolist():
            found[place] = int(key[place])
    return found
