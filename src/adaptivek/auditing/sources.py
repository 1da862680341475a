"""Where data comes from: files, folders, the Hub, or what is in memory."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ..support.images import hub_images
from .data import (
    AuditData,
    Rows,
    WriteClean,
    clean_list,
    from_dataset,
    from_frame,
    from_images,
    from_tensor,
    from_texts,
    from_tokens,
)
from .images import list_folder
from .tokens import LABELS, column, is_tokenised

SEPARATORS = ",;\t|"


def load(data: Any, labels: Any, text: str | None) -> AuditData:
    """Whatever users pass to `audit`; what has been loaded before stays as it is."""
    if isinstance(data, AuditData):
        return data
    if isinstance(data, (str, Path)):
        return read(str(data), labels, text)
    if isinstance(data, np.ndarray):
        if data.dtype.kind not in "biuf":
            raise ValueError(f"audit: features must be numbers, got an array of {data.dtype}")
        data = torch.from_numpy(np.ascontiguousarray(data))
    if isinstance(data, Tensor):
        return from_tensor(data, _required(labels))
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return from_frame(data, _required(labels), text, clean_frame(data))
    if is_tokenised(data):
        return read_tokens(data, labels)
    if hasattr(data, "column_names") and hasattr(data, "features"):
        return from_hugging_face(data, _required(labels), text)
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], str):
        values = [str(label) for label in _required(labels)]
        return from_texts(data, _required(labels), clean_list(values))
    if isinstance(data, Dataset) or (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        return from_dataset(data, None if labels is None else _sequence(labels))
    raise TypeError(
        "audit: data must be an array, a tensor, a data frame, a data set, a list of texts or the path of a file, "
        f"got {type(data).__name__}"
    )


def read(source: str, labels: Any, text: str | None) -> AuditData:
    """A file, a folder of images, or hub:owner/name."""
    if source.startswith("hub:"):
        return from_hugging_face(_hub(source.removeprefix("hub:")), _required(labels), text)
    path = Path(source)
    if path.is_dir():
        files, values = list_folder(path)
        names = [file.relative_to(path).as_posix() for file in files]
        return from_images(files, values, clean_list(values, "file", names))
    if not path.is_file():
        raise FileNotFoundError(f"audit: {source} must be a file, a folder of images, or hub:owner/name; not found")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        values = read_array(labels) if isinstance(labels, (str, Path)) else _required(labels)
        return from_tensor(torch.from_numpy(np.ascontiguousarray(_numbers(path))), values)
    if suffix in (".csv", ".tsv", ".txt"):
        frame, separator = _read_csv(path)
        return from_frame(frame, _required(labels), text, clean_frame(frame, separator))
    if suffix in (".parquet", ".pq"):
        table = _read_parquet(path)
        return from_frame(table.to_pandas(), _required(labels), text, _clean_parquet(table))
    raise ValueError(f"audit: {source} must be .csv, .tsv, .parquet, .npy or a folder of images, got {suffix!r}")


def read_tokens(data: Any, labels: Any) -> AuditData:
    """Tokenised texts; unless told, their labels are in the column that a trainer would take."""
    names = None
    if labels is None:
        labels = next((name for name in LABELS if column(data, name) is not None), None)
    if isinstance(labels, str):
        feature: Any = data.features.get(labels) if hasattr(data, "features") else None
        names = feature.names if type(feature).__name__ == "ClassLabel" else None
        values = column(data, labels)
        if values is None:
            raise ValueError(f"audit: label must be a column of the data, got {labels!r}")
        labels = values
    return from_tokens(data, _required(labels), names)


def from_hugging_face(dataset: Any, label: Any, text: str | None) -> AuditData:
    """A `datasets.Dataset`: its images, or its columns as a table."""
    if isinstance(label, str) and label not in dataset.column_names:
        raise ValueError(f"audit: label must be a column, one of {', '.join(dataset.column_names)}; got {label!r}")
    values = list(dataset[label][:]) if isinstance(label, str) else _sequence(label)
    feature: Any = dataset.features.get(label) if isinstance(label, str) else None
    names = feature.names if type(feature).__name__ == "ClassLabel" else None

    def write_clean(folder: Path, flagged: Rows) -> str:
        keep = np.setdiff1d(np.arange(len(dataset)), flagged)
        dataset.select(keep).to_parquet(str(folder / "clean.parquet"))
        return "clean.parquet"

    images = [name for name, kind in dataset.features.items() if type(kind).__name__ == "Image"]
    if images and text is None:
        return from_images(hub_images(dataset, images[0]), values, write_clean, names)
    frame = dataset.to_pandas()
    if isinstance(label, str):
        frame = frame.drop(columns=[label])
    return from_frame(frame, values, text, write_clean, names)


def read_array(path: str | Path) -> Any:
    """Labels from a .npy file, or a text file with one a line."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"audit: labels must be a file, {path} was not found")
    if path.suffix == ".npy":
        found = _load(path)
        if found.ndim != 1:
            raise ValueError(f"audit: labels must be one for each row, got an array of shape {found.shape} in {path}")
        return found
    return path.read_text(encoding="utf-8").splitlines()


def read_table(path: str | Path) -> Any:
    """A CSV or Parquet file as a data frame."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"predict: {path} must be a file; not found")
    if path.suffix.lower() in (".parquet", ".pq"):
        return _read_parquet(path).to_pandas()
    return _read_csv(path, fewest=1)[0]


def clean_frame(frame: Any, separator: str = ",") -> WriteClean:
    """CSV with the cells as they were."""

    def write(folder: Path, flagged: Rows) -> str:
        keep = np.setdiff1d(np.arange(len(frame)), flagged)
        frame.iloc[keep].to_csv(folder / "clean.csv", index=False, sep=separator)
        return "clean.csv"

    return write


def _clean_parquet(table: Any) -> WriteClean:
    def write(folder: Path, flagged: Rows) -> str:
        from pyarrow import parquet

        keep = np.setdiff1d(np.arange(len(table)), flagged)
        parquet.write_table(table.take(keep), folder / "clean.parquet")
        return "clean.parquet"

    return write


def _read_csv(path: Path, fewest: int = 2) -> tuple[Any, str]:
    """All cells as the text that they are, so that what is written again is the same; columns are two or more."""
    pandas = _pandas()
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            beginning = file.read(65_536)
        if "\0" in beginning or not beginning.strip():
            raise ValueError("it is empty" if not beginning.strip() else "it has bytes that no text has")
        header = next(csv.reader([beginning.partition("\n")[0]]))
        separator = max(SEPARATORS, key=beginning.partition("\n")[0].count)
        if len(header) < fewest and separator not in beginning.partition("\n")[0]:
            raise ValueError("its first line names one column only")
        frame = pandas.read_csv(path, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (ValueError, csv.Error) as error:  # of pandas too: what cannot be parsed or decoded
        raise ValueError(f"audit: {path} must be a CSV file in UTF-8: {error}") from None
    if not isinstance(frame.index, pandas.RangeIndex):
        raise ValueError(f"audit: {path} must be a CSV file: its lines have more cells than its first line has names")
    if not len(frame):
        raise ValueError(f"audit: {path} must have rows, got the names of columns alone")
    return frame, separator


def _read_parquet(path: Path) -> Any:
    _pandas()
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ImportError("reading Parquet needs pyarrow: pip install 'adaptivek[audit]'") from None
    try:
        return parquet.read_table(path)
    except (ArrowException, ValueError) as error:
        raise ValueError(f"audit: {path} must be a Parquet file: {error}") from None


def _numbers(path: Path) -> Any:
    array = _load(path)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"audit: {path} must hold numbers, got an array of {array.dtype}")
    return array


def _load(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"audit: {path} must be a .npy file of plain numbers or texts: {error}") from None


def _hub(name: str) -> Any:
    try:
        from datasets import load_dataset
    except ImportError:
        raise ImportError("a data set of the Hub needs datasets: pip install 'adaptivek[data]'") from None
    try:
        return load_dataset(name, split="train")
    except Exception as error:  # no network, no such data set, no such split: many kinds
        reason = str(error).partition("\n")[0]
        raise ValueError(f"audit: hub:{name} must be a data set of the Hub with a train split: {reason}") from None


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("auditing tables needs pandas: pip install 'adaptivek[audit]'") from None
    return pandas


def _required(labels: Any) -> Any:
    if labels is None:
        raise ValueError("audit: label must be given: the name of a column, or one label for each row")
    return labels if isinstance(labels, str) else _sequence(labels)


def _sequence(labels: Any) -> Sequence[Any]:
    """Plain values, from arrays, tensors, series, lists."""
    if isinstance(labels, Tensor):
        labels = labels.detach().cpu().numpy()
    found = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if found and isinstance(found[0], (list, tuple)):
        raise ValueError("audit: labels must be one for each row, got several: for one-hot labels give their argmax")
    return found
