"""Held-out predictions of the epochs in which they agree with the labels most often.

A network that memorises noisy labels predicts other rows worse the longer it trains, and noisy labels as they are tell
when: how often a network agrees with labels that it has not seen rises and falls with how often it is right.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .dynamics import AveragePredictions, Codes, Floats

ERRORS = 1.0  #: standard errors below the best by which an epoch still counts as good
AT_ONCE = 2_000  #: rows that are added together
EARLY = 3  #: first epochs, in which a large network may be at its best


class BestEpochs:
    """The mean prediction of each row over the best epochs. `add` takes rows, `end` closes an epoch."""

    def __init__(self, rows: int, classes: int, device: torch.device) -> None:
        self.kept, self.now = (AveragePredictions(rows, classes, device) for _ in range(2))
        self.rows, self.classes = rows, classes
        self.best = -1.0  #: share of the labels that the best epoch agrees with
        self.hits = torch.zeros((), dtype=torch.int64, device=device)

    def add(self, rows: Tensor, p: Tensor, labels: Tensor) -> None:
        """Predictions of some rows in this epoch, and their observed labels."""
        self.now.add(rows, p, stay=0.0)
        self.hits += (p.argmax(1) == labels).sum()

    def end(self) -> None:
        """The epoch is over: add it to the best, begin with it anew, or forget it."""
        share = int(self.hits) / self.rows
        error = ERRORS * math.sqrt(max(share * (1 - share), 1e-6) / self.rows)
        if share > self.best + error:
            self.kept.p.zero_()
        if share >= self.best - error:
            for part in torch.split(torch.arange(self.rows, device=self.kept.p.device), AT_ONCE):
                self.kept.add(part, self._now(part))
        self.best = max(self.best, share)
        self.hits.zero_()

    def _now(self, rows: Tensor) -> Tensor:
        """This epoch's predictions of some rows, (rows, classes)."""
        p = self.now.p[rows].float()
        if self.now.classes is None:
            return p
        return p.new_zeros(len(rows), self.classes).scatter_add(1, self.now.classes[rows].long(), p)

    def tables(self) -> tuple[Floats, Codes | None]:
        """As those of `AveragePredictions`."""
        return self.kept.tables()

    def state_dict(self) -> dict[str, Any]:
        return {"p": self.kept.p, "classes": self.kept.classes, "best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.kept.p.copy_(state["p"])
        if self.kept.classes is not None:
            self.kept.classes.copy_(state["classes"])
        self.best = state["best"]
