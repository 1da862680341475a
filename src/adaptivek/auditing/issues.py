"""issues.csv: a line for every row of the data, in its order, so that it can stand beside it; and annotators.csv."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.files import harmless
from .data import Rows

if TYPE_CHECKING:
    from .result import AuditResult

COLUMNS = (
    "row",
    "label",
    "suggested_label",
    "score",
    "is_issue",
    "removed",
    "other_label",
    "other_probability",
    "alike",
    "skipped",
)


def write_issues(path: Path, result: AuditResult) -> None:
    """Every row once; one that was skipped has no score, and says why."""
    given = result.given
    files = None if given is None else given.files
    optional = ["file"] if files is not None else []
    optional += ["annotator"] if _one_row_each(result) else []
    optional += ["trusted"] if given is not None and given.trusted is not None else []
    lines = sorted([*_scored(result), *_skipped(result)], key=lambda line: int(line["row"]))
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [COLUMNS[0], *optional, *COLUMNS[1:]], restval="", extrasaction="ignore")
        table.writeheader()
        for line in lines:
            if files is not None:
                line["file"] = harmless(str(files[int(line["row"])]))
            table.writerow(line)


def left_out(result: AuditResult) -> Rows:
    """The rows that the cleaned copy does not have."""
    assert result.given is not None
    if not _one_row_each(result):
        return np.union1d(result.row[result.left_out], result.given.unreadable).astype(np.int64)
    votes = result.given.votes
    assert votes is not None
    wrong = votes.row[votes.label != result.suggested_label[votes.item]]
    return np.union1d(wrong, result.given.unreadable).astype(np.int64)


def write_annotators(path: Path, result: AuditResult) -> None:
    """How often each annotator errs, the worst first."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["annotator", "labels", "error_rate", "agreement"])
        table.writerows(
            (harmless(name), number, f"{error:.6f}", f"{agreement:.6f}")
            for name, number, error, agreement in annotators(result)
        )


def annotators(result: AuditResult) -> list[tuple[str, int, float, float]]:
    """Name, number of labels, error rate (Dawid and Skene), and share of labels that all together agree with."""
    if result.given is None or result.given.votes is None or result.given.annotators is None:
        return []
    votes, found = result.given.votes, result.given.annotators
    number = np.bincount(votes.annotator, minlength=len(votes.names))
    agrees = np.bincount(votes.annotator, votes.label == result.label[votes.item], len(votes.names))
    lines = zip(votes.names, number, found.error_rates, agrees / np.maximum(number, 1), strict=True)
    known = [(name, int(count), float(error), float(share)) for name, count, error, share in lines if count]
    return sorted(known, key=lambda line: -line[2])


def _scored(result: AuditResult) -> Iterator[dict[str, Any]]:
    names = [harmless(name) for name in result.classes]
    trusted = None if result.given is None else result.given.trusted
    if _one_row_each(result):
        yield from _votes(result, names)
        return
    removed = result.left_out
    for place, row in enumerate(result.row.tolist()):
        yield {
            "row": row,
            "label": names[result.label[place]],
            "suggested_label": names[result.suggested_label[place]],
            "score": f"{result.score[place]:.6f}",
            "is_issue": bool(result.is_issue[place]),
            "removed": bool(removed[place]),
            "other_label": names[result.other_label[place]],
            "other_probability": f"{result.other_probability[place]:.6f}",
            "alike": "" if result.alike is None or result.alike[place] < 0 else int(result.alike[place]),
            "trusted": "" if trusted is None else bool(trusted[place]),
        }


def _votes(result: AuditResult, names: list[str]) -> Iterator[dict[str, Any]]:
    """Where a row is one label of one annotator: that label, beside what is suggested for the thing it is of."""
    assert result.given is not None
    votes, found = result.given.votes, result.given.annotators
    assert votes is not None
    assert found is not None
    for item, who, label, row in zip(votes.item, votes.annotator, votes.label, votes.row, strict=True):
        p = found.posterior[item]
        other = int(np.where(np.arange(len(p)) == label, -1, p).argmax())
        suggested = int(result.suggested_label[item])
        yield {
            "row": int(row),
            "annotator": harmless(votes.names[who]),
            "label": names[label],
            "suggested_label": names[suggested],
            "score": f"{p[label]:.6f}",
            "is_issue": bool(label != suggested),
            "removed": bool(label != suggested),
            "other_label": names[other],
            "other_probability": f"{p[other]:.6f}",
            "trusted": "" if result.given.trusted is None else bool(result.given.trusted[item]),
        }


def _skipped(result: AuditResult) -> Iterator[dict[str, Any]]:
    why = dict(result.skipped)
    seen = set(result.row.tolist())
    given = result.given
    if given is not None and given.votes is not None and given.votes.one_row_each:
        seen = set(given.votes.row.tolist())
        why = {
            row: why.get(row, "no label, or one on which annotators never agree")
            for row in range(given.rows)
            if row not in seen
        }
    yield from ({"row": row, "is_issue": False, "skipped": reason} for row, reason in why.items() if row not in seen)


def _one_row_each(result: AuditResult) -> bool:
    return result.given is not None and result.given.votes is not None and result.given.votes.one_row_each
