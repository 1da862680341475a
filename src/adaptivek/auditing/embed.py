"""The rows of an audit as one compact JSON inside the page: short where there are many, and harmless whatever it holds.

Data is untrusted. It is read by the page's script with `JSON.parse` and shown as text only; here it is written so that
no row can end the element that holds it.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..backend.checks import check_choice
from .large.fetched import SHOWN, Fetched
from .result import AuditResult

KINDS = ("text", "image", "table", "features")
MOST_ROWS = 300_000  #: a browser stays quick up to here
SNIPPET, LONGEST = 300, 20_000  #: characters of a text, and of one that is flagged
TEXT_BUDGET = 30_000_000  #: characters of all snippets, and of all longer texts
MOST_CELLS, MOST_COLUMNS, CELL = 3_000_000, 100, 200  #: of a table; characters of a cell
FLAGGED_CELL = 2_000  #: and of one that is flagged
MOST_PICTURES, PICTURE_BUDGET = 2_000, 20_000_000  #: bytes of all pictures
PICTURE_TYPES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg"}
KEEP = -1
#: what could end a script element, start a comment or break a line of a script
HARMFUL = "<>&\u2028\u2029"


@dataclass(frozen=True)
class Shown:
    """What a row looks like on the page."""

    kind: Literal["text", "image", "table", "features"]
    #: text: a str for each row of the result; table: a dict of cells for each row; image: a function from the place of
    #: a row in the result to the bytes of a small PNG or JPEG, called for the pictures that the page holds; features:
    #: None
    content: Any = None

    def __post_init__(self) -> None:
        check_choice("Shown", "kind", self.kind, KINDS)


@dataclass(frozen=True)
class Embedded:
    """The JSON, and sentences on what did not fit into it."""

    json: str
    notes: tuple[str, ...]


def embed(result: AuditResult, shown: Shown) -> Embedded:
    """Columns of all rows, the lowest score first, with what they look like."""
    given = result.given
    reviewed = None if given is None else given.reviewed
    undecided = np.ones(len(result.row), bool) if reviewed is None else reviewed.decision == ""
    # what is decided comes first, or it would be forgotten where rows are many; then flagged; then the lowest score
    ranked = np.lexsort((result.score, ~result.is_issue, undecided))
    notes = []
    most, holds_all = (SHOWN, "issues/") if isinstance(shown.content, Fetched) else (MOST_ROWS, "issues.csv")
    if len(ranked) > most:
        notes.append(
            f"The page, and the CSV it makes, hold {most:,} of {len(ranked):,} rows: the flagged and those of the "
            f"lowest score. {holds_all} holds all."
        )
        ranked = ranked[:most]
    if isinstance(shown.content, Fetched):
        shown.content.read(ranked)
    kept = ranked[np.argsort(result.score[ranked], kind="stable")]  # in full: what is embedded is rounded
    labels = result.label if reviewed is None else reviewed.label  # as they were: decisions are of these
    columns: dict[str, Any] = {
        "key": fingerprint(result),
        "kind": shown.kind,
        "classes": [str(name) for name in result.classes],
        "row": result.row[kept].tolist(),
        "label": labels[kept].tolist(),
        "suggested": result.suggested_label[kept].tolist(),
        "score": np.rint(1e4 * np.clip(np.nan_to_num(result.score[kept]), 0, 1)).astype(int).tolist(),
        "flagged": result.is_issue[kept].astype(int).tolist(),
        "loss": [_number(value, 4) for value in result.loss[kept].tolist()],
        "other": result.other_label[kept].tolist(),
        "chance": np.rint(1e4 * np.clip(np.nan_to_num(result.other_probability[kept]), 0, 1)).astype(int).tolist(),
    }
    place = {int(index): number for number, index in enumerate(kept)}
    if given is not None and given.files is not None:
        columns["file"] = [str(given.files[row])[:CELL] for row in columns["row"]]
    if result.alike is not None and (result.alike >= 0).any():
        columns["alike"] = result.alike[kept].tolist()
    if given is not None and given.trusted is not None:
        columns["trusted"] = given.trusted[kept].astype(int).tolist()
    if reviewed is not None:  # a decision is KEEP or the class to fix to, as in decisions.js
        decided = [(int(index), reviewed.decision[index]) for index in kept if reviewed.decision[index]]
        columns["earlier"] = [
            [place[index], int(result.label[index]) if how == "fix" else KEEP] for index, how in decided
        ]
        columns["dropped"] = [[row, label] for row, label in reviewed.dropped]
    flagged = [int(index) for index in ranked if result.is_issue[index]]
    match shown.kind:
        case "text":
            columns["text"], columns["missing"] = _texts(shown.content, kept, flagged, notes)
        case "table":
            columns["columns"] = _table(shown.content, kept, result.is_issue[kept], notes)
        case "image":
            columns["pictures"] = {place[index]: url for index, url in _pictures(shown.content, flagged, notes).items()}
    return Embedded(as_json(columns), tuple(notes))


def as_json(value: object) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in HARMFUL:  # they can only stand inside of strings
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def data_url(picture: bytes) -> str | None:
    """A PNG or JPEG as an address that holds it; None for anything else."""
    kind = next((name for start, name in PICTURE_TYPES.items() if picture.startswith(start)), None)
    return None if kind is None else f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"


def fingerprint(result: AuditResult) -> str:
    """Names the data and its labels, so that decisions are remembered for these and no others."""
    digest = hashlib.sha256(as_json([str(name) for name in result.classes]).encode("utf-8", "replace"))
    for column in (result.row, result.label, result.suggested_label):
        digest.update(np.ascontiguousarray(column, dtype=np.int64).tobytes())
    return digest.hexdigest()[:24]


def _texts(
    content: Sequence[object], kept: NDArray[np.int64], flagged: Sequence[int], notes: list[str]
) -> tuple[list[str], list[int]]:
    """Flagged texts nearly whole while there is room, the others as snippets; and how much of each is missing."""
    snippet = min(SNIPPET, TEXT_BUDGET // max(1, len(kept)))
    whole, room = set(), TEXT_BUDGET
    for index in flagged:
        room -= min(LONGEST, len(_text(content[index])))
        if room < 0:
            notes.append(f"Texts are many and long: flagged ones of a higher score are cut to {snippet} characters.")
            break
        whole.add(index)
    texts, missing = [], []
    for index in kept.tolist():
        text = _text(content[index])
        texts.append(text[: LONGEST if index in whole else snippet])
        missing.append(len(text) - len(texts[-1]))
    return texts, missing


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _table(
    content: Sequence[Mapping[str, object]], kept: NDArray[np.int64], flagged: NDArray[np.bool_], notes: list[str]
) -> list[dict[str, object]]:
    rows = [content[index] for index in kept.tolist()]
    in_order = (content[index] for index in np.sort(kept).tolist())  # and so are its columns
    names = list(dict.fromkeys(itertools.chain.from_iterable(in_order)))
    most = min(MOST_COLUMNS, max(4, MOST_CELLS // max(1, len(rows))))
    if len(names) > most:
        notes.append(f"The first {most} of {len(names)} columns are shown.")
    longest = [FLAGGED_CELL if issue else CELL for issue in flagged]
    both = list(zip(rows, longest, strict=True))
    return [
        {"name": str(name)[:CELL], "cells": [_cell(row.get(name), length) for row, length in both]}
        for name in names[:most]
    ]


def _cell(value: object, length: int) -> str | float | None:
    if value is None or isinstance(value, str):
        return value if value is None else value[:length]
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            return _number(float(value), 6)
        except OverflowError:
            return "too large a number"
    return str(value)[:length]


def _number(value: float, digits: int) -> float | None:
    """Short enough to read; a whole number without its point."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(value) if value == int(value) and abs(value) < 2**53 else short


def _pictures(picture: Callable[[int], bytes], flagged: Sequence[int], notes: list[str]) -> dict[int, str]:
    """Pictures of the flagged rows, the lowest score first, until there are enough."""
    found: dict[int, str] = {}
    room = PICTURE_BUDGET
    for index in flagged[:MOST_PICTURES]:
        try:
            data = picture(index)
        except OSError:
            continue  # it was there when it was trained on: one picture is no reason to lose the page
        room -= len(data)
        if room < 0:
            break
        url = data_url(data)
        if url is not None:
            found[index] = url
    if len(found) < len(flagged):
        notes.append(f"{len(found):,} of {len(flagged):,} flagged rows have a picture here, the lowest score first.")
    return found
