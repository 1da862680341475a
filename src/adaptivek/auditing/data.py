"""Data of any kind in the form that the audit needs: inputs, labels, and how to show and write rows."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import TensorDataset

from ..support.images import ImageSource
from ..support.text import tokenise, words
from .images import of_tensor, read_images, thumbnails
from .labels import read_labels
from .networks import standardised, taken_from
from .table_features import encode_table, find_text
from .tokens import IDS, fetch_tokens, find_texts, token_columns
from .training import Fetch

if TYPE_CHECKING:
    import pandas as pd

Rows = NDArray[np.int64]
#: writes the data without these rows into a folder, and gives the name of the file
WriteClean = Callable[[Path, Rows], str]


@dataclass(frozen=True)
class AuditData:
    """A data set with labels, ready to train on."""

    kind: str  #: text, image, table or features
    fetch: Fetch  #: inputs by place among the rows that can be used
    inputs: int  #: features, channels or words: what a network must know of them
    labels: Rows  #: (n,) codes of the observed labels
    classes: list[str]
    row: Rows  #: (n,) number of each in the original data
    skipped: list[tuple[int, str]]
    write_clean: WriteClean
    content: Any = None  #: what the page shows: texts, dicts, a function to thumbnails
    about: dict[str, Any] = field(default_factory=dict)  #: for the settings: columns used, say
    tokens: tuple[str, ...] = ()  #: of tokenised texts: the arguments of the network that inputs are made of


def from_frame(
    frame: pd.DataFrame, label: str | Sequence[Any], text: str | None, write_clean: WriteClean, names: Any = None
) -> AuditData:
    """A table: its text column if it has one, else all its columns."""
    columns = [str(name) for name in frame.columns]
    frame = frame.set_axis(columns, axis=1)
    for what, name in (("label", label), ("text", text)):
        if isinstance(name, str) and name not in columns:
            raise ValueError(f"audit: {what} must be a column, one of {', '.join(columns)}; got {name!r}")
    values = frame[label] if isinstance(label, str) else label
    inputs = frame.drop(columns=[label]) if isinstance(label, str) else frame
    _check_length(len(values), len(frame))
    text = text or find_text(inputs)
    if text is not None:
        texts = ["" if value is None or value != value else str(value) for value in inputs[text]]
        return from_texts(texts, values, write_clean, names, {"text": text, "label": _name(label)})
    row, labels, classes, skipped = _labelled(list(values), np.ones(len(frame), bool), [], names, _name(label))
    x, left_out = encode_table(inputs.iloc[row])
    about = {"label": _name(label), "columns": [name for name in inputs.columns if name not in left_out]}
    content = _Cells(inputs, row)
    return AuditData("table", taken_from(x), x.shape[1], labels, classes, row, skipped, write_clean, content, about)


def from_texts(
    texts: Sequence[str], values: Sequence[Any], write_clean: WriteClean, names: Any = None, about: Any = None
) -> AuditData:
    _check_length(len(values), len(texts))
    filled = np.array([bool(words(text)) for text in texts], dtype=bool)
    if not filled.any():
        raise ValueError("audit: texts must have words in them, got only empty ones")
    empty = [(int(row), "empty text") for row in np.flatnonzero(~filled)]
    row, labels, classes, skipped = _labelled(list(values), filled, empty, names, (about or {}).get("label", "labels"))
    left = [texts[number] for number in row]
    x, _, vocabulary = tokenise(left, [])
    return AuditData("text", taken_from(x), vocabulary, labels, classes, row, skipped, write_clean, left, about or {})


def from_images(
    sources: Sequence[ImageSource | None], values: Sequence[Any], write_clean: WriteClean, names: Any = None
) -> AuditData:
    x, good, bad = read_images(sources)
    readable = np.zeros(len(sources), bool)
    readable[good] = True
    row, labels, classes, skipped = _labelled(list(values), readable, bad, names)
    place = np.cumsum(readable) - 1
    content = thumbnails([sources[number] for number in row])
    fetch = taken_from(x[torch.from_numpy(place[row])])
    return AuditData("image", fetch, x.shape[1], labels, classes, row, skipped, write_clean, content)


def from_tensor(x: Tensor, values: Sequence[Any]) -> AuditData:
    """Features (rows, n), or images (rows, channels, height, width)."""
    if x.dim() not in (2, 4) or not len(x) or x.is_complex():
        raise ValueError(
            "audit: features must have shape (rows, columns), images (rows, channels, height, width), "
            f"got {tuple(x.shape)}"
        )
    _check_length(len(values), len(x))
    x = x.detach().cpu()
    x = x if x.dtype == torch.uint8 and x.dim() == 4 else x.float()
    whole = torch.isfinite(x).flatten(1).all(1).numpy() if x.is_floating_point() else np.ones(len(x), bool)
    if not whole.any():
        raise ValueError("audit: features must be finite numbers, got a NaN or infinity in every row")
    bad = [(int(row), "not finite") for row in np.flatnonzero(~whole)]
    row, labels, classes, skipped = _labelled(list(values), whole, bad)
    x = x[torch.from_numpy(row)]
    content = None
    if x.dim() == 2:
        x = standardised(x)
    else:
        content = of_tensor(x)
    kind = "features" if x.dim() == 2 else "image"
    clean = clean_list([str(value) for value in values])
    return AuditData(kind, taken_from(x), x.shape[1], labels, classes, row, skipped, clean, content)


def from_dataset(dataset: Any, values: Sequence[Any] | None) -> AuditData:
    """A torch Dataset of ``(input, label)``, or of inputs alone with labels beside it."""
    if values is None:
        if not len(dataset) or not isinstance(dataset[0], (tuple, list)) or len(dataset[0]) < 2:
            raise ValueError("audit: labels must be given for a data set whose samples are not (input, label)")
        values = [_item(dataset[number][1]) for number in range(len(dataset))]

    def input_of(number: int) -> Tensor:
        sample = dataset[number]
        return torch.as_tensor(sample[0] if isinstance(sample, (tuple, list)) else sample)

    _check_length(len(values), len(dataset))
    row, labels, classes, skipped = _labelled(list(values), np.ones(len(dataset), bool), [])
    first = input_of(int(row[0]))
    kind = "image" if first.dim() == 3 else "features"
    inputs = first.shape[0] if first.dim() else 1
    clean = clean_list([str(value) for value in values])

    def fetch(rows: Rows) -> Tensor:
        if isinstance(dataset, TensorDataset):  # all at once
            stacked = dataset.tensors[0][torch.from_numpy(row[rows])]
        else:
            stacked = torch.stack([input_of(int(number)) for number in row[rows]])
        return stacked.float() if stacked.dtype in (torch.uint8, torch.float64) else stacked

    content = None
    if kind == "image":

        def content(place: int) -> bytes:
            return of_tensor(input_of(int(row[place]))[None])(0)

    return AuditData(kind, fetch, inputs, labels, classes, row, skipped, clean, content)


def from_tokens(dataset: Any, values: Sequence[Any], names: Any = None) -> AuditData:
    """Tokenised texts, for a network of the user's that takes them."""
    _check_length(len(values), len(dataset))
    tokens, numbers = token_columns(dataset)
    filled = np.array([len(ids) > 0 for ids in numbers[IDS]], dtype=bool)
    empty = [(int(row), "no tokens") for row in np.flatnonzero(~filled)]
    row, labels, classes, skipped = _labelled(list(values), filled, empty, names)
    left = {name: [column[number] for number in row] for name, column in numbers.items()}
    texts = find_texts(dataset)
    kind, content = ("features", None) if texts is None else ("text", [texts[number] for number in row])
    clean = clean_list([str(value) for value in values])
    fetch, length = fetch_tokens(tokens, left), max(len(ids) for ids in left[IDS])
    return AuditData(kind, fetch, length, labels, classes, row, skipped, clean, content, tokens=tokens)


def clean_list(labels: Sequence[str], column: str = "row", names: Sequence[str] | None = None) -> WriteClean:
    """For data that has no columns: the rows that are not flagged, by number or name, and their labels."""

    def write(folder: Path, flagged: Rows) -> str:
        dropped = set(flagged.tolist())
        with (folder / "clean.csv").open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow([column, "label"])
            listed = range(len(labels)) if names is None else names
            lines.writerows((name, labels[i]) for i, name in enumerate(listed) if i not in dropped)
        return "clean.csv"

    return write


class _Cells(Sequence[Mapping[str, Any]]):
    """Rows of a table as dicts, made when they are asked for."""

    def __init__(self, frame: pd.DataFrame, row: Rows) -> None:
        self.names = [str(name) for name in frame.columns]
        self.columns = [frame[name].to_numpy(dtype=object) for name in self.names]
        self.row = row

    def __len__(self) -> int:
        return len(self.row)

    def frame(self) -> pd.DataFrame:
        """The rows as a table again."""
        import pandas as pd

        columns = dict(zip(self.names, self.columns, strict=True))
        return pd.DataFrame(columns).iloc[self.row].infer_objects()

    def __getitem__(self, place: Any) -> Any:
        number = self.row[place]
        cells = (column[number] for column in self.columns)
        return {name: _cell(cell) for name, cell in zip(self.names, cells, strict=True)}


def _cell(value: Any) -> str | float | None:
    if value is None or value is getattr(value, "NA", 0) or str(value) in ("nan", "<NA>", "NaT"):
        return None
    return float(value) if isinstance(value, (int, float, np.number)) else str(value)


def _labelled(
    values: list[Any], readable: NDArray[np.bool_], bad: list[tuple[int, str]], names: Any = None, owner: str = "labels"
) -> tuple[Rows, Rows, list[str], list[tuple[int, str]]]:
    """Rows that can be used, their labels, the classes, and the rows that cannot."""
    numbers = np.flatnonzero(readable)
    labels = read_labels([_item(values[number]) for number in numbers], names, owner)
    bad = bad + [(int(number), "no label") for number in numbers[~labels.labelled]]
    return numbers[labels.labelled], labels.codes, labels.classes, sorted(bad)


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, (Tensor, np.generic)) else value


def _name(label: str | Sequence[Any]) -> str:
    return label if isinstance(label, str) else "labels"


def _check_length(labels: int, rows: int) -> None:
    if labels != rows:
        raise ValueError(f"audit: labels must be one for each of the {rows:,} rows, got {labels:,}")
