"""Prepared data sets on disk, so that images are decoded and texts tokenised once."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import warnings
import zlib
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from ...support.files import whole
from .split import Split

TENSORS = ("x", "y", "x_test", "y_test")


def cache_folder() -> Path:
    """ADAPTIVEK_CACHE, or the place that the platform has for such files."""
    if named := os.environ.get("ADAPTIVEK_CACHE"):
        return Path(named)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "adaptivek"


def cache_file(name: str, **identity: object) -> Path:
    """Where the data set with this identity is kept: anything that changes its tensors must be part of it."""
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    stem = re.sub(r"[^\w.-]+", "-", Path(name).name)
    return cache_folder() / f"{stem}-{key}.safetensors"


def read(path: Path) -> Split | None:
    """The data set in ``path``; nothing if it is not there or cannot be trusted."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        # all bytes from one open file: it may be replaced while we read
        tensors = load(path.read_bytes())
        classes, vocabulary, checksum = tensors.pop("about").tolist()
        column, label = json.loads(tensors.pop("columns").numpy().tobytes())
        if checksum == _checksum(tensors[name] for name in TENSORS):
            return Split(**tensors, classes=classes, vocabulary=vocabulary, columns=(column, label))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        pass
    return None


def write(path: Path, data: Split) -> None:
    """Keep ``data``: whole or not at all, whoever else writes the same file."""
    from safetensors.torch import save_file

    tensors = {name: getattr(data, name).contiguous() for name in TENSORS}
    about = torch.tensor([data.classes, data.vocabulary, _checksum(tensors.values())])
    columns = torch.frombuffer(bytearray(json.dumps(data.columns).encode()), dtype=torch.uint8)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as partial:
            save_file(tensors | {"about": about, "columns": columns}, partial)
    except Exception as error:  # a full or read-only disk: the data is there all the same
        warnings.warn(f"{path.parent} cannot keep prepared data (set ADAPTIVEK_CACHE): {error}", stacklevel=3)


def _checksum(tensors: Iterable[Tensor]) -> int:
    value = 0
    for tensor in tensors:
        value = zlib.crc32(tensor.numpy().data, value)
    return value
