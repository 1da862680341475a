"""What is no label, wherever labels come from."""

from __future__ import annotations

from typing import Any


def is_missing(value: Any, class_codes: bool = False) -> bool:
    """Whether a row with this value has no label: None, NaN, pandas' NA and NaT, and blank text.

    Args:
        value: as it comes.
        class_codes: values are codes of named classes, as in `datasets.ClassLabel`. The Hub then marks labels that
            were never published by -1.
    """
    if value is None or type(value).__name__ == "NAType":  # of pandas: it is neither equal to itself nor not
        return True
    if isinstance(value, str):
        return not value.strip()
    return bool(value != value) or (class_codes and bool(value == -1))  # NaN and NaT are not equal to themselves
