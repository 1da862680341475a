"""Columns of a table to features around 0."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .columns import Columns, as_dates, as_numbers, date_parts, lenient_dates, lenient_numbers, sort_columns

if TYPE_CHECKING:
    import pandas as pd

MOST_CATEGORIES = 50  #: each with a column of its own; of more, all share hashed ones
BUCKETS = 64
FARTHEST = 5.0  #: spreads from the median, beyond which a number is cut
TURNS = ("month", "weekday")  #: of a date, in which the same comes again

Floats = NDArray[np.float32]
#: how a column is encoded: "name" and "kind", and "middle", "spread", "missing" of numbers, "categories" (None:
#: hashed) of categories; of a date, its parts
Learned = dict[str, Any]


def encode_table(frame: pd.DataFrame, columns: Columns | None = None) -> Tensor:
    """(rows, features) of the columns that hold numbers, categories or dates."""
    return apply_table(learn_table(frame, columns), frame)


def learn_table(frame: pd.DataFrame, columns: Columns | None = None) -> list[Learned]:
    """What is needed to encode these columns again: plain values, fit for JSON."""
    columns = sort_columns(frame) if columns is None else columns
    found = [_learn(name, frame[name], columns.used[name]) for name in columns.of("number", "category", "date")]
    learned = [one for one in found if one is not None]
    if not learned:
        raise ValueError("audit: the table must have columns to learn from besides the label, got none that vary")
    return learned


def apply_table(learned: list[Learned], frame: pd.DataFrame) -> Tensor:
    """(rows, features) of other rows with the same columns."""
    return torch.from_numpy(np.concatenate([_apply(one, frame[one["name"]]) for one in learned], 1))


def _learn(name: str, column: pd.Series[Any], kind: str) -> Learned | None:
    """Numbers are scaled by median and spread, categories get one column each; None for what says nothing."""
    about = {"name": name, "kind": kind}
    if kind == "number":
        numbers = as_numbers(column)
        learned = None if numbers is None else _learn_numbers(numbers)
        return None if learned is None else about | learned
    if kind == "date":
        dates = as_dates(column)
        if dates is None:
            return None
        parts = date_parts(dates)
        turns = {turn: np.unique(parts[turn][np.isfinite(parts[turn])]).tolist() for turn in TURNS}
        return about | turns | {part: _learn_numbers(parts[part]) for part in ("time", "hour")}
    values = np.unique(_texts(column))
    return about | {"categories": values.tolist() if len(values) <= MOST_CATEGORIES else None}


def _apply(learned: Learned, column: pd.Series[Any]) -> Floats:
    """The features of a column; what is no number or date counts as missing, a category not seen before as none."""
    if learned["kind"] == "number":
        return _scaled(learned, lenient_numbers(column))
    if learned["kind"] == "date":
        parts = date_parts(lenient_dates(column))
        turns = [(parts[turn][:, None] == np.array(learned[turn])).astype(np.float32) for turn in TURNS]
        scaled = [_scaled(learned[part], parts[part]) for part in ("time", "hour") if learned[part] is not None]
        return np.concatenate([*scaled, *turns], 1)
    texts = _texts(column)
    if learned["categories"] is None:
        codes = np.array([zlib.crc32(text.encode("utf-8", "replace")) % BUCKETS for text in texts], dtype=np.int64)
        return np.asarray(np.eye(BUCKETS, dtype=np.float32)[codes])
    place = {value: number for number, value in enumerate(learned["categories"])}
    known = np.eye(len(place) + 1, dtype=np.float32)[:, :-1]  # the last is of none
    codes = np.array([place.get(text, len(place)) for text in texts], dtype=np.int64)
    return np.asarray(known[codes])


def _texts(column: pd.Series[Any]) -> NDArray[np.str_]:
    return column.astype("string").fillna("").to_numpy(dtype=object).astype(str)  # type: ignore[no-any-return]


def _learn_numbers(numbers: NDArray[np.float64]) -> Learned | None:
    missing = ~np.isfinite(numbers)
    known = numbers[~missing]
    if not len(known) or (known.min() == known.max() and not missing.any()):
        return None
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
    # of a column that is mostly one value the quartiles are equal; then the standard deviation
    spread = (high - low) / 1.35 or known.std() or 1.0
    return {"middle": float(middle), "spread": float(spread), "missing": bool(missing.any())}


def _scaled(learned: Learned, numbers: NDArray[np.float64]) -> Floats:
    missing = ~np.isfinite(numbers)
    far = (np.where(missing, learned["middle"], numbers) - learned["middle"]) / learned["spread"]
    scaled = far.clip(-FARTHEST, FARTHEST)[:, None]
    if learned["missing"]:
        scaled = np.concatenate([scaled, missing[:, None]], 1)
    return np.asarray(scaled, dtype=np.float32)
