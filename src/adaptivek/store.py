"""Results of many runs in one folder: a file for each, named by what was run, there whole or not at all."""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
import os
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout

from .recipes import RunSpec
from .records import Detail, EpochRecord

FORMAT = 1  # of the files
DIGITS = 6  # significant ones of every number


@dataclass(frozen=True)
class Result:
    """What became of a run: its epochs, or the reason why there are none."""

    spec: RunSpec
    epochs: list[EpochRecord] = field(default_factory=list)
    details: list[Detail] = field(default_factory=list)
    seconds: float = 0.0  #: of wall time; of the whole stack if it was trained with others
    engine: str = ""
    failure: str = ""  #: why it failed, if it did

    def to_json(self) -> dict[str, Any]:
        lines = [record.to_json() for record in self.epochs]
        return {
            "format": FORMAT,
            "spec": self.spec.to_dict(),
            "engine": self.engine,
            "seconds": _short(self.seconds),
            "failure": self.failure,
            # a column each: names once, and numbers that are alike beside each other
            "epochs": {name: [_short(line[name]) for line in lines] for name in (lines[0] if lines else ())},
            "details": [dataclasses.asdict(detail) for detail in self.details],
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Result:
        if fields["format"] != FORMAT:
            raise ValueError(f"format must be {FORMAT}, got {fields['format']!r}")
        columns = fields["epochs"]
        lines = [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]
        return cls(
            RunSpec.from_dict(fields["spec"]),
            [EpochRecord.from_json(line) for line in lines],
            [Detail(**detail) for detail in fields["details"]],
            fields["seconds"],
            fields["engine"],
            fields["failure"],
        )


class Store:
    """A folder of results. Several processes may read and write it at once."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.runs = self.folder / "runs"

    def path(self, spec: RunSpec) -> Path:
        return self.runs / f"{spec.identity()}.json.gz"

    def write(self, result: Result) -> None:
        self.runs.mkdir(parents=True, exist_ok=True)
        path = self.path(result.spec)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        text = json.dumps(result.to_json(), separators=(",", ":"))
        partial.write_bytes(gzip.compress(text.encode(), mtime=0))  # no date: equal results are equal files
        os.replace(partial, path)

    def read(self, spec: RunSpec) -> Result | None:
        """The result of a run, or None if it is still to be done."""
        path = self.path(spec)
        return self._read(path) if path.exists() else None

    def read_all(self) -> list[Result]:
        """Every result there is, in a fixed order."""
        found = [self._read(path) for path in sorted(self.runs.glob("*.json.gz"))]
        return [result for result in found if result is not None]

    def _read(self, path: Path) -> Result | None:
        try:
            result = Result.from_json(json.loads(gzip.decompress(path.read_bytes())))
            if self.path(result.spec) != path:
                raise ValueError("what it holds is not what its name says")
        except FileNotFoundError:
            return None  # another process has set it aside
        except (OSError, EOFError, ValueError, TypeError, KeyError, AttributeError) as error:
            aside = self.folder / "aside"
            aside.mkdir(exist_ok=True)
            os.replace(path, aside / path.name)
            warnings.warn(f"{path.name} is not a result and was moved to {aside}: {error}", stacklevel=2)
            return None
        return result

    def claim(self, spec: RunSpec) -> BaseFileLock | None:
        """A lock on a run, or None if another process has it. The system frees it when its owner dies."""
        self.runs.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.runs / f"{spec.identity()}.lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
        return lock

    def release(self, lock: BaseFileLock) -> None:
        """Give a run back. The file goes first: whoever waits for it at this moment makes one anew."""
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def _short(value: Any) -> Any:
    """Floats in a few significant digits; everything else as it is."""
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    return value
