"""Gradient accumulation: a window of micro-batches that makes one step.

A method judges a batch, so what is the batch? `rerun` makes it the whole window: the step is that of one
big batch, for every method, at the price of a second forward pass. `Accumulation` needs no second pass:
each micro-batch is judged by itself and the step is the mean over all that was kept in the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..criterion import Selection

BatchT = TypeVar("BatchT")


def rerun(losses_of: Callable[[BatchT], Tensor], window: Iterable[BatchT]) -> Tensor:
    """Losses of all micro-batches in a row, with the activations of one at a time.

    What ``losses_of`` computes is dropped and computed again in backward, with the same dropout masks.
    BatchNorm's running averages move twice.

    >>> losses = rerun(lambda batch: criterion.loss(model(batch[0]), batch[1]), window)
    >>> criterion.reduce(losses).backward()

    Args:
        losses_of: gives one loss per sample of a micro-batch.
        window: the micro-batches of one step.
    """
    return torch.cat([checkpoint(losses_of, batch, use_reentrant=False) for batch in window])


class Accumulation:
    """Normalises a step by what was kept over its window of micro-batches, each judged by itself.

    The gradients are at any time the mean over the window so far: each micro-batch first shrinks those
    that are there, then adds its own share. So nobody needs to know how long the window will be, and
    clipping or scaling of gradients sees them as they should be.

    >>> accumulate = Accumulation(criterion, model.parameters())
    >>> accumulate.start()  # with optimizer.zero_grad()
    >>> for x, y in window:
    ...     accumulate(criterion(model(x), y)).backward()
    """

    def __init__(self, criterion: Selection, parameters: Iterable[Tensor]) -> None:
        self.criterion, self.parameters = criterion, list(parameters)
        self.start()

    def start(self) -> None:
        """A new window: call it when gradients are set to zero."""
        self._total: Tensor | float = 0.0
        self._mean: Tensor | float = 0.0
        self._batches = 0

    def __call__(self, loss: Tensor) -> Tensor:
        """What to call backward on, from the loss that the criterion has just given.

        The numbers of a window add up to its mean loss.
        """
        share = self.share()
        part = share * (loss - self._mean)
        self._mean = self._mean + part.detach()
        return part

    @torch.no_grad()
    def share(self) -> Tensor:
        """The share of the last micro-batch in all that was kept so far; shrinks the gradients to the rest."""
        weight = self.criterion.tally.last_norm
        total = self._total + weight
        share = weight / (total + (total == 0))
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if self._batches and not gradients:
            raise RuntimeError(
                "Accumulation: the parameters must have gradients after the first micro-batch, got none: call backward "
                "on each loss; under FSDP let gradients be reduced with every micro-batch, or use adaptivek.rerun"
            )
        for gradient in gradients:
            gradient.mul_(1 - share)
        self._total, self._batches = total, self._batches + 1
        return share
