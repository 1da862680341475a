"""How the learning rate goes over a run: as a share of the highest, from the step and the number of all steps."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..backend.checks import check_choice, check_number

Schedule = Callable[[int, int], float]

RAMP = 50  #: steps in which the learning rate rises
RISING = 0.06  #: share of the steps in which it rises when it then falls in a straight line


def cosine(step: int, steps: int) -> float:
    """A short rise, then half a cosine down to a hundredth."""
    return min(1.0, (step + 1) / RAMP) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / steps)))


def linear(step: int, steps: int) -> float:
    """Up in a straight line for a while, then down to 0, as is usual for a pre-trained network."""
    return min(1.0, (step + 1) / max(1.0, RISING * steps)) * (1 - step / steps)


def constant(step: int, steps: int) -> float:
    return 1.0


SCHEDULES: dict[str, Schedule] = {"cosine": cosine, "linear": linear, "constant": constant}


def find_schedule(owner: str, given: str | Schedule) -> Schedule:
    """By name, or a function of one's own, which is tried."""
    if isinstance(given, str):
        check_choice(owner, "schedule", given, SCHEDULES)
        return SCHEDULES[given]
    if not callable(given):
        raise ValueError(f"{owner}: schedule must be {', '.join(SCHEDULES)} or a function, got {given!r}")
    check_number(owner, "schedule(0, 100)", given(0, 100), 0)
    return given


def schedule_name(given: str | Schedule) -> str:
    """For records and checkpoints, that cannot hold a function."""
    return given if isinstance(given, str) else getattr(given, "__qualname__", type(given).__name__)
