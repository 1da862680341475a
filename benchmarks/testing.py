"""What benchmarks with a loop of their own share."""

from __future__ import annotations

import torch
from torch import nn

from adaptivek.experiments.data import Split


@torch.no_grad()
def test_accuracy(model: nn.Module, data: Split, device: torch.device) -> float:
    """In percent."""
    model.eval()
    found = torch.cat([model(part.to(device)).argmax(1).cpu() for part in data.x_test.split(1_000)])
    return 100 * float((found == data.y_test).float().mean())
