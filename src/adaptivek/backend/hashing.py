"""Random draws that are functions of numbers: no random state, the same on every device and in any company."""

from __future__ import annotations

from torch import Tensor


def scrambled(numbers: Tensor) -> Tensor:
    """Whole numbers, each hashed to 64 bits (the finaliser of splitmix64)."""
    x = (numbers + 1) * -0x61C8864680B583EB
    x = (x ^ (x >> 30 & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    x = (x ^ (x >> 27 & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return x ^ (x >> 31 & 0x1FFFFFFFF)
