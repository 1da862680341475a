"""How much noise a method has found, and whether that can be known.

A label that the network has memorised looks clean, and a clean one that it has not learned yet looks noisy. So what
looks noisy now is compared with what looked noisy in the first visits, where the method counts that. Where the two are
far apart nobody can say how much noise there is; where they are close the lesser of them is told, for both count hard
labels too.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..method import Method
from ..step import Memory

CLOSE = 0.1  # by how much more or less noise may have been found in the first visits
NOTHING = "no label has been judged yet"


def noise_ratio(method: Method[Any], memory: Memory) -> Tensor:
    """The lesser of both shares, NaN where they are far apart. Does not wait for the device."""
    now, early = _shares(method, memory)
    return torch.minimum(now, early).where((now - early).abs() <= CLOSE, math.nan)


def why_unknown(method: Method[Any], memory: Memory) -> str:
    """Why the noise ratio is NaN; empty where it is not. Waits for the device."""
    now, early = (float(share) for share in _shares(method, memory))
    if math.isnan(now):
        return NOTHING
    if math.isnan(early):
        return "too few rows have been seen a second time, or the network is still learning"
    if abs(now - early) <= CLOSE:
        return ""
    change = f"{early:.0%} of the labels looked noisy in the first visits, {now:.0%} do now"
    if now < early:
        return f"{change}: noisy labels have been memorised, or hard ones learned"
    return f"{change}: the network has not learned enough to tell noisy labels from hard ones"


def _shares(method: Method[Any], memory: Memory) -> tuple[Tensor, Tensor]:
    """Of labels that look noisy: of late, and in the first visits. The same twice if a method does not count those."""
    tally, state = memory
    now = 1 - tally.recent_confidence / tally.recent_seen
    early = method.early_noise(state)
    return now, now if early is None else early
