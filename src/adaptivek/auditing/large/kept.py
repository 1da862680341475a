"""Scores of large data as they come, in parts that are kept in files until all are done."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ... import __version__
from ...support.files import whole
from ..predictions import Floats

if TYPE_CHECKING:
    from ..data import AuditData

FOLDER = "scored"
PART = 10  #: batches of a file


class Part(NamedTuple):
    """Rows that follow each other, without those that have no label."""

    p: NDArray[np.float32]  #: (n, 2) held out, of the label, and of the most probable class besides
    other: NDArray[np.int32]  #: (n,) that class
    ranking: NDArray[np.float32]  #: (n, 2) the same of the predictions by which rows are ranked
    ranked_other: NDArray[np.int32]
    readable: NDArray[np.bool_]
    key: NDArray[np.uint64]  #: of the words of a text; 0: none


class Parts:
    """All rows up to one of them."""

    def __init__(self, folder: Path | None, data: AuditData, held_out: Floats, resume: bool) -> None:
        """Those that an earlier run has left, of the same data and models.

        Args:
            folder: of the audit; None: nothing is kept.
            data: whose rows they are.
            held_out: what the models predict for the sample: models that differ do so here.
            resume: whether to go on from what is there.
        """
        assert data.streamed is not None
        self.folder = None if folder is None else folder / FOLDER
        self.rows = 0  #: of all files, that are done
        self.done: list[Part] = []
        self._open: list[Part] = []
        self._all, self._size = len(data.streamed.rows), PART * data.streamed.rows.batch
        self._of = _fingerprint(data, held_out)
        if self.folder is None:
            return
        if not resume:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        while self.rows < self._all and (part := self._read(len(self.done))) is not None:
            self.done.append(part)
            self.rows = min(self.rows + self._size, self._all)

    def add(self, rows: int, part: Part) -> None:
        """More rows; with these so many of all rows are done."""
        self._open.append(part)
        self.rows = rows
        if rows % self._size and rows < self._all:
            return
        joined = _joined(self._open)
        if self.folder is not None:
            with whole(self._path(len(self.done))) as partial, partial.open("wb") as file:
                np.savez(file, of=np.array(self._of), **joined._asdict())
        self.done.append(joined)
        self._open = []

    def whole(self) -> Part:
        return _joined(self.done)

    def _path(self, number: int) -> Path:
        assert self.folder is not None
        return self.folder / f"part-{number:05d}.npz"

    def _read(self, number: int) -> Part | None:
        try:
            with np.load(self._path(number), allow_pickle=False) as file:
                return Part(*(file[name] for name in Part._fields)) if str(file["of"]) == self._of else None
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None  # not there, or not whole: done again


def remove_parts(folder: Path) -> None:
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def has_parts(folder: Path) -> bool:
    """Whether a run that was stopped has left something to go on from."""
    return any((folder / FOLDER).glob("part-*.npz"))


def _joined(parts: list[Part]) -> Part:
    return Part(*map(np.concatenate, zip(*parts, strict=True)))


def _fingerprint(data: AuditData, held_out: Floats) -> str:
    """Tells data and models from others."""
    assert data.streamed is not None
    rows = data.streamed.rows
    digest = hashlib.sha256(
        f"{__version__} {rows.names} {rows.starts.tolist()} {rows.batch}".encode("utf-8", "replace")
    )
    for path in rows.paths:
        state = path.stat()
        digest.update(f"{state.st_size} {state.st_mtime_ns}".encode())
    for array in (data.row, data.labels, held_out):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
