"""Results of many runs in one folder: a file for each, named by what was run, there whole or not at all.

The folder is on this machine or anywhere that fsspec reaches.

Reading changes nothing. A file that is no result is left where it is, and only who is about to do its run, and so holds
its lock, moves it out of the way.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
import warnings
import zlib
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout

from ..support.files import make_folder, move, place, write_whole
from .provenance import Provenance
from .records import Detail, EpochRecord
from .spec import Recipe, Resolved, RunSpec

FORMAT = 2  # of the files
DIGITS = 6  # significant ones of every number


class DamagedError(ValueError):
    """A file in the place of a result that holds half of one, or another."""


class ForeignError(ValueError):
    """A result that another version has written in a way that this one does not know."""


@dataclass(frozen=True)
class Result:
    """What became of a run: its epochs, or the reason why there are none."""

    spec: RunSpec
    epochs: list[EpochRecord] = field(default_factory=list)
    details: list[Detail] = field(default_factory=list)
    seconds: float = 0.0  #: of wall time; of the whole stack if it was trained with others
    engine: str = ""
    failure: str = ""  #: why it failed, if it did
    provenance: Provenance = field(default_factory=Provenance)
    recorded: Resolved | None = None  #: the method as it was run, of a result that was read

    @property
    def ran(self) -> Resolved:
        """The method as it was run."""
        return self.recorded or self.spec.resolved()

    @property
    def identity(self) -> str:
        return self.spec.identity(self.recorded)

    @property
    def apart(self) -> str:
        """What sets the method that was run apart from the one that has its name here; empty if they are one."""
        try:
            here = self.spec.resolved()
        except ValueError:
            return "not known here"
        if self.identity == self.spec.identity():
            return ""
        if self.ran.revision != here.revision:
            return f"revision {self.ran.revision}"
        told = [f"{name}={value}" for name, value in self.ran.parameters.items() if here.parameters.get(name) != value]
        return ", ".join(told) or f"without {', '.join(sorted(here.parameters.keys() - self.ran.parameters.keys()))}"

    def to_json(self) -> dict[str, Any]:
        lines = [record.to_json() for record in self.epochs]
        return {
            "format": FORMAT,
            "spec": self.spec.to_dict(),
            "method": self.ran._asdict(),
            "made": dataclasses.asdict(self.provenance),
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
            raise ForeignError(f"its format is {fields['format']!r}, this version reads {FORMAT}")
        columns = fields["epochs"]
        sections: list[tuple[type[Any], dict[str, Any]]] = [
            (RunSpec, fields["spec"]), (Recipe, fields["spec"]["recipe"]), (Provenance, fields["made"]),
            (EpochRecord, columns), *((Detail, detail) for detail in fields["details"]),
        ]  # fmt: skip
        for kind, given in sections:
            if unknown := given.keys() - {each.name for each in dataclasses.fields(kind)}:
                raise ForeignError(f"this version does not know its {', '.join(sorted(unknown))}")
        lines = [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]
        return cls(
            RunSpec.as_recorded(fields["spec"]),
            [EpochRecord.from_json(line) for line in lines],
            [Detail(**detail) for detail in fields["details"]],
            fields["seconds"],
            fields["engine"],
            fields["failure"],
            Provenance(**fields["made"]),
            Resolved(**fields["method"]),
        )


class Store:
    """A folder of results. Several processes may read and write it at once."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = place(folder)
        self.runs = self.folder / "runs"

    def path(self, spec: RunSpec) -> Path:
        return self.runs / _name(spec.identity())

    def check_writable(self) -> None:
        """Raise now what would otherwise be raised when the first run is done."""
        make_folder(self.runs)
        probe = self.runs / "writable"
        write_whole(probe, b"")
        probe.unlink(missing_ok=True)

    def write(self, result: Result) -> None:
        make_folder(self.runs)
        text = json.dumps(result.to_json(), separators=(",", ":"))
        # no date: equal results are equal files
        write_whole(self.runs / _name(result.identity), gzip.compress(text.encode(), mtime=0))

    def read(self, spec: RunSpec) -> Result | None:
        """The result of a run, or None if it is still to be done. Raises `ForeignError`."""
        try:
            return read(self.path(spec))
        except (FileNotFoundError, DamagedError):
            return None

    def read_all(self) -> list[Result]:
        """Every result there is, in a fixed order."""
        return self.look()[0]

    def look(self) -> tuple[list[Result], list[str]]:
        """The same, and of each file that is none to this version why."""
        results, others = [], []
        for path in sorted(self.runs.glob("*.json.gz")):
            try:
                results.append(read(path))
            except FileNotFoundError:
                continue  # another process has set it aside
            except (DamagedError, ForeignError) as error:
                others.append(str(error))
        return results, others

    def set_aside(self, spec: RunSpec) -> None:
        """Move what is in the place of a run's result and is none. Only for who holds the lock on it: as nobody else
        writes there, what is read is what is moved."""
        path = self.path(spec)
        try:
            read(path)
        except FileNotFoundError:
            pass
        except DamagedError as error:
            aside = self.folder / "aside"
            make_folder(aside)
            move(path, aside / path.name)
            warnings.warn(f"{error}; it was moved to {aside}", stacklevel=2)

    def claim(self, spec: RunSpec) -> ExitStack | None:
        """A lock on a run, or None if another process has it; closing it gives the run back. The system frees it when
        its owner dies. Only a file of this machine can be locked: elsewhere two processes may do the same run."""
        claim = ExitStack()
        if isinstance(self.runs, Path):
            make_folder(self.runs)
            lock = FileLock(self.runs / f"{spec.identity()}.lock")
            try:
                lock.acquire(blocking=False)
            except Timeout:
                return None
            claim.callback(_release, lock)
        return claim


def _release(lock: BaseFileLock) -> None:
    """The file goes first: whoever waits for it at this moment makes one anew. Where a file that is open cannot go, on
    Windows, the lock takes it along when it is released."""
    with suppress(PermissionError):
        Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()


def read(path: Path) -> Result:
    """The result in a file. Raises `DamagedError` or `ForeignError`, which name the file, or `FileNotFoundError`."""
    raw = path.read_bytes()  # at once: it may be replaced at any time
    try:
        result = Result.from_json(json.loads(gzip.decompress(raw)))
        if path.name != _name(result.identity):
            raise ValueError("what it holds is not what its name says")
    except ForeignError as error:
        raise ForeignError(f"{path.name} is of another version: {error}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedError(f"{path.name} is not a result: {error}") from None
    return result


def _name(identity: str) -> str:
    return f"{identity}.json.gz"


def _short(value: Any) -> Any:
    """Floats in a few significant digits; everything else as it is."""
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    return value
