"""Labels of any type to codes and class names; what cannot be a label is an error here."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..support.labels import is_missing

MOST_CLASSES = 5_000
SHOWN = 5  #: examples in a message
NO = ("", "0", "0.0", "false", "no", "n", "f")  #: what in a column means no


class Labels(NamedTuple):
    codes: NDArray[np.int64]  #: (n,) of the rows that have a label
    classes: list[str]  #: names, in order of the codes
    labelled: NDArray[np.bool_]  #: (all rows,) which rows have a label


def read_labels(values: Sequence[Any], names: Sequence[str] | None = None, owner: str = "labels") -> Labels:
    """Codes and names.

    Args:
        values: one for each row; what is no label, `is_missing` says.
        names: of the classes, where ``values`` are their codes from 0.
        owner: what the labels are called in messages.
    """
    plain = [None if is_missing(value, names is not None) else plain_label(value) for value in values]
    labelled = np.array([value is not None for value in plain], dtype=bool)
    known = [value for value in plain if value is not None]
    number = number_classes(Counter(known), names, owner)
    codes = np.array([number[value] for value in known], dtype=np.int64)
    return Labels(codes, class_names(number, names), labelled)


def number_classes(
    counts: Mapping[int | str | float, int], names: Sequence[str] | None = None, owner: str = "labels"
) -> dict[int | str | float, int]:
    """A code for each plain label, in order; from how many rows have it."""
    broken = [value for value in counts if isinstance(value, float)]
    if broken:
        raise ValueError(f"audit: {owner} must be classes, not fractions; got {_listed(broken)}")
    if names is not None and any(not isinstance(v, int) or not 0 <= v < len(names) for v in counts):
        raise ValueError(f"audit: {owner} must be whole numbers from 0 to {len(names) - 1}")
    distinct = sorted(counts, key=lambda value: (isinstance(value, str), value))
    rows = sum(counts.values())
    if len(distinct) < 2:
        raise ValueError(f"audit: {owner} must have at least two classes, got {_listed(distinct) or 'none'}")
    if len(distinct) > min(MOST_CLASSES, rows / 2):
        raise ValueError(
            f"audit: {owner} must be classes, at most {MOST_CLASSES:,} and two rows each or more; got {len(distinct):,}"
            f" different values in {rows:,} rows, such as {_listed(distinct)}"
        )
    single = [value for value in distinct if counts[value] < 2]
    if single:
        raise ValueError(f"audit: {owner} must have at least two rows in every class; one only in {_listed(single)}")
    return {value: code for code, value in enumerate(distinct)}


def class_names(number: Mapping[int | str | float, int], names: Sequence[str] | None = None) -> list[str]:
    """In the order of the codes."""
    return [str(value if names is None else names[int(value)]) for value in number]


def plain_label(value: Any) -> int | str | float:
    """A whole number, a text, or a fraction, which no label may be."""
    if isinstance(value, str):
        return _of_text(value)
    if isinstance(value, (bool, np.bool_)):
        return str(value)
    if isinstance(value, (float, np.floating)):
        return int(value) if float(value).is_integer() else float(value)
    return int(value) if isinstance(value, (int, np.integer)) else str(value)


def is_true(value: Any) -> bool:
    """Whether a cell says yes: anything but what is missing or means no."""
    return not is_missing(value) and str(value).strip().lower() not in NO


def _of_text(value: str) -> str | float:
    """A number that is written as text, as in CSV: only so that fractions are seen; names stay as they are."""
    try:
        number = float(value.strip())
    except ValueError:
        return value
    return value if number.is_integer() or not math.isfinite(number) else number


def _listed(values: Sequence[Any]) -> str:
    texts = [repr(value) if len(str(value)) <= 40 else repr(str(value)[:40]) + "..." for value in values[:SHOWN]]
    return ", ".join(texts) + (f" and {len(values) - SHOWN:,} more" if len(values) > SHOWN else "")
