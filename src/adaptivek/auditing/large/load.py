"""Rows that are not in memory as data to audit: their labels, and a sample of the rest to learn from.

All labels are read first, which is one column. Then a random sample of rows is read: what the columns are, and how they
are encoded, is learned from it, and later the models. It is bounded, so from there on time grows with the rows and
memory hardly does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...support.labels import is_missing
from ...support.streams import stream
from ..columns import Columns, column_words, learn_edges, sort_columns
from ..data import AuditData, Cells, Rows, join_texts
from ..labels import MOST_CLASSES, class_names, is_true, number_classes, plain_label
from ..table_features import Learned, apply_table, learn_table
from ..tables import named_classes
from .clean import clean_files
from .fetched import Fetched
from .rows import ParquetRows

if TYPE_CHECKING:
    import pandas as pd

    from ..sources import Use

SAMPLE = 100_000  #: rows that models are fitted to
MOST_NUMBERS = 25_000_000  #: of the sample's predictions, one for each row and class
FEWEST = 20  #: rows of every class in the sample, or all that there are


@dataclass(frozen=True)
class Encoder:
    """Rows of the table as texts and as numbers, each as it is without the other rows."""

    columns: Columns
    learned: list[Learned]  #: of numbers, categories and dates; empty where there are texts alone
    edges: dict[tuple[str, str], Any]  #: of numbers that become words beside texts

    def texts(self, frame: pd.DataFrame) -> list[str] | None:
        """One for each row, with words for the other columns; None of a table without texts."""
        names = self.columns.of("text")
        if not names:
            return None
        joined = join_texts(frame, names)
        if not self.learned:
            return joined
        words = column_words(frame, self.columns, self.edges)
        return [f"{start}\n{end}" for start, end in zip(joined, words, strict=True)]

    def numbers(self, frame: pd.DataFrame) -> NDArray[np.float32] | None:
        """(rows, features)."""
        return apply_table(self.learned, frame).numpy() if self.learned else None


@dataclass(frozen=True)
class Streamed:
    """Where rows come from that are not in memory, and the sample of them that is."""

    rows: ParquetRows
    encoder: Encoder
    row: Rows  #: numbers of the rows of the sample, in order
    drawn: NDArray[np.bool_]  #: which of these were drawn from all rows alike, not for the sake of a rare class
    sample: Any  #: their cells, a data frame

    def frame(self, table: Any) -> pd.DataFrame:
        return to_frame(table.select(list(self.encoder.columns.used)))


def load_rows(rows: ParquetRows, label: str, use: Use) -> AuditData:
    """The data, with its rows still in their files."""
    codes, classes, trusted = _read_labels(rows, label, use.trusted if isinstance(use.trusted, str) else None)
    most = int((MOST_NUMBERS / FEWEST) ** 0.5)
    if len(classes) > most:
        raise ValueError(f"audit: {label} must have at most {most:,} classes in large data, got {len(classes):,}")
    row = np.flatnonzero(codes >= 0)
    labels = codes[row]
    aside = use.aside | {name: why for name, why in _unused(rows).items() if name != label}
    places, drawn = draw(labels, len(classes))
    names = [name for name in rows.columns if name != label and name not in aside]
    sample = to_frame(rows.take(row[places], names))
    if use.text is None:
        columns = sort_columns(sample)
    else:
        columns = Columns({use.text: "text"}, {name: "not the text" for name in names if name != use.text})
    texts, others = columns.of("text"), columns.of("number", "category", "date")
    learned = learn_table(sample, columns) if others or not texts else []
    encoder = Encoder(columns, learned, learn_edges(sample, columns) if texts and others else {})
    about: dict[str, Any] = {"label": label, "columns": list(columns.used), "used_as": columns.used}
    about |= {"left_out": columns.left_out | aside, "files": len(rows.names)}
    if texts:
        about["text"] = texts[0] if len(texts) == 1 else texts
    streamed = Streamed(rows, encoder, row[places], drawn, sample[list(columns.used)])
    shown = [*texts, *(name for name in names if name not in texts)]
    cells = Fetched(rows, row, shown, lambda frame: Cells(frame, np.arange(len(frame))))
    only_texts = Fetched(rows, row, texts, lambda frame: join_texts(frame, texts))

    def fetch(wanted: Rows) -> Any:
        raise RuntimeError("the rows of large data are read in batches, not fetched")

    return AuditData(
        "text" if texts else "table",
        fetch,
        0,
        labels,
        classes,
        row,
        [(int(number), "no label") for number in np.flatnonzero(codes < 0)],
        clean_files(rows, label),
        only_texts if texts else cells,
        about,
        cells=cells if texts and others else None,
        trusted=None if trusted is None else trusted[row],
        streamed=streamed,
    )


def draw(labels: Rows, classes: int) -> tuple[Rows, NDArray[np.bool_]]:
    """Places of a sample, in order, and which of these were drawn from all rows alike.

    The others are added so that of every class there are a few. The numbers of the rows decide all of it.
    """
    rng = stream(0, "audit rows")
    number = min(len(labels), SAMPLE, MOST_NUMBERS // classes)
    some = rng.choice(len(labels), number, replace=False, shuffle=False)
    lacking = FEWEST - np.bincount(labels[some], minlength=classes)
    rare = np.flatnonzero(np.isin(labels, np.flatnonzero(lacking > 0)))
    rare = rng.permutation(np.setdiff1d(rare, some))
    of_class = rare[np.argsort(labels[rare], kind="stable")]
    counts = np.bincount(labels[of_class], minlength=classes)
    rank = np.arange(len(of_class)) - np.repeat(np.cumsum(counts) - counts, counts)
    more = of_class[rank < lacking[labels[of_class]]]
    places = np.concatenate([some, more])
    order = np.argsort(places)
    return places[order], order < len(some)


def to_frame(table: Any) -> pd.DataFrame:
    """A data frame whose columns have the same types in every batch, be there missing values or not."""
    from pyarrow import float64, types

    for place, field in enumerate(table.schema):
        if types.is_boolean(field.type) or types.is_decimal(field.type):
            cells = table.column(place)
            cells = cells.cast("int8") if types.is_boolean(field.type) else cells
            table = table.set_column(place, field.name, cells.cast(float64()))
    return table.to_pandas()


def _unused(rows: ParquetRows) -> dict[str, str]:
    """Columns that nothing is learned from, and why."""
    from pyarrow import types

    found = {}
    for field in rows.schema:
        if types.is_struct(field.type) and {each.name for each in field.type} == {"bytes", "path"}:
            raise ValueError(f"audit: images must be in one Parquet file or a folder, got many files with {field.name}")
        if types.is_nested(field.type):
            found[field.name] = "nested"
        elif types.is_binary(field.type) or types.is_large_binary(field.type):
            found[field.name] = "bytes"
    return found


def _read_labels(
    rows: ParquetRows, label: str, trusted: str | None
) -> tuple[Rows, list[str], NDArray[np.bool_] | None]:
    """A code for each row, -1 where there is no label; the classes; which rows are trusted, where a column says so."""
    names = named_classes(rows.schema.metadata or {}).get(label)
    first: dict[Any, int] = {}  # plain labels in the order in which they come
    counts = np.zeros(0, np.int64)
    codes, sure = np.empty(len(rows), np.int64), np.zeros(len(rows), bool)
    for start, table in rows.batches([label] if trusted is None else [label, trusted]):
        part = slice(start, start + len(table))
        values, places = _encoded(table.column(0))
        plain = [None if is_missing(value, names is not None) else plain_label(value) for value in values]
        numbers = np.array([-1 if value is None else first.setdefault(value, len(first)) for value in plain], np.int64)
        codes[part] = np.append(numbers, -1)[places]
        found = np.bincount(codes[part][codes[part] >= 0], minlength=len(first))
        counts = found + np.pad(counts, (0, len(first) - len(counts)))
        if len(first) > MOST_CLASSES:
            break  # no need to read on
        if trusted is not None:
            values, places = _encoded(table.column(1))
            sure[part] = np.append(np.array([is_true(value) for value in values], bool), False)[places]
    number = number_classes(dict(zip(first, counts.tolist(), strict=True)), names, label)
    order = np.array([*(number[value] for value in first), -1])
    return order[codes], class_names(number, names), None if trusted is None else sure


def _encoded(column: Any) -> tuple[Sequence[Any], Rows]:
    """The different values of a column, and which of these each row has; -1: none."""
    from pyarrow import types

    whole = column.combine_chunks()
    coded = whole if types.is_dictionary(whole.type) else whole.dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
