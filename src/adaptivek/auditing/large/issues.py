"""The issues of large data: Parquet files in parts, with a line for every row in its order."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...support.files import whole

if TYPE_CHECKING:
    from ..result import AuditResult

FOLDER = "issues"
PART = 10  #: batches of a file


def write_parts(folder: Path, result: AuditResult) -> Path:
    """Write ``issues/part-00000.parquet`` and so on; give that folder."""
    from pyarrow import parquet

    assert result.given is not None
    assert result.given.streamed is not None
    rows, to = result.given.streamed.rows, folder / FOLDER
    to.mkdir(parents=True, exist_ok=True)
    for old in to.glob("part-*.parquet"):
        old.unlink()
    for number, start in enumerate(range(0, len(rows), PART * rows.batch)):
        with whole(to / f"part-{number:05d}.parquet") as partial:
            parquet.write_table(part(result, start), partial)
    return to


def part(result: AuditResult, start: int) -> Any:
    """The lines of a part of the rows, from this one on; a row that was skipped has no score, and says why."""
    import pyarrow as pa

    assert result.given is not None
    assert result.given.streamed is not None
    rows, trusted = result.given.streamed.rows, result.given.trusted
    number = np.arange(start, min(start + PART * rows.batch, len(rows)))
    low, high = np.searchsorted(result.row, [start, start + len(number)])
    at, mine = result.row[low:high] - start, slice(low, high)
    file = rows.file_of(number)

    def spread(values: Any, kind: str) -> Any:
        """The values of rows that were not skipped, with nothing for the others."""
        found, missing = np.zeros(len(number), kind), np.ones(len(number), bool)
        found[at], missing[at] = values, False
        return pa.array(found, mask=missing)

    def named(codes: Any) -> Any:
        return pa.DictionaryArray.from_arrays(spread(codes, "int32"), pa.array(result.classes, pa.string()))

    alike = np.full(high - low, -1) if result.alike is None else result.alike[mine]
    far = np.flatnonzero(alike >= 0)
    reasons: list[str | None] = [None] * len(number)
    first = bisect_left(result.skipped, (start, ""))
    for row, reason in result.skipped[first:]:
        if row >= start + len(number):
            break
        reasons[row - start] = reason
    issue, removed = np.zeros((2, len(number)), bool)
    issue[at], removed[at] = result.is_issue[mine], result.left_out[mine]
    nearest, none = np.zeros(len(number), np.int64), np.ones(len(number), bool)
    nearest[at[far]], none[at[far]] = alike[far], False
    columns = {
        "row": pa.array(number),
        "file": pa.DictionaryArray.from_arrays(pa.array(file.astype(np.int32)), pa.array(rows.names, pa.string())),
        "file_row": pa.array(number - rows.starts[file]),
        "label": named(result.label[mine]),
        "suggested_label": named(result.suggested_label[mine]),
        "score": spread(result.score[mine], "float32"),
        "is_issue": pa.array(issue),
        "removed": pa.array(removed),
        "other_label": named(result.other_label[mine]),
        "other_probability": spread(result.other_probability[mine], "float32"),
        "alike": pa.array(nearest, mask=none),
        "skipped": pa.array(reasons, pa.string()),
    }
    if trusted is not None:
        columns["trusted"] = spread(trusted[mine], "bool")
    return pa.table(columns)
