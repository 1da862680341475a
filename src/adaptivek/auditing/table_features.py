"""Columns of a table to features around 0."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    import pandas as pd

MOST_CATEGORIES = 50  #: each with a column of its own; of more, all share hashed ones
BUCKETS = 64
FARTHEST = 5.0  #: spreads from the median, beyond which a number is cut
WORDS, TEXT_SHARE = 3.0, 0.5  #: a column of texts has so many words on average, and so many different values

Floats = NDArray[np.float32]


def encode_table(frame: pd.DataFrame) -> tuple[Tensor, list[str]]:
    """(rows, features), and the columns that were left out since they say nothing or name the row."""
    parts: list[Floats] = []
    left_out: list[str] = []
    for name in frame.columns:
        column = encode_column(frame[name])
        if column is None:
            left_out.append(str(name))
        else:
            parts.append(column)
    if not parts:
        raise ValueError("audit: the table must have columns to learn from besides the label, got none that vary")
    return torch.from_numpy(np.concatenate(parts, 1)), left_out


def encode_column(column: pd.Series[Any]) -> Floats | None:
    """Numbers scaled by median and spread, categories one column each; a column more where some are missing."""
    numbers = as_numbers(column)
    if numbers is not None:
        return _scaled(numbers)
    texts = column.astype("string").fillna("").to_numpy(dtype=object)
    values, codes = np.unique(texts.astype(str), return_inverse=True)
    if len(values) < 2 or (len(values) == len(texts) and len(values) > MOST_CATEGORIES):
        return None  # the same everywhere, or a name for each row
    if len(values) > MOST_CATEGORIES:
        codes = np.array([zlib.crc32(value.encode()) % BUCKETS for value in values])[codes]
        return np.eye(BUCKETS, dtype=np.float32)[codes]
    return np.eye(len(values), dtype=np.float32)[codes]


def as_numbers(column: pd.Series[Any]) -> NDArray[np.float64] | None:
    """The column as numbers with NaN for what is missing; None if it has anything else."""
    import pandas as pd

    if column.dtype.kind == "M":
        numbers = column.astype("int64").to_numpy(dtype=np.float64)
        return np.where(column.isna(), np.nan, numbers)
    if column.dtype.kind in "biuf":
        return np.asarray(column, dtype=np.float64)
    texts = column.astype("string").str.strip()
    missing = (texts.isna() | texts.str.lower().isin(["", "na", "nan", "null", "none", "?"])).to_numpy(dtype=bool)
    numbers = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return None if missing.all() or (np.isnan(numbers) & ~missing).any() else numbers


def find_text(frame: pd.DataFrame) -> str | None:
    """The column that holds texts, the longest if there are several; None if there is none."""
    best, length = None, 0.0
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind not in "OUT" or as_numbers(column) is not None:
            continue
        texts = column.dropna().astype(str)
        words = float(texts.str.count(r"\s+").mean() + 1) if len(texts) else 0.0
        if words >= WORDS and texts.nunique() >= TEXT_SHARE * len(texts) and words > length:
            best, length = str(name), words
    return best


def _scaled(numbers: NDArray[np.float64]) -> Floats | None:
    missing = ~np.isfinite(numbers)
    known = numbers[~missing]
    if not len(known) or (known.min() == known.max() and not missing.any()):
        return None
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
    # of a column that is mostly one value the quartiles are equal; then the standard deviation
    spread = (high - low) / 1.35 or known.std() or 1.0
    scaled = np.where(missing, 0.0, ((numbers - middle) / spread).clip(-FARTHEST, FARTHEST))[:, None]
    if missing.any():
        scaled = np.concatenate([scaled, missing[:, None]], 1)
    return scaled.astype(np.float32)
