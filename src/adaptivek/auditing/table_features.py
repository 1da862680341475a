"""Columns of a table to features around 0."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .columns import Columns, as_dates, as_numbers, date_parts, sort_columns

if TYPE_CHECKING:
    import pandas as pd

MOST_CATEGORIES = 50  #: each with a column of its own; of more, all share hashed ones
BUCKETS = 64
FARTHEST = 5.0  #: spreads from the median, beyond which a number is cut

Floats = NDArray[np.float32]


def encode_table(frame: pd.DataFrame, columns: Columns | None = None) -> Tensor:
    """(rows, features) of the columns that hold numbers, categories or dates."""
    columns = sort_columns(frame) if columns is None else columns
    parts: list[Floats] = []
    for name in columns.of("number", "category", "date"):
        parts += _encode(frame[name], columns.used[name])
    if not parts:
        raise ValueError("audit: the table must have columns to learn from besides the label, got none that vary")
    return torch.from_numpy(np.concatenate(parts, 1))


def _encode(column: pd.Series[Any], kind: str) -> list[Floats]:
    """Numbers scaled by median and spread, categories one column each; a column more where some are missing."""
    if kind == "number":
        numbers = as_numbers(column)
        return [] if numbers is None else _scaled(numbers)
    if kind == "date":
        dates = as_dates(column)
        if dates is None:
            return []
        parts = date_parts(dates)
        circles = [_one_hot(parts[name]) for name in ("month", "weekday")]
        return [*_scaled(parts["time"]), *circles, *_scaled(parts["hour"])]
    texts = column.astype("string").fillna("").to_numpy(dtype=object).astype(str)
    values, codes = np.unique(texts, return_inverse=True)
    if len(values) > MOST_CATEGORIES:
        codes = np.array([zlib.crc32(value.encode()) % BUCKETS for value in values])[codes]
        return [np.eye(BUCKETS, dtype=np.float32)[codes]]
    return [np.eye(len(values), dtype=np.float32)[codes]]


def _one_hot(numbers: NDArray[np.float64]) -> Floats:
    """A column for each whole number; what is missing is 0 in all."""
    hot: Floats = (numbers[:, None] == np.unique(numbers[np.isfinite(numbers)])).astype(np.float32)
    return hot


def _scaled(numbers: NDArray[np.float64]) -> list[Floats]:
    missing = ~np.isfinite(numbers)
    known = numbers[~missing]
    if not len(known) or (known.min() == known.max() and not missing.any()):
        return []
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
    # of a column that is mostly one value the quartiles are equal; then the standard deviation
    spread = (high - low) / 1.35 or known.std() or 1.0
    scaled = np.where(missing, 0.0, ((numbers - middle) / spread).clip(-FARTHEST, FARTHEST))[:, None]
    if missing.any():
        scaled = np.concatenate([scaled, missing[:, None]], 1)
    return [scaled.astype(np.float32)]
