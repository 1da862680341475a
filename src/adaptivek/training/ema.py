"""EMA of a network's weights, often better than the weights themselves: noisy labels pull now here, now there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class EMA:
    """Exponential moving average of some tensors; in the same memory throughout, for a recorded CUDA graph.

    At first it is the mean of all values so far, so that where they began has no say in it.

    Args:
        values: what is averaged, such as the parameters of a network or of a stack of them.
        decay: how much of the average stays at each step, in [0, 1).
    """

    def __init__(self, values: Iterable[Tensor], decay: float) -> None:
        self._values, self._decay = list(values), decay
        #: the averages, always the same tensors
        self.means = [value.detach().clone() for value in self._values]
        self._steps = torch.zeros((), device=self._values[0].device)

    @torch.no_grad()
    def update(self) -> None:
        """To be called after each step of the optimiser."""
        self._steps += 1
        share = (1 / self._steps).clamp(min=1 - self._decay)
        for mean, value in zip(self.means, self._values, strict=True):
            mean.lerp_(value, share.to(mean.dtype))

    def restart(self) -> None:
        """Forget everything so far."""
        self._steps.zero_()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Within, the network has the average for its weights. Batch statistics stay as they are."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for mean, value in zip(self.means, self._values, strict=True):
            was = value.clone()
            value.copy_(mean)
            mean.copy_(was)

    def state_dict(self) -> dict[str, Any]:
        return {"means": self.means, "steps": self._steps}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        for mean, saved in zip(self.means, state["means"], strict=True):
            mean.copy_(saved)
        self._steps.copy_(state["steps"])
