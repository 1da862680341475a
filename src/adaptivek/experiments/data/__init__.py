"""Data sets as tensors in memory, split into training and test."""

from .sources import BENCHMARK, NAMES, load
from .split import Split, shuffled

__all__ = ["BENCHMARK", "NAMES", "Split", "load", "shuffled"]
