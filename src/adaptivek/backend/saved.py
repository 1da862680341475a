"""What a checkpoint says of the criterion that wrote it, as bytes in a tensor: every format for tensors can hold it."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor


def pack(settings: dict[str, Any]) -> Tensor:
    return torch.tensor(list(json.dumps(settings, sort_keys=True).encode()), dtype=torch.uint8)


def unpack(packed: Tensor) -> dict[str, Any]:
    try:
        found = json.loads(bytes(packed.tolist()))
    except (AttributeError, TypeError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("Selection: the checkpoint must hold the settings of a criterion, got something else")
    return found


def check(settings: dict[str, Any], found: dict[str, Any]) -> None:
    """Raise unless ``found``, from a checkpoint, agrees with ``settings``; what is None is not known, and agrees."""
    for name, value in settings.items():
        other = found.get(name)
        if value is not None and other is not None and value != other:
            raise ValueError(f"Selection: the checkpoint must be of {name}={value}, got {name}={other}")
