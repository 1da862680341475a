"""Training dynamics: what is recorded of each row while training, a few numbers whatever the number of classes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FEW_CLASSES = 10  #: up to so many classes, the average prediction is kept whole
TOP = 8  #: of more classes, so many of the highest are kept
DECAY = 0.7  #: of an EMA, at each visit

Floats = NDArray[np.float32]
Codes = NDArray[np.int64]


class AveragePredictions:
    """The average prediction of each row, in half precision; of many classes the highest few."""

    def __init__(self, rows: int, classes: int, device: torch.device) -> None:
        kept = classes if classes <= FEW_CLASSES else TOP
        self.p = torch.zeros(rows, kept, dtype=torch.float16, device=device)
        #: (rows, kept) whose probabilities these are; None: column c is class c
        self.classes = None if classes <= FEW_CLASSES else torch.zeros(rows, kept, dtype=torch.int16, device=device)

    def add(self, rows: Tensor, p: Tensor, stay: float = 1.0, move: float = 1.0) -> None:
        """``stay * old + move * p`` for these rows, from their predictions (B, classes)."""
        old = self.p[rows].float() * stay
        if self.classes is None:
            self.p[rows] = (old + move * p).half()
            return
        known = self.classes[rows].long()
        high, top = p.topk(old.shape[1])
        same = (known[:, :, None] == top[:, None, :]) & (old[:, :, None] > 0)
        old = old + move * (same * high[:, None, :]).sum(2)
        new = move * high * ~same.any(1)
        best, at = torch.cat([old, new], 1).topk(old.shape[1])
        self.p[rows] = best.half()
        self.classes[rows] = torch.cat([known, top], 1).gather(1, at).short()

    def tables(self) -> tuple[Floats, Codes | None]:
        """(rows, kept) probabilities that add up to 1, and the class of each."""
        p = self.p.float().cpu().numpy()
        return p / np.maximum(p.sum(1, keepdims=True), 1e-6), _numpy(self.classes)


class Dynamics:
    """Loss, margin and predictions of each row over the epochs.

    Of ten classes it takes 56 bytes a row, of more 80.
    """

    def __init__(self, rows: int, classes: int, device: torch.device) -> None:
        self.loss, self.late_loss, self.margin = (torch.zeros(rows, device=device) for _ in range(3))
        self.misclassified, self.visits = (torch.zeros(rows, dtype=torch.int16, device=device) for _ in range(2))
        self.in_sample = AveragePredictions(rows, classes, device)  #: by the network that trains on the row, an EMA
        self.held_out = AveragePredictions(rows, classes, device)  #: by the network that has never seen it, a mean

    def add_step(self, rows: Tensor, logits: Tensor, labels: Tensor) -> None:
        """Record a training step, from its logits."""
        logp = logits.detach().float().log_softmax(1).clamp(min=-20)
        p = logp.exp()
        label = p.gather(1, labels[:, None])
        rival = p.scatter(1, labels[:, None], -1.0).amax(1)
        loss = -logp.gather(1, labels[:, None])[:, 0]
        self.loss[rows] += loss
        self.late_loss[rows] = DECAY * self.late_loss[rows] + (1 - DECAY) * loss
        self.margin[rows] += label[:, 0] - rival
        self.misclassified[rows] += (rival > label[:, 0]).short()
        self.visits[rows] += 1
        self.in_sample.add(rows, p, DECAY, 1 - DECAY)

    def add_held_out(self, rows: Tensor, p: Tensor) -> None:
        """Record held-out predictions, as probabilities."""
        self.held_out.add(rows, p)

    def reset_held_out(self) -> None:
        """Begin the mean of held-out predictions anew."""
        self.held_out.p.zero_()

    def state_dict(self) -> dict[str, Tensor]:
        plain = {name: getattr(self, name) for name in ("loss", "late_loss", "margin", "misclassified", "visits")}
        for name in ("in_sample", "held_out"):
            table = getattr(self, name)
            plain[f"{name}.p"] = table.p
            if table.classes is not None:
                plain[f"{name}.classes"] = table.classes
        return plain

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name, value in self.state_dict().items():
            value.copy_(state[name])

    def bytes_per_row(self) -> float:
        return sum(value.nbytes for value in self.state_dict().values()) / max(1, len(self.loss))


def _numpy(codes: Tensor | None) -> Codes | None:
    return None if codes is None else codes.long().cpu().numpy()
