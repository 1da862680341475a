"""Networks trained side by side, as one."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class Networks(nn.Module):
    """Several networks on the same input: in training their outputs stacked, otherwise that of the first alone.

    >>> model = Networks([make(), make()])
    >>> loss = Selection("co-teaching")(model(x), y)
    """

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return self.networks[0](x)  # type: ignore[no-any-return]
        return torch.stack([network(x) for network in self.networks])
