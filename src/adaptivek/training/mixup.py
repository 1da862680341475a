"""mixup: inputs and targets of a batch, mixed in pairs."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..backend.checks import check_number


def mix(values: Tensor, partners: Tensor, share: Tensor | float) -> Tensor:
    """Each of (B, ...) values with another, (B,) its place in the batch; ``share`` is left of its own."""
    return share * values + (1 - share) * values[partners]


def mixup(
    inputs: Tensor, targets: Tensor, classes: int, alpha: float = 1.0, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """A batch mixed with itself in another order: inputs, and class probabilities to learn.

    >>> inputs, targets = mixup(inputs, labels, classes=10)
    >>> loss = criterion(model(inputs), targets)

    for any criterion that takes class probabilities, `Selection` with most methods among them. Methods that remember
    rows would take a mixture for the row itself: `Selection("mixup")`, which is cross-entropy, does not.

    Args:
        inputs: (B, ...), real numbers.
        targets: (B,) labels, or (B, classes) class probabilities.
        classes: how many there are.
        alpha: what is left of each sample is drawn from Beta(alpha, alpha), once a batch. Above 0: near 0 hardly
            anything is mixed, 1 is any share alike, above that most are about one half.
        generator: what to draw from; torch's own unless given. On the CPU.
    """
    check_number("mixup", "classes", classes, 1, whole=True)
    check_number("mixup", "alpha", alpha, 0, open_low=True)
    if not inputs.is_floating_point():
        raise ValueError(f"mixup: inputs must be real numbers, which can be mixed, got {inputs.dtype}")
    if not targets.is_floating_point():
        targets = F.one_hot(targets, classes).to(inputs.dtype)
    partners = torch.randperm(len(inputs), generator=generator).to(inputs.device)
    share = draw_share(alpha, generator)
    return mix(inputs, partners, share), mix(targets, partners, share)


def draw_share(alpha: float, generator: torch.Generator | None = None) -> float:
    """What is left of each sample, from Beta(alpha, alpha)."""
    seed = int(torch.randint(2**63 - 1, (), generator=generator))  # torch has no Beta of a generator
    return float(np.random.default_rng(seed).beta(alpha, alpha))
