"""Many Parquet files as one long table that is never in memory as a whole.

Rows are numbered through all files, in the order of their names. Batches begin at the same rows however the rows are
split into files, so nothing that is computed from a batch depends on the files.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BATCH = 50_000  #: rows that are in memory at once
BUFFER = 1 << 18  #: bytes of a column that are read at once
SUFFIXES = (".parquet", ".pq")

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class ParquetRows:
    """The rows of all files."""

    names: list[str]  #: of the files, without the folder that all are in
    paths: list[Path]
    starts: Numbers  #: (files + 1,) number of the first row of each file, and of all rows
    schema: Any
    batch: int = BATCH  #: rows of a batch

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    def batches(self, columns: Sequence[str], start: int = 0) -> Iterator[tuple[int, Any]]:
        """The number of its first row, and a table of `batch` rows, the last one of fewer; from ``start`` on."""
        import pyarrow as pa

        held: list[Any] = []
        for table in self._pieces(columns, start):
            held.append(table)
            while sum(map(len, held)) >= self.batch:
                joined = pa.concat_tables(held)
                yield start, joined.slice(0, self.batch)
                start, rest = start + self.batch, joined.slice(self.batch)
                held = [rest] if len(rest) else []  # nothing that would keep rows that are gone
        if sum(map(len, held)):
            yield start, pa.concat_tables(held)

    def take(self, rows: Numbers, columns: Sequence[str]) -> Any:
        """A table of these rows, which must be in order."""
        import pyarrow as pa

        found = [self.schema.empty_table().select(list(columns))]
        for file in np.unique(self.file_of(rows)).tolist():
            for start, table in self.of_file(file, columns):
                low, high = np.searchsorted(rows, [start, start + len(table)])
                if low < high:
                    found.append(table.take(rows[low:high] - start))
        return pa.concat_tables(found)

    def file_of(self, rows: Numbers) -> Numbers:
        """Which file each row is in."""
        found: Numbers = np.searchsorted(self.starts, rows, side="right") - 1
        return found

    def _pieces(self, columns: Sequence[str], start: int) -> Iterator[Any]:
        """Tables of rows that follow each other, from ``start`` on."""
        for file in range(len(self.paths)):
            if self.starts[file + 1] > start:
                for first, table in self.of_file(file, columns):
                    if first + len(table) > start:
                        yield table.slice(max(0, start - first))

    def of_file(self, file: int, columns: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """The rows of one file in tables of at most `batch`, each with the number of its first row."""
        import pyarrow as pa
        from pyarrow import parquet

        start = int(self.starts[file])
        schema = pa.schema([self.schema.field(name) for name in columns])
        try:
            # `iter_batches` decodes no more than it gives; pyarrow's dataset API would decode a row group, which may be
            # a whole file
            with parquet.ParquetFile(self.paths[file], buffer_size=BUFFER, pre_buffer=False) as opened:
                for batch in opened.iter_batches(self.batch, columns=list(columns)):
                    yield start, pa.Table.from_batches([batch]).select(list(columns)).cast(schema)
                    start += len(batch)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"audit: {self.names[file]} must be a Parquet file that is whole: {error}") from None


def parquet_files(source: str | Path) -> list[Path]:
    """The Parquet files of a folder, or those that a pattern such as ``data/*.parquet`` names; none if it is neither.

    What begins with a dot or an underscore is left by programs that write such folders, and not data. A folder that has
    more of other files, images say, is not one of Parquet files.
    """
    folder = Path(source)
    if folder.is_dir():
        files = [path for path in folder.rglob("*.*") if not _hidden(path.relative_to(folder)) and path.is_file()]
        found = sorted(path for path in files if path.suffix.lower() in SUFFIXES)
        return found if 2 * len(found) >= len(files) else []
    if not glob.has_magic(str(source)) or folder.is_file():
        return []
    named = map(Path, glob.glob(str(source), recursive=True))
    return sorted(path for path in named if path.suffix.lower() in SUFFIXES and path.is_file())


def parquet_length(file: Path) -> int:
    """How many rows a file has; 0 if that cannot be read."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        return 0
    try:
        return int(parquet.read_metadata(file).num_rows)
    except (ArrowException, OSError):
        return 0


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def open_rows(files: Sequence[Path]) -> ParquetRows:
    """Their rows, after a look at the footer of every file: all must have the same columns."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ImportError("reading Parquet needs pyarrow: pip install 'adaptivek[audit]'") from None
    counts: list[int] = []
    fields: dict[str, Any] = {}
    metadata = None
    for file in files:
        try:
            with parquet.ParquetFile(file) as opened:
                schema = opened.schema_arrow
                counts.append(opened.metadata.num_rows)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"audit: {file} must be a Parquet file that is whole: {error}") from None
        if len(set(schema.names)) < len(schema):
            raise ValueError(f"audit: {file} must have columns of different names, got {', '.join(schema.names)}")
        mine = {field.name: field.type for field in schema}
        fields = _agreed(fields, mine, files[0], file) if fields else mine
        metadata = metadata or schema.metadata
    if not sum(counts):
        raise ValueError(f"audit: Parquet files must have rows, got none in {len(files):,} of them")
    schema = pa.schema(list(fields.items()), metadata=metadata)
    return ParquetRows(_names(files), list(files), np.cumsum([0, *counts]), schema, BATCH)


def _agreed(fields: dict[str, Any], mine: dict[str, Any], first: Path, file: Path) -> dict[str, Any]:
    """The types of the columns, if those of one more file go with them; a column without any value has no type yet."""
    import pyarrow as pa

    for name in fields.keys() ^ mine.keys():
        has, lacks = (first, file) if name in fields else (file, first)
        raise ValueError(f"audit: Parquet files must have the same columns: {lacks} has no {name!r}, {has} has it")
    for name, kind in mine.items():
        if kind != fields[name] and not pa.types.is_null(kind) and not pa.types.is_null(fields[name]):
            raise ValueError(
                f"audit: Parquet files must have columns of the same types: {name!r} is {fields[name]} in {first} and "
                f"{kind} in {file}"
            )
    return {name: mine[name] if pa.types.is_null(kind) else kind for name, kind in fields.items()}


def _names(files: Sequence[Path]) -> list[str]:
    """Their paths, without what all have in common."""
    depth = 0
    parts = [file.parts for file in files]
    while all(len(each) > depth + 1 and each[depth] == parts[0][depth] for each in parts):
        depth += 1
    return [Path(*each[depth:]).as_posix() for each in parts]
