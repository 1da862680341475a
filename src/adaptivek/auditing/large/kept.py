"""Scores of large data as they come, batch by batch, kept in files until all are done."""

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
from .ranks import Ranks

if TYPE_CHECKING:
    from ..data import AuditData

FOLDER = "scored"


class Part(NamedTuple):
    """Rows that follow each other, without those that have no label."""

    p: NDArray[np.float32]  #: (n, 2) held out, of the label, and of the most probable class besides
    other: NDArray[np.int32]  #: (n,) that class
    ranking: NDArray[np.float32]  #: (n, 2) the same of the predictions by which rows are ranked
    ranked_other: NDArray[np.int32]
    readable: NDArray[np.bool_]
    key: NDArray[np.uint64]  #: of the words of a text; 0: none


class Parts:
    """A part for each batch of the rows that this process scores."""

    def __init__(self, folder: Path | None, data: AuditData, held_out: Floats, resume: bool, ranks: Ranks) -> None:
        """Those that an earlier run has left, of the same data and models.

        Args:
            folder: of the audit; None: nothing is kept.
            data: whose rows they are.
            held_out: what the models predict for the sample: models that differ do so here.
            resume: whether to go on from what is there.
            ranks: the processes that share the rows.
        """
        assert data.streamed is not None
        self.folder = None if folder is None else folder / FOLDER
        self._batch, self._ranks = data.streamed.rows.batch, ranks
        self._number = -(-len(data.streamed.rows) // self._batch)
        self.mine = ranks.stretch(self._number)
        self._of = _fingerprint(data, held_out)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
        read = {number: self._read(number) for number in self.mine} if resume else {}
        self.done = {number: part for number, part in read.items() if part is not None}

    @property
    def start(self) -> int | None:
        """The first row that is to be scored; None: all are."""
        return next((number * self._batch for number in self.mine if number not in self.done), None)

    def lacks(self, start: int) -> bool:
        """Whether the batch that begins at this row is to be scored."""
        return start // self._batch in self.mine and start // self._batch not in self.done

    def add(self, start: int, part: Part) -> None:
        """The rows of the batch that begins at this row."""
        number = start // self._batch
        if self.folder is not None:
            with whole(self._path(number)) as partial, partial.open("wb") as file:
                np.savez(file, of=np.array(self._of), **part._asdict())
        self.done[number] = part

    def whole(self) -> Part:
        """All rows, those of the other processes too."""
        return _joined(self._ranks.told_stretches([self.done[number] for number in self.mine], self._number))

    def _path(self, number: int) -> Path:
        assert self.folder is not None
        return self.folder / f"part-{number:05d}.npz"

    def _read(self, number: int) -> Part | None:
        if self.folder is None:
            return None
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
