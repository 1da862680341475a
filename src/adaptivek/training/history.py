"""What a criterion does while it trains, written down every few steps: for plots, and for any logger."""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..backend.noise_found import noise_ratio
from ..criterion import Selection

RECENT = 50  # batches whose losses are kept for a histogram


class Write(Protocol):
    """How loggers are called: ``wandb.log`` and ``mlflow.log_metrics`` are such functions."""

    def __call__(self, values: dict[str, float], /, *, step: int) -> object: ...


def metrics(criterion: Selection) -> dict[str, Tensor]:
    """What is worth logging after a step, as tensors that nobody has waited for.

    Noise ratio and threshold are NaN until warm-up is over, the ratio also where it cannot be known; a method without
    a threshold has none.
    """
    memory = criterion.memory
    tally, state = memory
    found = {
        "noise_ratio": noise_ratio(criterion.method, memory),
        "kept_share": tally.last_kept / tally.last_seen,
    }
    threshold = criterion.method.loss_threshold(state)
    if threshold is not None:
        found["threshold"] = threshold.where(tally.recent_seen > 0, math.nan)
    return found


def numbers(criterion: Selection) -> dict[str, float]:
    """The same as numbers. Waits for the device; what is wrong with the steps so far is raised here."""
    return {name: float(value) for name, value in metrics(criterion).items()} | {"noise_ratio": criterion.noise_ratio}


class History:
    """Writes down noise ratio, kept share, threshold and losses every few steps, and passes them on to a logger.

    It changes nothing, and waits for the device only when it writes. `adaptivek.plots` draws it.

    >>> history = adaptivek.History(criterion, write=wandb.log)
    >>> loss = criterion(logits, y, index)
    >>> history(criterion.loss(logits.detach(), y))

    Args:
        criterion: whose training to follow.
        every: steps between two entries.
        write: called with each entry, ``write(values, step=step)``; numbers that cannot be had yet are left out.
    """

    def __init__(self, criterion: Selection, *, every: int = 50, write: Write | None = None) -> None:
        if not isinstance(criterion, Selection):
            raise TypeError(f"History: criterion must be a Selection, got {criterion!r}")
        check_number("History", "every", every, 1, whole=True)
        self.criterion, self.every, self.write = criterion, every, write
        self.steps: list[int] = []  #: of the entries
        #: of each entry the noise ratio, kept share and threshold, and the mean loss of what was kept and what was not;
        #: NaN where a number cannot be had
        self.values: dict[str, list[float]] = {}
        self._kept: deque[Tensor] = deque(maxlen=RECENT)
        self._left_out: deque[Tensor] = deque(maxlen=RECENT)
        self._calls = 0

    def __call__(self, losses: Tensor | None = None) -> None:
        """To be called after each step; with the loss of each sample, to have these too.

        Without confidence of one half in its label a sample counts as left out: some methods leave out, some relabel.
        """
        confidence = self.criterion.confidence
        if confidence is None:
            raise RuntimeError("History: must be called after a training step of its criterion, got none so far")
        if losses is not None and (losses.dim() == 0 or confidence.numel() % losses.numel()):
            raise ValueError(
                f"History: losses must have one entry per sample, {tuple(confidence.shape)}, got {tuple(losses.shape)}"
            )
        self._calls += 1
        if self._calls % self.every:
            return
        values = numbers(self.criterion)
        if losses is not None:
            losses = losses.detach().flatten().float()
            kept = confidence.reshape(-1, losses.numel())[0] >= 0.5  # of several networks the first
            finite = losses.isfinite()
            kept_losses, left_out = losses[kept & finite], losses[~kept & finite]
            self._kept.append(kept_losses.cpu())
            self._left_out.append(left_out.cpu())
            values |= {"kept_loss": float(kept_losses.mean()), "left_out_loss": float(left_out.mean())}
        self._add(int(self.criterion.memory.tally.step), values)

    @property
    def losses(self) -> tuple[Tensor, Tensor]:
        """Of the samples kept, and of those left out, in the last 50 entries."""
        empty = torch.zeros(0)
        return torch.cat([empty, *self._kept]), torch.cat([empty, *self._left_out])

    def _add(self, step: int, values: dict[str, float]) -> None:
        for name in self.values.keys() | values.keys():
            past = self.values.setdefault(name, [math.nan] * len(self.steps))
            past.append(values.get(name, math.nan))
        self.steps.append(step)
        known = {name: value for name, value in values.items() if math.isfinite(value)}
        if self.write is not None and known:
            self.write(known, step=step)
