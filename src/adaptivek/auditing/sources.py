"""Where data comes from: files, folders, the Hub, or what is in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from .annotators import Votes, dawid_skene, read_votes
from .data import AuditData, clean_list, from_dataset, from_frame, from_images, from_tensor, from_texts, from_tokens
from .images import list_folder
from .labels import is_true
from .large.rows import SUFFIXES, open_rows, parquet_files, parquet_length
from .tables import Table, frame_table, hub_table, read_table
from .tokens import LABELS, column, is_tokenised

MOST_ROWS = 2_000_000  #: of a Parquet file that is read whole


@dataclass(frozen=True)
class Use:
    """What the columns of a table are for, beside the labels."""

    text: str | None = None  #: learn from this column alone
    trusted: Any = None  #: rows whose label is known to be clean: a column, or one truth value for each row
    annotator: str | None = None  #: who gave the label, where each row is one label of one annotator
    item: str | None = None  #: which rows are the same thing, labelled by several annotators
    ignore: Sequence[str] = ()

    @property
    def names(self) -> dict[str, str]:
        """The columns it names, by what each is for."""
        named = {"text": self.text, "trusted": self.trusted, "annotator": self.annotator, "item": self.item}
        found = {what: name for what, name in named.items() if isinstance(name, str)}
        return found | {f"ignore[{place}]": name for place, name in enumerate(self.ignore)}

    @property
    def aside(self) -> dict[str, str]:
        """The columns from which nothing is learned, and why."""
        why = {"trusted": "which rows are trusted", "annotator": "the annotator", "item": "the item"}
        return {name: why.get(what, "to be ignored") for what, name in self.names.items() if what != "text"}


def load(data: Any, labels: Any, use: Use | None = None, streamed: bool = False) -> AuditData:
    """Whatever users pass to `audit`; what has been loaded before stays as it is."""
    if isinstance(data, AuditData):
        return data
    use = use or Use()
    if streamed:
        return from_files(parquet_files(data) or [Path(data)], labels, use)
    found = _opened(data, labels)
    if isinstance(found, AuditData):
        if use.names:
            what, name = next(iter(use.names.items()))
            raise ValueError(f"audit: {what} must be left out where the data has no columns, got {name!r}")
        return _with_trusted(found, use.trusted)
    return from_table(found, labels, use)


def is_streamed(data: Any, labels: Any, held: str | None) -> bool:
    """Whether rows stay in their files: those of many Parquet files, or of one that is large.

    Args:
        data: as it is given to `audit`.
        labels: the same.
        held: the name of an argument for which all rows must be in memory, if there is one.
    """
    if not isinstance(data, (str, Path)):
        return False
    if parquet_files(data):
        if held is not None:
            raise ValueError(f"audit: {held} must be left out for many Parquet files, whose rows are not all in memory")
        return True
    path = Path(data)
    large = path.is_file() and path.suffix.lower() in SUFFIXES and parquet_length(path) > MOST_ROWS
    return large and held is None and isinstance(labels, str)


def from_files(files: Sequence[Path], labels: Any, use: Use) -> AuditData:
    """Parquet files that together may be larger than memory."""
    from .large.load import load_rows

    rows = open_rows(files)
    if not isinstance(labels, str):
        raise ValueError("audit: label must be given: the name of a column")
    _check_columns(rows.columns, use, [labels])
    data = load_rows(rows, labels, use)
    return data if isinstance(use.trusted, str) else _with_trusted(data, use.trusted)


def _opened(data: Any, labels: Any) -> AuditData | Table:
    label = labels if isinstance(labels, str) else None
    if isinstance(data, (str, Path)):
        return read(str(data), labels)
    if isinstance(data, np.ndarray):
        if data.dtype.kind not in "biuf":
            raise ValueError(f"audit: features must be numbers, got an array of {data.dtype}")
        data = torch.from_numpy(np.ascontiguousarray(data))
    if isinstance(data, Tensor):
        return from_tensor(data, _required(labels))
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return frame_table(data, label)
    if is_tokenised(data):
        return read_tokens(data, labels)
    if hasattr(data, "column_names") and hasattr(data, "features"):
        return hub_table(data, label)
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], str):
        values = _required(labels)
        return from_texts(data, values, clean_list([str(value) for value in values]))
    if isinstance(data, Dataset) or (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        return from_dataset(data, None if labels is None else _sequence(labels))
    raise TypeError(
        "audit: data must be an array, a tensor, a data frame, a data set, a list of texts or the path of a file, "
        f"got {type(data).__name__}"
    )


def read(source: str, labels: Any) -> AuditData | Table:
    """A file, a folder of images, or hub:owner/name."""
    label = labels if isinstance(labels, str) else None
    if source.startswith("hub:"):
        return hub_table(_hub(source.removeprefix("hub:")), label)
    path = Path(source)
    if path.is_dir():
        files, values = list_folder(path)
        names = [file.relative_to(path).as_posix() for file in files]
        return from_images(files, values, clean_list(values, "file", names), files=names)
    if not path.is_file():
        raise FileNotFoundError(
            f"audit: {source} must be a file, a folder of images or of Parquet files, or hub:owner/name; not found"
        )
    if path.suffix.lower() == ".npy":
        values = read_array(labels) if isinstance(labels, (str, Path)) else _required(labels)
        return from_tensor(torch.from_numpy(np.ascontiguousarray(_numbers(path))), values)
    table = read_table(path, label)
    if table is None:
        raise ValueError(
            f"audit: {source} must be .csv, .tsv, .jsonl, .parquet, .npy or a folder of images, got {path.suffix!r}"
        )
    return table


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


def from_table(table: Table, labels: Any, use: Use) -> AuditData:
    """A table, by what its columns are for."""
    names = [str(name) for name in table.frame.columns]
    frame = table.frame.set_axis(names, axis=1)
    several = (
        isinstance(labels, (tuple, list)) and 0 < len(labels) < len(frame) and all(each in names for each in labels)
    )
    _check_columns(names, use, labels if several else [labels])
    rows = np.arange(len(frame))
    votes, values = None, labels
    if several and len(labels) == 1:
        labels = values = labels[0]
    elif several:
        votes = _votes_of_columns(frame, list(labels))
    elif use.annotator is not None:
        votes, rows = _votes_of_rows(frame, labels, use)
    elif use.item is not None:
        raise ValueError(f"audit: annotator must be given with item, got item={use.item!r} alone")
    aside = use.aside
    if votes is not None:
        found = dawid_skene(votes, len(rows))
        has_votes = np.bincount(votes.item, minlength=len(rows)) > 0
        best = found.posterior.argmax(1)
        values = [votes.classes[code] if known else None for code, known in zip(best, has_votes, strict=True)]
        aside |= dict.fromkeys(labels if several else [labels], "labels of annotators")
    class_names = table.class_names.get(values) if isinstance(values, str) else None
    values = _required(values)
    if table.image and use.text is None:
        given = frame[values].tolist() if isinstance(values, str) else values
        others = {name: "not the image" for name in names if name != values}
        about: dict[str, Any] = {"label": values if isinstance(values, str) else "labels", "columns": [table.image]}
        about |= {"used_as": {table.image: "image"}, "left_out": others}
        images = [table.images[row] for row in rows.tolist()]
        files = None if table.files is None else [table.files[row] for row in rows.tolist()]
        data = from_images(images, given, table.write_clean, class_names, files, about)
    else:
        data = from_frame(frame.iloc[rows], values, use.text, table.write_clean, class_names, aside)
    trusted = frame[use.trusted].tolist() if isinstance(use.trusted, str) else use.trusted
    if trusted is not None:
        data = _with_trusted(data, [trusted[row] for row in rows] if votes is not None else trusted)
    if votes is None:
        return data
    votes = votes.to_classes(data.classes).of(data.row)
    data = replace(data, votes=votes, annotators=dawid_skene(votes, len(data.row)))
    return replace(
        data,
        about=data.about | {"label": labels, "annotators": len(votes.names)},
        rows=len(frame),
        row=rows[data.row],
        skipped=[(int(rows[row]), why) for row, why in data.skipped],
        unreadable=rows[data.unreadable],
        files=table.files,
    )


def _check_columns(names: Sequence[str], use: Use, labels: Sequence[Any]) -> None:
    for what, name in [*use.names.items(), *(("label", each) for each in labels)]:
        if isinstance(name, str) and name not in names:
            raise ValueError(
                f"audit: {what.partition('[')[0]} must be a column, one of {', '.join(names)}; got {name!r}"
            )


def _votes_of_columns(frame: Any, labels: list[str]) -> Votes:
    """Several label columns, one for each annotator."""
    items = np.tile(np.arange(len(frame)), len(labels))
    values = [value for name in labels for value in frame[name].tolist()]
    return read_votes(values, np.repeat(labels, len(frame)).tolist(), items, items)


def _votes_of_rows(frame: Any, label: Any, use: Use) -> tuple[Votes, NDArray[np.int64]]:
    """A row for each label, and the first row of each item."""
    if not isinstance(label, str):
        raise ValueError("audit: label must be a column where annotator is given")
    asked = {label, use.annotator, *use.ignore, *([use.trusted] if isinstance(use.trusted, str) else [])}
    same = [use.item] if use.item is not None else [name for name in frame.columns if name not in asked]
    if not same:
        raise ValueError("audit: item must be given where no column but the label and the annotator is left")
    keys = frame[same].astype(str).agg("\x1f".join, axis=1)
    _, first, item = np.unique(keys.to_numpy(dtype=object).astype(str), return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")  # items in the order of the rows
    place = np.empty(len(first), np.int64)
    place[order] = np.arange(len(first))
    item, first = place[item.ravel()], first[order]
    if len(first) == len(frame):
        raise ValueError(
            f"audit: item must be a column that is the same for all labels of one thing, got no two rows alike in "
            f"{', '.join(map(str, same))}"
        )
    votes = read_votes(frame[label].tolist(), frame[use.annotator].tolist(), item, np.arange(len(frame)))
    return replace(votes, one_row_each=True), first


def _with_trusted(data: AuditData, trusted: Any) -> AuditData:
    if trusted is None:
        return data
    values = _sequence(trusted)
    number = len(data.row) + len(data.skipped)
    if len(values) != number:
        raise ValueError(f"audit: trusted must be one truth value for each of the {number:,} rows, got {len(values):,}")
    chosen = np.array([is_true(value) for value in values], dtype=bool)
    return replace(data, trusted=chosen[data.row])


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


def read_frame(path: str | Path) -> Any:
    """A file with columns as a data frame, be it with one column only."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"predict: {path} must be a file; not found")
    table = read_table(path, None, fewest=1)
    if table is None:
        raise ValueError(f"predict: {path} must be .csv, .tsv, .jsonl or .parquet, got {path.suffix!r}")
    return table.frame


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
