"""How much of each class is kept while training, and the way back before one is lost."""

from __future__ import annotations

import warnings

import torch
import torch.distributed as dist
from torch import Tensor

from ..backend.checks import check_number
from ..backend.distributed import process_group
from ..criterion import Selection
from ..methods import DEFAULT

FEW = 10  # labels of a class, about which nothing is said


class ClassMonitor:
    """Counts what is kept of each class; when one is being lost, warns and has the criterion train plainly for a while.

    A rule that leaves out high losses leaves out a class that is learned late, and so never learns it. That shows in
    the shares kept long before it shows in the accuracy. It is no part of the criterion's state: a run that is resumed
    needs a new one.

    >>> monitor = adaptivek.ClassMonitor(criterion, classes=10)
    >>> loss = criterion(logits, y, index)
    >>> monitor(y)

    Args:
        criterion: what to monitor.
        classes: how many there are.
        least: a class of which a smaller share of the labels is kept is being lost.
        every: steps between looks; a look waits for the device.
        plain: steps of plain training when a class is being lost; 0: only warn.
    """

    def __init__(
        self, criterion: Selection, classes: int, *, least: float = 0.2, every: int = 20, plain: int = 500
    ) -> None:
        check_number("ClassMonitor", "classes", classes, 1, whole=True)
        check_number("ClassMonitor", "least", least, 0, 1)
        check_number("ClassMonitor", "every", every, 1, whole=True)
        check_number("ClassMonitor", "plain", plain, 0, whole=True)
        self.criterion, self.classes, self.least, self.every, self.plain = criterion, classes, least, every, plain
        self.shares: Tensor | None = None  #: kept of each class between the last two looks; NaN of those not seen
        self.lost: list[int] = []  #: classes that were being lost at the last look
        self._counts = torch.zeros(2, classes)
        self._steps = 0

    def __call__(self, labels: Tensor) -> None:
        """To be called after each step with its labels; those below 0 do not count."""
        believed = self.criterion.confidence
        if believed is None:
            raise RuntimeError("ClassMonitor: must be called after a training step of its criterion, got none so far")
        labels = labels.flatten()
        believed = believed.reshape(-1, labels.numel())[0]  # of several networks the first
        self._counts = self._counts.to(labels.device)
        counted = labels >= 0
        rows = torch.stack([believed.to(labels.device) * counted, counted.float()])
        self._counts.index_add_(1, labels.clamp(min=0), rows.float())
        self._steps += 1
        if self._steps % self.every == 0:
            self._look()

    def _look(self) -> None:
        group = process_group(self.criterion.distributed)
        if group is not None:  # what all ranks saw: else one would train plainly and the others not
            dist.all_reduce(self._counts, group=group)
        kept, seen = self._counts.cpu()
        self._counts = torch.zeros_like(self._counts)
        self.shares = kept / seen
        self.lost = ((self.shares < self.least) & (seen >= FEW)).nonzero().flatten().tolist()
        if not self.lost:
            return
        if self.plain:
            self.criterion.train_plainly(self.plain)
        named = ", ".join(f"{number} ({self.shares[number]:.0%} kept)" for number in self.lost[:5])
        more = f" and {len(self.lost) - 5} more" if len(self.lost) > 5 else ""
        warnings.warn(
            f"{self.criterion.method.name} is losing classes: {named}{more}. "
            + (f"Plain training for {self.plain} steps. " if self.plain else "")
            + f"A longer warmup helps, or {DEFAULT}, which needs none",
            stacklevel=3,
        )
