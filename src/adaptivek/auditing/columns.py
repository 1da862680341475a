"""What each column of a table is: a text, a number, a category, a date, or nothing to learn from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

WORDS, TEXT_SHARE = 3.0, 0.5  #: a column of texts has so many words on average, and so many different values
MANY = 50  #: different values, from which on a column that never repeats itself names its rows
MOST_DATES_WRONG = 0.05  #: share of a column of dates that may be something else, and then counts as missing
BINS = 10  #: of a number that becomes a word
MISSING = ("", "na", "n/a", "nan", "null", "none", "nat", "<na>", "?")
DATE = r"(?:\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{4})(?:[T ].*)?"
ID_NAME = re.compile(r"(?:^|[_\W])(?:id|uuid|guid|index|key|row)$|^unnamed|Id$", re.IGNORECASE)
#: scripts that put no spaces between words; two characters count as a word
UNSPACED = "[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"

Numbers = NDArray[np.float64]


class Columns(NamedTuple):
    """The columns of a table by what they are."""

    used: dict[str, str]  #: text, number, category or date
    left_out: dict[str, str]  #: and why

    def of(self, *kinds: str) -> list[str]:
        return [name for name, kind in self.used.items() if kind in kinds]


def sort_columns(frame: pd.DataFrame) -> Columns:
    """Which columns can be learned from, and as what."""
    used, left_out = {}, {}
    for name in frame.columns:
        kind = _kind(str(name), frame[name])
        if kind in ("text", "number", "category", "date"):
            used[str(name)] = kind
        else:
            left_out[str(name)] = kind
    return Columns(used, left_out)


def _kind(name: str, column: pd.Series[Any]) -> str:
    """What a column is, or why it is left out."""
    if column.dtype == object and column.map(lambda value: isinstance(value, bytes)).any():
        return "bytes"
    numbers = as_numbers(column)
    if numbers is not None:
        return _kind_of_numbers(name, numbers)
    if as_dates(column) is not None:
        return "date" if column.astype(str).nunique() > 1 else "always the same"
    texts = column.dropna().astype(str)
    different = texts.nunique()
    if different + bool(len(texts) < len(column)) < 2:
        return "always the same"
    words = texts.str.count(r"\S+").mean() + texts.str.count(UNSPACED).mean() / 2
    if words >= WORDS and different >= TEXT_SHARE * len(texts):
        return "text"
    return "a name for each row" if different == len(column) > MANY else "category"


def _kind_of_numbers(name: str, numbers: Numbers) -> str:
    known = numbers[np.isfinite(numbers)]
    if not len(known):
        return "empty"
    if known.min() == known.max() and len(known) == len(numbers):
        return "always the same"
    whole = len(known) == len(numbers) > MANY and bool((known == np.round(known)).all())
    if whole and len(np.unique(known)) == len(known):
        counts_up = bool((np.diff(known) > 0).all()) or known.max() - known.min() == len(known) - 1
        if counts_up or ID_NAME.search(name):
            return "a name for each row"
    return "number"


def as_numbers(column: pd.Series[Any]) -> Numbers | None:
    """The column as numbers with NaN for what is missing; None if it has anything else."""
    import pandas as pd

    if column.dtype.kind == "M":
        return None
    if column.dtype.kind in "biuf" and not pd.api.types.is_extension_array_dtype(column.dtype):
        return np.asarray(column, dtype=np.float64)
    texts = column.astype("string").str.strip()
    missing = _missing(texts)
    numbers: Numbers = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return None if missing.all() or (np.isnan(numbers) & ~missing).any() else numbers


def as_dates(column: pd.Series[Any]) -> pd.DatetimeIndex | None:
    """The column as dates with NaT for what is missing; None if it holds anything else."""
    import pandas as pd

    if column.dtype.kind == "M":
        return pd.DatetimeIndex(pd.to_datetime(column, utc=True))
    texts = column.astype("string").str.strip()
    known = ~_missing(texts)
    if not known.any() or texts[known].str.fullmatch(DATE).mean() < 1 - MOST_DATES_WRONG:
        return None
    dates = pd.DatetimeIndex(pd.to_datetime(texts.where(known), errors="coerce", format="mixed", utc=True))
    return dates if np.mean(dates[known].isna()) <= MOST_DATES_WRONG else None


def lenient_numbers(column: pd.Series[Any]) -> Numbers:
    """Numbers, with NaN for what is none."""
    import pandas as pd

    strict = as_numbers(column)
    if strict is not None:
        return strict
    found: Numbers = pd.to_numeric(column.astype("string"), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return found


def lenient_dates(column: pd.Series[Any]) -> pd.DatetimeIndex:
    """Dates, with NaT for what is none."""
    import pandas as pd

    strict = as_dates(column)
    if strict is not None:
        return strict
    return pd.DatetimeIndex(pd.to_datetime(column.astype("string"), errors="coerce", format="mixed", utc=True))


def date_parts(dates: pd.DatetimeIndex) -> dict[str, Numbers]:
    """When, and the parts in which the same comes again; NaN where there is no date."""
    known = ~np.asarray(dates.isna())
    days = np.full(len(dates), np.nan)
    days[known] = dates[known].as_unit("s").asi8 / 86_400.0
    parts = {"time": days, "month": dates.month, "weekday": dates.day_of_week, "hour": dates.hour}
    return {name: np.asarray(part, dtype=np.float64) for name, part in parts.items()}


def column_words(
    frame: pd.DataFrame, columns: Columns, edges: Mapping[tuple[str, str], Numbers] | None = None
) -> list[str]:
    """What the columns that hold no text say, as words to stand beside the texts: one for each, `city__paris`.

    So whatever learns from texts learns from all columns together. A number becomes the tenth of the column that it is
    in; ``edges`` has the tenths of other rows, see `learn_edges`.
    """
    edges = learn_edges(frame, columns) if edges is None else edges
    parts: list[list[str]] = []
    for name in columns.of("number", "category", "date"):
        start = _word(name)
        if columns.used[name] == "category":
            parts.append([f"{start}__{_word(str(value))}" for value in frame[name].astype("string").fillna("")])
        else:
            for part, values in _numbers_of(frame[name], columns.used[name]).items():
                parts.append([f"{start}_{part}_{tenth}" for tenth in _tenths(values, edges[name, part])])
    return [" ".join(words) for words in zip(*parts, strict=True)]


def learn_edges(frame: pd.DataFrame, columns: Columns) -> dict[tuple[str, str], Numbers]:
    """Where the tenths of each number begin, by column and part of a date."""
    tenths = np.arange(1, BINS) / BINS
    return {
        (name, part): np.unique(np.quantile(values[np.isfinite(values)], tenths))
        for name in columns.of("number", "date")
        for part, values in _numbers_of(frame[name], columns.used[name]).items()
    }


def _numbers_of(column: pd.Series[Any], kind: str) -> dict[str, Numbers]:
    return date_parts(lenient_dates(column)) if kind == "date" else {"": lenient_numbers(column)}


def _tenths(numbers: Numbers, edges: Numbers) -> list[str]:
    known = np.isfinite(numbers)
    places = np.searchsorted(edges, np.where(known, numbers, 0), side="right")
    return [f"q{place}" if is_known else "missing" for place, is_known in zip(places, known, strict=True)]


def _word(text: str) -> str:
    """One word, whatever is in it."""
    return re.sub(r"\W+", "_", text.strip().lower()) or "empty"


def _missing(texts: pd.Series[Any]) -> NDArray[np.bool_]:
    return np.asarray((texts.isna() | texts.str.lower().isin(MISSING)).to_numpy(dtype=bool))
