"""Data of any kind in the form that the audit needs: inputs, labels, and how to show and write rows."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import TensorDataset

from ..support.images import ImageSource
from ..support.text import words
from .annotators import DawidSkene, Votes
from .columns import Columns, column_words, sort_columns
from .images import of_tensor, read_images, thumbnails
from .labels import read_labels
from .large.fetched import Fetched
from .networks import standardised, taken_from
from .table_features import encode_table
from .tokens import IDS, fetch_tokens, find_texts, token_columns
from .training import Fetch

if TYPE_CHECKING:
    import pandas as pd

    from .large.load import Streamed

Rows = NDArray[np.int64]
#: writes the data without these rows into a folder, some with the label of another row; gives the name of the file
WriteClean = Callable[[Path, Rows, Mapping[int, int]], str]


@dataclass(frozen=True)
class AuditData:
    """A data set with labels, ready to train on."""

    kind: str  #: text, image, table or features
    fetch: Fetch  #: inputs by place among the rows that can be used
    inputs: int  #: features, channels or words: what a network must know of them; 0: see `tokenised`
    labels: Rows  #: (n,) codes of the observed labels
    classes: list[str]
    row: Rows  #: (n,) number of each in the original data
    skipped: list[tuple[int, str]]
    write_clean: WriteClean
    content: Any = None  #: what the page shows: texts, dicts, a function to thumbnails
    about: dict[str, Any] = field(default_factory=dict)  #: for the settings: columns used, say
    tokens: tuple[str, ...] = ()  #: of tokenised texts: the arguments of the network that inputs are made of
    cells: Any = None  #: for the page, where other columns stand beside the texts: dicts
    beside: tuple[list[str], Tensor] | None = None  #: then also the texts alone, and the other columns as features
    files: Sequence[str] | None = None  #: the name of every row of the original data, where it has one
    rows: int = 0  #: of the original data, where several are one item
    unreadable: Rows = field(default_factory=lambda: np.zeros(0, np.int64))  #: rows that no cleaned copy has
    trusted: NDArray[np.bool_] | None = None  #: (n,) rows whose label is known to be clean
    votes: Votes | None = None  #: of several annotators, where there are; then `labels` are what they say together
    annotators: DawidSkene | None = None
    reviewed: Reviewed | None = None  #: what a person has decided before
    streamed: Streamed | None = None  #: where the rows are, if they are too many for memory

    @property
    def shown(self) -> tuple[str, Any]:
        """Kind and content of the rows on the page."""
        return (self.kind, self.content) if self.cells is None else ("table", self.cells)

    def of(self, places: Rows) -> AuditData:
        """These rows alone."""

        def pick(content: Any) -> Any:
            if content is None:
                return None
            if isinstance(content, Fetched):
                return content.of(places)
            return (lambda place: content(int(places[place]))) if callable(content) else _Picked(content, places)

        return replace(
            self,
            fetch=lambda rows: self.fetch(places[rows]),
            labels=self.labels[places],
            row=self.row[places],
            content=[self.content[place] for place in places] if isinstance(self.content, list) else pick(self.content),
            cells=pick(self.cells),
            beside=self.beside and ([self.beside[0][place] for place in places], self.beside[1][places]),
            trusted=None if self.trusted is None else self.trusted[places],
            votes=None if self.votes is None else self.votes.of(places),
            annotators=self.annotators and self.annotators._replace(posterior=self.annotators.posterior[places]),
        )


@dataclass(frozen=True)
class Reviewed:
    """Decisions of an earlier round, of the rows that are left and of those that were dropped."""

    label: Rows  #: (n,) the label before
    decision: NDArray[np.str_]  #: (n,) keep, fix, or nothing
    dropped: list[tuple[int, int]]  #: row and the label that it had


def from_frame(
    frame: pd.DataFrame,
    label: str | Sequence[Any],
    text: str | None,
    write_clean: WriteClean,
    names: Any,
    aside: Mapping[str, str],
) -> AuditData:
    """A table: all its columns together, or the column ``text`` alone; those aside are left out, each for a reason."""
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    values = frame[label] if isinstance(label, str) else label
    inputs = frame.drop(columns=[label] if isinstance(label, str) else []).drop(columns=list(aside))
    _check_length(len(values), len(frame))
    if text is None:
        columns = sort_columns(inputs)
    else:
        columns = Columns({text: "text"}, {name: "not the text" for name in inputs.columns if name != text})
    about: dict[str, Any] = {"label": _name(label), "columns": list(columns.used), "used_as": columns.used}
    about["left_out"] = columns.left_out | dict(aside)
    texts, others = columns.of("text"), columns.of("number", "category", "date")
    if texts:
        about["text"] = texts[0] if len(texts) == 1 else texts
        joined = join_texts(inputs, texts)
        if not others:
            return from_texts(joined, values, write_clean, names, about)
        # words of the columns stand behind the text: what learns from texts then learns from all of them
        whole = [f"{start}\n{end}" for start, end in zip(joined, column_words(inputs, columns), strict=True)]
        data = from_texts(whole, values, write_clean, names, about)
        beside = [joined[number] for number in data.row], encode_table(inputs.iloc[data.row], columns)
        first = inputs[[*texts, *(name for name in inputs.columns if name not in texts)]]  # the page shows few columns
        return replace(data, cells=Cells(first, data.row), beside=beside)
    row, labels, classes, skipped = _labelled(list(values), np.ones(len(frame), bool), [], names, _name(label))
    x = encode_table(inputs.iloc[row], columns)
    content = Cells(inputs, row)
    return AuditData("table", taken_from(x), x.shape[1], labels, classes, row, skipped, write_clean, content, about)


def join_texts(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """One text for each row, of several columns."""
    parts = [["" if _is_none(value) else str(value) for value in frame[name]] for name in names]
    return ["\n".join(filter(None, cells)) for cells in zip(*parts, strict=True)]


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
    return AuditData("text", _no_tokens, 0, labels, classes, row, skipped, write_clean, left, about or {})


def from_images(
    sources: Sequence[ImageSource | None],
    values: Sequence[Any],
    write_clean: WriteClean,
    names: Any = None,
    files: Sequence[str] | None = None,
    about: Any = None,
) -> AuditData:
    _check_length(len(values), len(sources))
    x, good, bad = read_images(sources)
    readable = np.zeros(len(sources), bool)
    readable[good] = True
    row, labels, classes, skipped = _labelled(list(values), readable, bad, names)
    place = np.cumsum(readable) - 1
    content = thumbnails([sources[number] for number in row])
    fetch = taken_from(x[torch.from_numpy(place[row])])
    unreadable = np.array([number for number, _ in bad], dtype=np.int64)
    data = AuditData("image", fetch, x.shape[1], labels, classes, row, skipped, write_clean, content, about or {})
    return replace(data, files=files, unreadable=unreadable)


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

    def write(folder: Path, left_out: Rows, corrected: Mapping[int, int]) -> str:
        dropped = set(left_out.tolist())
        with (folder / "clean.csv").open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow([column, "label"])
            listed = range(len(labels)) if names is None else names
            lines.writerows((name, labels[corrected.get(i, i)]) for i, name in enumerate(listed) if i not in dropped)
        return "clean.csv"

    return write


class _Picked(Sequence[Any]):
    """Some entries of a sequence, without a copy."""

    def __init__(self, entries: Sequence[Any], places: Rows) -> None:
        self.entries, self.places = entries, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: Any) -> Any:
        return self.entries[int(self.places[place])]


class Cells(Sequence[Mapping[str, Any]]):
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


def _no_tokens(rows: Rows) -> Tensor:
    raise RuntimeError("texts must be tokenised before they are fetched")


def _is_none(value: Any) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _cell(value: Any) -> str | float | None:
    if _is_none(value):
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
