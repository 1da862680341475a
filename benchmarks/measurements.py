"""Measurements kept as JSON lines, and the revisions of methods that they are of."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adaptivek.experiments.spec import RunSpec
from adaptivek.experiments.store import Result, Store, read

#: results of this revision of a method are shown, and marked, where there are none of today: it was run on a GPU only
EARLIER = {"label-agreement": 4}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Those that are there, if any."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def stored(store: Store, spec: RunSpec) -> Result | None:
    """The run, or the same by an earlier revision of the method that stands in."""
    found = store.read(spec)
    if found is None and spec.method in EARLIER:
        identity = spec.identity(spec.resolved()._replace(revision=EARLIER[spec.method]))
        path = store.runs / f"{identity}.json.gz"
        found = read(path) if path.exists() else None
    return found


def stands_in(result: Result) -> bool:
    """Whether it is of such a revision."""
    return bool(result.apart) and result.ran.revision == EARLIER.get(result.ran.name)


def with_stand_ins(results: Sequence[Result]) -> list[Result]:
    """Such results count as those of today, where there are none of today."""
    there = {result.identity for result in results}
    return [
        dataclasses.replace(result, recorded=None)
        if stands_in(result) and result.spec.identity() not in there
        else result
        for result in results
    ]
