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


def stand_ins(results: Sequence[Result]) -> list[Result]:
    """Those of such a revision, of runs of which there is none of today."""
    there = {result.identity for result in results}
    earlier = [result for result in results if result.apart and result.ran.revision == EARLIER.get(result.ran.name)]
    return [result for result in earlier if result.spec.identity() not in there]


def with_stand_ins(results: Sequence[Result]) -> list[Result]:
    """All results; those that stand in count as of today."""
    shown = {result.identity for result in stand_ins(results)}
    return [dataclasses.replace(run, recorded=None) if run.identity in shown else run for run in results]
