"""How new rows become inputs of a fitted network: learned from the training rows, kept as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..auditing.data import AuditData
from ..auditing.images import resized
from ..auditing.networks import InMemory, scaled
from ..auditing.sources import read_frame
from ..auditing.table_features import apply_table, learn_table
from ..support.images import ImageError, read_image
from ..support.text import Vocabulary, words

Settings = dict[str, Any]


class NewRows(NamedTuple):
    """Rows to predict."""

    x: Tensor  #: inputs of those that can be read
    row: NDArray[np.int64]  #: which these are
    skipped: list[tuple[int, str]]  #: the others, and why
    names: list[str] | None = None  #: of files, in order of the rows


def learn_inputs(loaded: AuditData, data: Any) -> Settings | None:
    """What is needed to encode rows like those of ``loaded``, which come from ``data``; None where nothing is known."""
    if loaded.tokens or not isinstance(loaded.fetch, InMemory):
        return None
    if loaded.kind == "text":
        vocabulary = Vocabulary.learn(words(text) for text in loaded.content)
        return {"kind": "text", "column": loaded.about.get("text"), **vocabulary._asdict()}
    if loaded.kind == "table":
        return {"kind": "table", "columns": learn_table(loaded.content.frame())}
    if loaded.kind == "image":
        scale = loaded.fetch.scale
        found = None if scale is None else [part.flatten().tolist() for part in scale]
        return {"kind": "image", "shape": list(loaded.fetch.x.shape[1:]), "scale": found}
    x = _numbers(data)[torch.from_numpy(loaded.row)]
    spread = x.std(0, correction=0).clamp(min=1e-6)
    return {"kind": "features", "mean": x.mean(0).tolist(), "spread": spread.tolist()}


def encode(settings: Settings, data: Any) -> NewRows:
    """Inputs from data of the kind that the network was fitted to, with or without labels."""
    return {"text": _texts, "table": _table, "image": _images, "features": _features}[settings["kind"]](settings, data)


def _texts(settings: Settings, data: Any) -> NewRows:
    if isinstance(data, (list, tuple)):
        texts = [str(text) for text in data]
    else:
        frame, column = _frame(data), settings["column"]
        columns = column if isinstance(column, list) else [column]  # several are read one after the other
        _check_columns(columns, frame)
        parts = [["" if value is None or value != value else str(value) for value in frame[name]] for name in columns]
        texts = ["\n".join(filter(None, cells)) for cells in zip(*parts, strict=True)]
    split = [words(text) for text in texts]
    row = np.flatnonzero([len(found) > 0 for found in split])
    skipped = [(number, "empty text") for number, found in enumerate(split) if not found]
    vocabulary = Vocabulary(settings["words"], settings["length"])
    return NewRows(vocabulary.table(split[number] for number in row), row, skipped)


def _table(settings: Settings, data: Any) -> NewRows:
    frame = _frame(data)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    _check_columns([column["name"] for column in settings["columns"]], frame)
    return NewRows(apply_table(settings["columns"], frame), np.arange(len(frame)), [])


def _images(settings: Settings, data: Any) -> NewRows:
    channels, *sides = settings["shape"]
    skipped: list[tuple[int, str]] = []
    names: list[str] | None = None
    if isinstance(data, (np.ndarray, Tensor)):
        x, row = torch.as_tensor(data), np.arange(len(data))
        if tuple(x.shape[1:]) != tuple(settings["shape"]):
            raise ValueError(f"predict: images must have shape {tuple(settings['shape'])}, got {tuple(x.shape[1:])}")
    else:
        files = _files(data)
        parts, good, names = [], [], [str(file) for file in files]
        for number, file in enumerate(files):
            try:
                parts.append(resized(read_image(file), channels, sides[0]))
                good.append(number)
            except ImageError as error:
                skipped.append((number, str(error)))
        if not good:
            raise ValueError(f"predict: images must be readable, got {len(files)} files of which none is")
        x, row = torch.stack(parts), np.array(good)
    scale = settings["scale"]
    if scale is None:
        return NewRows(x.float(), row, skipped, names)
    mean, deviation = (torch.tensor(part).view(1, -1, 1, 1) for part in scale)
    return NewRows(scaled(x, (mean, deviation)), row, skipped, names)


def _features(settings: Settings, data: Any) -> NewRows:
    x, columns = _numbers(data), len(settings["mean"])
    if x.dim() != 2 or x.shape[1] != columns:
        raise ValueError(f"predict: features must have shape (rows, {columns}), got {tuple(x.shape)}")
    whole = x.isfinite().all(1).numpy()
    skipped = [(int(number), "not finite") for number in np.flatnonzero(~whole)]
    row = np.flatnonzero(whole)
    mean, spread = torch.tensor(settings["mean"]), torch.tensor(settings["spread"])
    return NewRows((x[torch.from_numpy(row)] - mean) / spread, row, skipped)


def _numbers(data: Any) -> Tensor:
    if isinstance(data, (str, Path)):
        if Path(data).suffix.lower() != ".npy" or not Path(data).is_file():
            raise ValueError(f"predict: features must be an array or a .npy file, got {data}")
        data = np.load(data, allow_pickle=False)
    return torch.as_tensor(np.asarray(data) if not isinstance(data, Tensor) else data).detach().cpu().float()


def _frame(data: Any) -> Any:
    if isinstance(data, (str, Path)):
        return read_frame(data)
    if hasattr(data, "to_pandas"):
        return data.to_pandas()
    if not hasattr(data, "columns"):
        raise TypeError(f"predict: data must be a data frame or the path of a table, got {type(data).__name__}")
    return data


def _files(data: Any) -> Sequence[Any]:
    if not isinstance(data, (str, Path)):
        return list(data)
    path = Path(data)
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    files = files if path.is_dir() else [path]
    if not files or not files[0].exists():
        raise FileNotFoundError(f"predict: {data} must be an image or a folder of images; none found")
    return files


def _check_columns(wanted: Sequence[str | None], frame: Any) -> None:
    missing = [str(name) for name in wanted if name not in frame.columns]
    if missing:
        have = ", ".join(map(str, frame.columns))
        raise ValueError(
            f"predict: data must have the columns {', '.join(missing)}, which it was fitted to; got {have}"
        )
