"""Where to compute."""

from __future__ import annotations

import torch


def find_device(device: str | torch.device) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:  # the latter where torch was built without CUDA
        reason = str(error).partition("\n")[0]
        raise ValueError(f"device must be auto or one that is here, got {device!r}: {reason}") from None
    return found
