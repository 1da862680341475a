"""Checks of what users pass in: every error names the owner, the parameter, what is allowed and what came."""

from __future__ import annotations

import math
from collections.abc import Collection

from torch import Tensor

from .objective import IGNORE


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


def check_labels(owner: str, logits: Tensor, labels: Tensor) -> None:
    """Raise unless ``labels`` fit ``logits`` of shape (batch, classes, ...). Reads the values."""
    classes = logits.shape[1:2]  # empty where the logits themselves are wrong, which the loss says better
    expected = logits.shape if labels.is_floating_point() else logits.shape[:1] + logits.shape[2:]
    if classes and labels.shape != expected:
        raise ValueError(f"{owner}: labels must have shape {tuple(expected)}, got {tuple(labels.shape)}")
    if classes and not labels.is_floating_point():
        outside = labels[(labels != IGNORE) & ((labels < 0) | (labels >= classes[0]))]
        if len(outside):
            allowed = f"from 0 to {classes[0] - 1}, or {IGNORE} for what does not count"
            raise ValueError(f"{owner}: labels must be {allowed}; got {outside[0].item()}")
