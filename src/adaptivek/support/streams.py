"""Random streams by name. All that is random in NumPy here is drawn from one of these.

`np.random.default_rng([seed, 0])` is `default_rng(seed)`: NumPy fills short seeds up with zeros. So what was meant to
be two streams may be one. A name keeps them apart, and apart from the generators that users make of the same seed.
"""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, name: str, *at: int) -> np.random.Generator:
    """A generator that seed, name and place (such as the epoch) decide, the same on every machine."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()), *at)))
