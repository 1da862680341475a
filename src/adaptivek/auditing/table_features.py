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
#: how a column is encoded: its name, and "middle", "spread", "missing" of numbers, or "categories" (None: hashed)
Column = dict[str, Any]


def encode_table(frame: pd.DataFrame) -> tuple[Tensor, list[str]]:
    """(rows, features), and the columns that were left out since they say nothing or name the row."""
    columns = learn_table(frame)
    known = {column["name"] for column in columns}
    return apply_table(columns, frame), [str(name) for name in frame.columns if str(name) not in known]


def learn_table(frame: pd.DataFrame) -> list[Column]:
    """What is needed to encode these columns again: plain values, fit for JSON."""
    columns = [learn_column(str(name), frame[name]) for name in frame.columns]
    found = [column for column in columns if column is not None]
    if not found:
        raise ValueError("audit: the table must have columns to learn from besides the label, got none that vary")
    return found


def apply_table(columns: list[Column], frame: pd.DataFrame) -> Tensor:
    """(rows, features) of other rows with the same columns."""
    return torch.from_numpy(np.concatenate([apply_column(column, frame[column["name"]]) for column in columns], 1))


def learn_column(name: str, column: pd.Series[Any]) -> Column | None:
    """Numbers are scaled by median and spread, categories get one column each; None for what says nothing."""
    numbers = as_numbers(column)
    if numbers is not None:
        return _learn_numbers(name, numbers)
    texts = _texts(column)
    values = np.unique(texts)
    if len(values) < 2 or (len(values) == len(texts) and len(values) > MOST_CATEGORIES):
        return None  # the same everywhere, or a name for each row
    return {"name": name, "categories": values.tolist() if len(values) <= MOST_CATEGORIES else None}


def apply_column(learned: Column, column: pd.Series[Any]) -> Floats:
    """The features of a column; what is no number counts as missing, a category not seen before as none."""
    if "middle" in learned:
        numbers = as_numbers(column)
        return _scaled(learned, _lenient(column) if numbers is None else numbers)
    texts = _texts(column)
    if learned["categories"] is None:
        codes = np.array([zlib.crc32(text.encode("utf-8", "replace")) % BUCKETS for text in texts])
        return np.asarray(np.eye(BUCKETS, dtype=np.float32)[codes])
    place = {value: number for number, value in enumerate(learned["categories"])}
    known = np.eye(len(place) + 1, dtype=np.float32)[:, :-1]  # the last is of none
    codes = np.array([place.get(text, len(place)) for text in texts], dtype=np.int64)
    return np.asarray(known[codes])


def encode_column(column: pd.Series[Any]) -> Floats | None:
    """Learned and applied at once; None for a column that says nothing."""
    learned = learn_column("", column)
    return None if learned is None else apply_column(learned, column)


def _texts(column: pd.Series[Any]) -> NDArray[np.str_]:
    return column.astype("string").fillna("").to_numpy(dtype=object).astype(str)  # type: ignore[no-any-return]


def _lenient(column: pd.Series[Any]) -> NDArray[np.float64]:
    """Numbers, with NaN for what is none."""
    import pandas as pd

    numbers: NDArray[np.float64] = pd.to_numeric(column.astype("string"), errors="coerce").to_numpy(
        dtype=np.float64, na_value=np.nan
    )
    return numbers


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


def _learn_numbers(name: str, numbers: NDArray[np.float64]) -> Column | None:
    missing = ~np.isfinite(numbers)
    known = numbers[~missing]
    if not len(known) or (known.min() == known.max() and not missing.any()):
        return None
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
    # of a column that is mostly one value the quartiles are equal; then the standard deviation
    spread = (high - low) / 1.35 or known.std() or 1.0
    return {"name": name, "middle": float(middle), "spread": float(spread), "missing": bool(missing.any())}


def _scaled(learned: Column, numbers: NDArray[np.float64]) -> Floats:
    missing = ~np.isfinite(numbers)
    far = (np.where(missing, learned["middle"], numbers) - learned["middle"]) / learned["spread"]
    scaled = far.clip(-FARTHEST, FARTHEST)[:, None]
    if learned["missing"]:
        scaled = np.concatenate([scaled, missing[:, None]], 1)
    return np.asarray(scaled, dtype=np.float32)
