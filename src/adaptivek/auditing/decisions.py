"""Decisions made on the page, read back for the next round: labels are fixed, rows dropped, and both are trusted."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .data import AuditData, Reviewed, Rows

COLUMNS = ("row", "label", "corrected_label", "decision")
DECISIONS = ("keep", "fix", "drop", "undecided")
#: an apostrophe that stands before what a spreadsheet would run: see csvCell in decisions.js
APOSTROPHE = re.compile(r"(^|(?<=[;\t\r\n]))'(?=[\"']*[=+\-@\t\uff1d\uff0b\uff0d\uff20])")
LARGEST_CELL = 10_000_000


class Decision(NamedTuple):
    label: str  #: before
    corrected: str  #: empty if dropped
    decision: str


def read_decisions(path: str | Path) -> dict[int, Decision]:
    """By row; rows that are undecided are left out."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"audit: decisions must be a file, {path} was not found")
    csv.field_size_limit(LARGEST_CELL)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            lines = list(reader)
    except (ValueError, csv.Error) as error:
        raise ValueError(f"audit: decisions must be a CSV file in UTF-8, {path} is not: {error}") from None
    if not set(COLUMNS) <= set(reader.fieldnames or []):
        raise ValueError(
            f"audit: decisions must have the columns {', '.join(COLUMNS)}, as the page writes them; {path}"
        )
    found: dict[int, Decision] = {}
    for number, line in enumerate(lines, start=2):
        row, decision = str(line["row"]).strip(), str(line["decision"]).strip()
        if not row.isdigit() or decision not in DECISIONS:
            raise ValueError(
                f"audit: line {number} of {path} must have a row number and one of {', '.join(DECISIONS)}; "
                f"got {row!r} and {decision!r}"
            )
        if decision != "undecided":
            label, corrected = (APOSTROPHE.sub("", line[name] or "") for name in ("label", "corrected_label"))
            found[int(row)] = Decision(label, corrected, decision)
    return found


def with_decisions(data: AuditData, decisions: dict[int, Decision]) -> AuditData:
    """The data with labels fixed and rows dropped; what was decided is trusted."""
    code = {name: number for number, name in enumerate(data.classes)}
    labels, said = data.labels.copy(), np.full(len(data.row), "", dtype="<U4")
    for row, decision in decisions.items():
        at = int(np.searchsorted(data.row, row))
        if at == len(data.row) or data.row[at] != row:
            if decision.decision == "drop":
                continue  # it cannot be read either way
            raise ValueError(f"audit: decisions must be of this data, got one for row {row}, which it does not have")
        now = data.classes[data.labels[at]]
        if not _same(decision.label, now):
            raise ValueError(
                f"audit: decisions must be of this data, but row {row} is labelled {now!r} and not {decision.label!r}: "
                "give the data as it was when the page was made"
            )
        if decision.decision == "fix":
            fixed = next((number for name, number in code.items() if _same(decision.corrected, name)), None)
            if fixed is None:
                raise ValueError(
                    f"audit: decisions must fix to a class of the data, got {decision.corrected!r} for row {row}"
                )
            labels[at] = fixed
        said[at] = decision.decision
    trusted = (said != "") | (np.zeros(len(said), bool) if data.trusted is None else data.trusted)
    kept: Rows = np.flatnonzero(said != "drop")
    gone = np.flatnonzero(said == "drop")
    if len(np.unique(labels[kept])) < 2:
        raise ValueError("audit: decisions must leave rows of at least two classes")
    reviewed = Reviewed(data.labels[kept], said[kept], [(int(data.row[at]), int(data.labels[at])) for at in gone])
    dropped = [(int(data.row[at]), "dropped by decision") for at in gone]
    return replace(
        replace(data, labels=labels, trusted=trusted).of(kept),
        reviewed=reviewed,
        skipped=sorted(data.skipped + dropped),
        unreadable=np.union1d(data.unreadable, data.row[gone]).astype(np.int64),
    )


def corrections(data: AuditData) -> dict[int, int]:
    """For each row whose label was fixed, a row that had this label from the start."""
    if data.reviewed is None or data.votes is not None:  # with several annotators nobody's label is overwritten
        return {}
    before = data.reviewed.label
    donor = {int(code): int(data.row[place]) for code, place in zip(*np.unique(before, return_index=True), strict=True)}
    donor |= {code: row for row, code in reversed(data.reviewed.dropped) if code not in donor}
    fixed = np.flatnonzero(before != data.labels)
    return {int(data.row[place]): donor[int(data.labels[place])] for place in fixed}


def _same(given: str, name: str) -> bool:
    """Whether a cell is this class; a spreadsheet may have written 1 as 1.0."""
    if given.strip() == name.strip():
        return True
    try:
        return float(given) == float(name)
    except ValueError:
        return False
