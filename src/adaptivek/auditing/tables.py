"""Files with columns, and data sets of the Hub, as tables; and how each is written again without some rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..support.files import write_whole
from ..support.images import ImageSource, hub_images
from .data import Rows, WriteClean

SEPARATORS = ",;\t|"
PICTURES = (
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
    b"GIF8",
    b"BM",
    b"RIFF",
    b"II*\0",
    b"MM\0*",
)  #: how files of images begin


@dataclass(frozen=True)
class Table:
    frame: Any  #: a data frame of all columns but images
    write_clean: WriteClean
    class_names: dict[str, list[str]] = field(default_factory=dict)  #: of columns that hold codes of named classes
    image: str = ""  #: the column of images, if there is one
    images: Sequence[ImageSource | None] = ()
    files: Sequence[str] | None = None  #: the name of each image


def read_table(path: Path, label: str | None, fewest: int = 2) -> Table | None:
    """A file with columns, so many of them at least; None if it is of another kind."""
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv", ".txt"):
        return _read_csv(path, label, fewest)
    if suffix in (".parquet", ".pq"):
        return _read_parquet(path, label)
    if suffix in (".jsonl", ".ndjson", ".json"):
        return _read_json(path, label)
    return None


def frame_table(frame: Any, label: str | None, separator: str = ",", header: Sequence[str] | None = None) -> Table:
    """A data frame, written as CSV with the cells as they were."""

    def write(folder: Path, left_out: Rows, corrected: Mapping[int, int]) -> str:
        name = "clean.tsv" if separator == "\t" else "clean.csv"
        kept = _corrected(frame, label, corrected).iloc[_kept(len(frame), left_out)]
        kept.to_csv(folder / name, index=False, sep=separator, header=True if header is None else list(header))
        return name

    return Table(frame, write)


def hub_table(dataset: Any, label: str | None) -> Table:
    """A `datasets.Dataset`."""

    def write(folder: Path, left_out: Rows, corrected: Mapping[int, int]) -> str:
        changed = dataset
        if label is not None and corrected:
            values = list(dataset[label][:])
            new = [values[corrected.get(row, row)] for row in range(len(values))]
            changed = dataset.remove_columns([label]).add_column(label, new).select_columns(dataset.column_names)
            changed = changed.cast(dataset.features)
        changed.select(_kept(len(dataset), left_out)).to_parquet(str(folder / "clean.parquet"))
        return "clean.parquet"

    kinds = {name: type(kind).__name__ for name, kind in dataset.features.items()}
    names = {name: dataset.features[name].names for name, kind in kinds.items() if kind == "ClassLabel"}
    pictures = [name for name, kind in kinds.items() if kind == "Image"]
    frame = dataset.remove_columns(pictures).to_pandas() if pictures else dataset.to_pandas()
    if not pictures:
        return Table(frame, write, names)
    return Table(frame, write, names, pictures[0], hub_images(dataset, pictures[0]))


def _read_csv(path: Path, label: str | None, fewest: int) -> Table:
    """All cells as the text that they are, so that what is written again is the same."""
    pandas = load_pandas()
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            beginning = file.read(65_536)
        if "\0" in beginning or not beginning.strip():
            raise ValueError("it is empty" if not beginning.strip() else "it has bytes that no text has")
        first = beginning.partition("\n")[0]
        separator = max(SEPARATORS, key=first.count)
        if separator not in first and len(next(csv.reader([first]))) < fewest:
            raise ValueError("its first line names one column only")
        # the first line as any other: pandas would make up a name where there is none
        cells = pandas.read_csv(
            path, sep=separator, header=None, dtype=str, keep_default_na=False, encoding="utf-8-sig", low_memory=False
        )
    except (ValueError, csv.Error) as error:  # of pandas too: what cannot be parsed or decoded
        raise ValueError(f"audit: {path} must be a CSV file in UTF-8: {error}") from None
    header = cells.iloc[0].tolist()
    frame = cells.iloc[1:].reset_index(drop=True).set_axis(unique_names(header), axis=1)
    if not len(frame):
        raise ValueError(f"audit: {path} must have rows, got the names of columns alone")
    return frame_table(frame, label, separator, header)


def unique_names(header: Sequence[str]) -> list[str]:
    """Names to tell columns apart by: one without a name is called by its place, one that comes again is numbered."""
    found: list[str] = []
    for place, name in enumerate(header):
        base = name if name.strip() else f"column {place + 1}"
        again = 1
        while (base if again == 1 else f"{base}.{again}") in found:
            again += 1
        found.append(base if again == 1 else f"{base}.{again}")
    return found


def _read_json(path: Path, label: str | None) -> Table:
    """JSON lines, or a list of objects; lines are written again as they were."""
    pandas = load_pandas()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except ValueError as error:
        raise ValueError(f"audit: {path} must be JSON in UTF-8: {error}") from None
    as_list = text.lstrip().startswith("[")
    lines = [] if as_list else [line for line in text.split("\n") if line.strip()]
    records: list[Any] = []
    for number, part in enumerate([text] if as_list else lines, start=1):
        try:
            found = json.loads(part)
        except (ValueError, RecursionError) as error:
            where = path if as_list else f"line {number} of {path}"
            raise ValueError(f"audit: {where} must be JSON: {error}") from None
        records += found if as_list else [found]
    if not records or not all(isinstance(record, dict) for record in records):
        got = next((type(record).__name__ for record in records if not isinstance(record, dict)), "nothing")
        raise ValueError(f"audit: {path} must hold JSON objects, one a line or in a list, got {got}")

    def write(folder: Path, left_out: Rows, corrected: Mapping[int, int]) -> str:
        kept = _kept(len(records), left_out).tolist()
        changed = dict(enumerate(records))
        for row, donor in corrected.items():
            changed[row] = records[row] | {label: records[donor][label]}
        if as_list:
            write_whole(folder / "clean.json", json.dumps([changed[row] for row in kept], ensure_ascii=False, indent=1))
            return "clean.json"
        new = (json.dumps(changed[row], ensure_ascii=False) if row in corrected else lines[row] for row in kept)
        write_whole(folder / "clean.jsonl", "".join(f"{line.rstrip()}\n" for line in new))
        return "clean.jsonl"

    frame = pandas.DataFrame.from_records(records)
    for name in frame.columns:  # lists and objects inside, which nothing can be learned from, as text
        if frame[name].map(lambda value: isinstance(value, (list, dict))).any():
            frame[name] = frame[name].map(lambda value: json.dumps(value) if isinstance(value, (list, dict)) else value)
    return Table(frame, write)


def _read_parquet(path: Path, label: str | None) -> Table:
    load_pandas()
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ImportError("reading Parquet needs pyarrow: pip install 'adaptivek[audit]'") from None
    try:
        table = parquet.read_table(path)
    except (ArrowException, ValueError) as error:
        raise ValueError(f"audit: {path} must be a Parquet file: {error}") from None

    def write(folder: Path, left_out: Rows, corrected: Mapping[int, int]) -> str:
        changed = table
        if label is not None and corrected:
            order = np.arange(len(table))
            order[list(corrected)] = list(corrected.values())
            place = table.column_names.index(label)
            changed = table.set_column(place, table.schema.field(place), table.column(place).take(order))
        parquet.write_table(changed.take(_kept(len(table), left_out)), folder / "clean.parquet")
        return "clean.parquet"

    pictures = [name for name in table.column_names if _is_image(table, name)]
    frame = table.drop_columns(pictures).to_pandas()
    names = named_classes(table.schema.metadata or {})
    if not pictures:
        return Table(frame, write, names)
    cells = table.column(pictures[0]).to_pylist()
    sources, files = [_source(cell, path.parent) for cell in cells], [_file(cell) for cell in cells]
    return Table(frame, write, names, pictures[0], sources, files if any(files) else None)


def _is_image(table: Any, name: str) -> bool:
    """A column as the Hub has it, of bytes and paths, or of the bytes of images alone."""
    from pyarrow import types

    kind = table.schema.field(name).type
    if types.is_struct(kind):
        return {kind.field(place).name for place in range(kind.num_fields)} == {"bytes", "path"}
    if not (types.is_binary(kind) or types.is_large_binary(kind)):
        return False
    first = next((cell.as_py() for cell in table.column(name) if cell.is_valid), b"")
    return bool(first.startswith(PICTURES))


def _source(cell: Any, folder: Path) -> ImageSource | None:
    if cell is None or isinstance(cell, bytes):
        return cell
    path = cell["path"]
    return cell["bytes"] or (folder / path if path else None)


def _file(cell: Any) -> str:
    return str(cell["path"] or "") if isinstance(cell, dict) else ""


def named_classes(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Names of classes that the Hub's library has written into the file."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        named = {name: kind["names"] for name, kind in features.items() if kind.get("_type") == "ClassLabel"}
        return {name: [str(each) for each in names] for name, names in named.items()}
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}  # it comes from elsewhere


def _corrected(frame: Any, label: str | None, corrected: Mapping[int, int]) -> Any:
    """The frame with labels taken from other rows, so that they keep their type."""
    if label is None or not corrected:
        return frame
    order = np.arange(len(frame))
    order[list(corrected)] = list(corrected.values())
    changed, name = frame.copy(), next(name for name in frame.columns if str(name) == label)
    changed[name] = frame[name].take(order).to_numpy()
    return changed


def _kept(rows: int, left_out: Rows) -> Rows:
    kept: Rows = np.setdiff1d(np.arange(rows), left_out)
    return kept


def load_pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("auditing tables needs pandas: pip install 'adaptivek[audit]'") from None
    return pandas
