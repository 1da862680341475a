"""The provenance of a result: which versions and which machine it comes from."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

from .spec import Recipe


@dataclass(frozen=True)
class Provenance:
    """Versions and machine of a run. Empty where they were not written down, as in results of earlier versions."""

    adaptivek: str = ""
    torch: str = ""
    device: str = ""  #: cpu, or the name of the GPU
    precision: str = ""  #: of the forward pass
    threads: int = 0  #: on a processor; 0 on a GPU, where they do not matter

    def __str__(self) -> str:
        if not any(dataclasses.astuple(self)):
            return "not recorded (an earlier version)"
        threads = f", {self.threads} thread{'s' if self.threads > 1 else ''}" if self.threads else ""
        return f"adaptivek {self.adaptivek}, torch {self.torch}, {self.device}, {self.precision}{threads}"


def provenance_of(recipe: Recipe, device: torch.device, threads: int = 0) -> Provenance:
    """Of a run of this process."""
    from .. import __version__

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return Provenance(__version__, str(torch.__version__), name, recipe.precision_on(device.type), threads)
