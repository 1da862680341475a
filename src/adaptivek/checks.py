"""Checks of what users pass in: every error names the owner, the parameter, what is allowed and what came."""

from __future__ import annotations

import math
from collections.abc import Collection


def check_number(
    owner: str,
    name: str,
    value: object,
    low: float,
    high: float = math.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
    whole: bool = False,
) -> None:
    """Raise unless ``value`` is a number between ``low`` and ``high`` (ends included unless open)."""
    kind = int if whole else (int, float)
    # NaN fails both comparisons, so it is refused without a case of its own
    if isinstance(value, kind) and not isinstance(value, bool):
        above = value > low if open_low else value >= low
        below = value < high if open_high else value <= high
        if above and below:
            return
    noun = "a whole number" if whole else "a number"
    if math.isinf(high):
        allowed = f"{noun} {'above' if open_low else 'of at least'} {low:g}"
    else:
        allowed = f"{noun} in {'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
    raise ValueError(f"{owner}: {name} must be {allowed}, got {value!r}")


def check_choice(owner: str, name: str, value: object, allowed: Collection[str]) -> None:
    """Raise unless ``value`` is one of the ``allowed`` strings."""
    if value not in allowed:
        raise ValueError(f"{owner}: {name} must be one of {', '.join(sorted(allowed))}; got {value!r}")
