"""What an audit knows of each row, for training that begins where the audit ends, and the file that holds it.

Two tables come of it. `predictions` are those of the network that has not seen a row: what a memory begins with.
`targets` are Bayes' rule over them, the observed label and the transition matrix: class probabilities that any loss
with soft labels can learn.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ..support.files import whole
from .predictions import Codes, Predictions
from .transition import CHUNK, NoiseModel, class_posterior

FILE = "targets.npz"
SMALL = 1e-3  #: a probability below is taken for 0: such digits would take most of the file


class Targets(NamedTuple):
    """An entry for each row that could be read."""

    held_out: Predictions  #: of the network that has not seen a row, in half precision
    model: NoiseModel  #: how labels come from them
    row: Codes  #: (n,) number in the original data
    label: Codes  #: (n,) the observed label
    rows: int  #: of the original data, those that could not be read counted in
    classes: list[str]

    @property
    def predictions(self) -> NDArray[np.float32]:
        """(rows, classes) by the row numbers of the original data; zeros for rows that could not be read."""
        return self._by_row([self.held_out])

    @property
    def targets(self) -> NDArray[np.float32]:
        """The same of the class probabilities to learn in place of the labels."""
        parts = (slice(start, start + CHUNK) for start in range(0, len(self.row), CHUNK))
        return self._by_row(
            Predictions(*class_posterior(self.held_out.of(part), self.label[part], self.model)) for part in parts
        )

    def _by_row(self, parts: Iterable[Predictions]) -> NDArray[np.float32]:
        """Parts that follow each other, each row at its number."""
        found = np.zeros((self.rows, len(self.classes)), np.float32)
        found[self.row] = np.concatenate([part.of_all(len(self.classes)) for part in parts])
        found /= np.maximum(found.sum(1, keepdims=True), 1e-6)  # half precision has rounded them
        return found

    def of_labels(self, owner: str, labels: Codes) -> NDArray[np.float32]:
        """`predictions` for a training set with these labels, which must be those that were audited."""
        if len(labels) != self.rows or not np.array_equal(labels[self.row], self.label):
            differ = "other labels" if len(labels) == self.rows else f"{len(labels):,} rows"
            raise ValueError(
                f"{owner}: audit must be of the rows that are trained on, in their order: it is of {self.rows:,} rows "
                f"in {len(self.classes)} classes, and these have {differ}"
            )
        return self.predictions

    def fingerprint(self) -> str:
        """Tells one from another."""
        arrays = (self.held_out.p, self.row, self.label)
        return f"{zlib.crc32(b''.join(np.ascontiguousarray(array).tobytes() for array in arrays)):08x}"


def rounded(predictions: Predictions) -> Predictions:
    """In half precision, with the smallest left out: as they are kept."""
    p = np.where(predictions.p < SMALL, 0, predictions.p)
    return predictions._replace(p=(p / np.maximum(p.sum(1, keepdims=True), 1e-6)).astype(np.float16))


def save(found: Targets, folder: Path) -> Path:
    """Write them in a compressed file of plain numbers and texts; there whole or not at all."""
    held_out, model = found.held_out, found.model
    arrays: dict[str, Any] = {
        "p": held_out.p,
        "row": found.row.astype(np.uint32),
        "label": found.label.astype(np.uint16),
        "rows": np.array(found.rows),
        "classes": np.array(found.classes, dtype=np.str_),
        "transition": model.transition.astype(np.float32),
        "power": np.array(model.power),
        "symmetric": np.array(model.symmetric),
        "class_weights": model.class_weights,
    }
    if held_out.classes is not None:
        arrays["codes"] = held_out.classes.astype(np.uint16)
    with whole(folder / FILE) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)
    return folder / FILE


def load_audit(folder: str | Path) -> Targets:
    """What an audit has left in its folder for training: predictions and targets. Nothing is unpickled.

    >>> criterion = Selection(start=load_audit("audit"))
    """
    path = Path(folder)
    path = path / FILE if path.is_dir() else path
    if not path.is_file():
        raise FileNotFoundError(f"load_audit: {folder} must be the folder of an audit with {FILE}; not found")
    try:
        with np.load(path, allow_pickle=False) as file:
            found = _from_arrays(dict(file))
        _check(found)
    except (ValueError, KeyError, TypeError, OSError, EOFError, IndexError, BadZipFile) as error:
        raise ValueError(f"load_audit: {path} must be a file that an audit has written: {error}") from None
    return found


def _from_arrays(arrays: dict[str, Any]) -> Targets:
    codes = arrays["codes"].astype(np.int64) if "codes" in arrays else None
    transition, weights = (arrays[name].astype(np.float64) for name in ("transition", "class_weights"))
    model = NoiseModel(transition, float(arrays["power"]), bool(arrays["symmetric"]), weights)
    row, label = (arrays[name].astype(np.int64) for name in ("row", "label"))
    return Targets(Predictions(arrays["p"], codes), model, row, label, int(arrays["rows"]), arrays["classes"].tolist())


def _check(found: Targets) -> None:
    (p, codes), rows, classes = found.held_out, len(found.row), len(found.classes)
    shape = (rows, classes) if codes is None else codes.shape
    if p.dtype != np.float16 or p.shape != shape or len(shape) != 2 or shape[0] != rows:
        raise ValueError("its predictions do not fit its rows")
    if found.label.shape != (rows,) or found.model.transition.shape != (classes, classes):
        raise ValueError("its labels or its transition matrix do not fit")
    if found.model.class_weights.shape != (classes,) or not np.isfinite(p).all():
        raise ValueError("its class weights do not fit, or its predictions are not numbers")
    highest = max(found.label.max(initial=0), 0 if codes is None else codes.max(initial=0))
    if found.row.max(initial=0) >= found.rows or highest >= classes:
        raise ValueError("its row numbers or classes are out of range")
