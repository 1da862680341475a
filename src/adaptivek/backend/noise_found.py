"""How much noise a method has found, and whether that can be known.

A label that the network has memorised looks clean, and a clean one that it has not learned yet looks noisy. So what
looks noisy now is compared with what looked noisy early on, where the method counts that. Where less looks noisy now
than there is by rows that had never been learned from, labels have been memorised, and those rows are believed.
Otherwise, where the first visits showed about as much as is found now, the lesser of the two is told, for both count
hard labels too; and where they are far apart nobody can say how much noise there is.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..method import EarlyNoise, Method
from ..step import Memory

CLOSE = 0.1  # by how much more or less noise may have been found in the first visits
NOTHING = "no label has been judged yet"


def noise_ratio(method: Method[Any], memory: Memory) -> Tensor:
    """NaN where it cannot be known. Does not wait for the device."""
    now, early = _shares(method, memory)
    both = torch.minimum(now, early.first_visits).where((now - early.first_visits).abs() <= CLOSE, math.nan)
    return ((early.least + early.most) / 2).where(now < early.least, both)


def why_unknown(method: Method[Any], memory: Memory) -> str:
    """Why the noise ratio is NaN; empty where it is not. Waits for the device."""
    if not noise_ratio(method, memory).isnan():
        return ""
    now, early = _shares(method, memory)
    if now.isnan():
        return NOTHING
    if now < early.least:
        looked = f"{float(early.least):.0%} of the labels or more looked noisy before they were learned from"
        return f"{looked}, {float(now):.0%} do now: noisy labels have been memorised, or hard ones learned"
    if early.first_visits.isnan():
        return "too few rows have been seen again, or the network is still learning"
    change = f"{float(early.first_visits):.0%} of the labels looked noisy in the first visits, {float(now):.0%} do now"
    if now < early.first_visits:
        return f"{change}: noisy labels have been memorised, or hard ones learned"
    return f"{change}: the network has not learned enough to tell noisy labels from hard ones"


def _shares(method: Method[Any], memory: Memory) -> tuple[Tensor, EarlyNoise]:
    """Of labels that look noisy: of late, and early on. The same if a method does not count those."""
    tally, state = memory
    now = 1 - tally.recent_confidence / tally.recent_seen
    early = method.early_noise(state)
    return now, EarlyNoise(now, now, now) if early is None else early
