"""Slow transcriptions of the methods in plain Python and NumPy, written from the papers, sharing no code with src.

Each takes the losses of successive batches and gives, for each batch, which samples are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .adaptive_k import adaptive_k
from .mkl import mkl
from .oracle import oracle
from .vanilla import vanilla

Batches = Sequence[np.ndarray]


def after(warmup: int, rule: Callable[..., list[list[bool]]], batches: Batches, **options: object) -> list[list[bool]]:
    """Everything during warm-up, then the rule, which starts from nothing."""
    return [[True] * len(b) for b in batches[:warmup]] + rule(batches[warmup:], **options)


#: method text -> reference, and its options
REFERENCES: dict[str, tuple[Callable[..., list[list[bool]]], dict[str, object]]] = {
    "vanilla": (vanilla, {}),
    "oracle": (oracle, {}),
    "mkl": (mkl, {"keep": 0.6}),
    "mkl:keep=0.25": (mkl, {"keep": 0.25}),
    "vanilla+mkl": (mkl, {"keep": 0.6}),
    "adaptive-k": (adaptive_k, {}),
    "adaptive-k:beta1=0.5,beta2=0.9": (adaptive_k, {"beta1": 0.5, "beta2": 0.9}),
    "adaptive-k:threshold=mean": (adaptive_k, {"threshold": "mean"}),
}
