"""Large data without the flagged rows: a file for each file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...support.files import whole
from ..data import Rows, WriteClean
from .rows import ParquetRows

FOLDER = "clean"


def clean_files(rows: ParquetRows, label: str) -> WriteClean:
    """Writes ``clean/`` with the files of the data under their names; all columns and the order as they were."""

    def write(folder: Path, left_out: Rows, corrected: Mapping[int, int]) -> str:
        from pyarrow import parquet

        donors = np.unique(np.array(list(corrected.values()), np.int64))
        labels = rows.take(donors, [label]).column(0)
        changed = np.array(sorted(corrected), np.int64)
        place = np.searchsorted(donors, [corrected[int(row)] for row in changed])
        for file, name in enumerate(rows.names):
            path = folder / FOLDER / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole(path) as partial, parquet.ParquetWriter(partial, rows.schema) as to:
                for start, table in rows.of_file(file, rows.columns):
                    low, high = np.searchsorted(changed, [start, start + len(table)])
                    table = _relabelled(table, label, changed[low:high] - start, labels, place[low:high])
                    low, high = np.searchsorted(left_out, [start, start + len(table)])
                    kept = np.ones(len(table), bool)
                    kept[left_out[low:high] - start] = False
                    to.write_table(table.filter(kept))
        return FOLDER

    return write


def _relabelled(table: Any, label: str, rows: Rows, labels: Any, place: Rows) -> Any:
    """With other labels in these rows."""
    import pyarrow as pa

    if not len(rows):
        return table
    column = table.schema.get_field_index(label)
    order = np.arange(len(table))
    order[rows] = len(table) + place
    both = pa.chunked_array([*table.column(column).chunks, *labels.chunks])
    return table.set_column(column, table.schema.field(column), both.take(order))
