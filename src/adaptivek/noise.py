"""Label noise on purpose: seeded, without touching any global random state, and written down.

A kind of noise says how likely each row is to flip and to what; `corrupt` decides which rows do.
"""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .backend.checks import check_number
from .support.files import write_whole
from .support.streams import stream

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]


class Flips(NamedTuple):
    """For each row: the chance that its label flips, and the label it would get."""

    chance: Floats
    target: Labels


class Noise(ABC):
    """A kind of label noise. Subclasses are frozen dataclasses, checked when built."""

    name: ClassVar[str]

    @abstractmethod
    def flips(self, labels: Labels, classes: int, features: Floats | None, rng: np.random.Generator) -> Flips:
        """Chance and target of a flip for every row; the target always differs where the chance is not 0."""


@dataclass(frozen=True)
class Directed(Noise):
    """Flip to ``(label + shift) % classes``, the paper's noise. With two classes a flip is the other one."""

    rate: float
    shift: int = 2

    name: ClassVar[str] = "directed"

    def __post_init__(self) -> None:
        check_number("Directed", "rate", self.rate, 0, 1)
        check_number("Directed", "shift", self.shift, 1, whole=True)

    def flips(self, labels: Labels, classes: int, features: Floats | None, rng: np.random.Generator) -> Flips:
        shift = 1 if classes == 2 else self.shift % classes
        if shift == 0:
            raise ValueError(f"Directed: shift must not be a multiple of the {classes} classes, got {self.shift}")
        return Flips(np.full(len(labels), self.rate), (labels + shift) % classes)


@dataclass(frozen=True)
class PairFlip(Noise):
    """Flip to the next class, as Co-teaching and its successors do."""

    rate: float

    name: ClassVar[str] = "pair-flip"

    def __post_init__(self) -> None:
        check_number("PairFlip", "rate", self.rate, 0, 1)

    def flips(self, labels: Labels, classes: int, features: Floats | None, rng: np.random.Generator) -> Flips:
        return Flips(np.full(len(labels), self.rate), (labels + 1) % classes)


@dataclass(frozen=True)
class Symmetric(Noise):
    """Flip to any other class, all equally likely; the rate counts real flips only."""

    rate: float

    name: ClassVar[str] = "symmetric"

    def __post_init__(self) -> None:
        check_number("Symmetric", "rate", self.rate, 0, 1)

    def flips(self, labels: Labels, classes: int, features: Floats | None, rng: np.random.Generator) -> Flips:
        shift = rng.integers(1, classes, size=len(labels))
        return Flips(np.full(len(labels), self.rate), (labels + shift) % classes)


@dataclass(frozen=True)
class Matrix(Noise):
    """Flip by a class-transition matrix: ``rows[i][j]`` is the chance that class i is labelled j."""

    rows: tuple[tuple[float, ...], ...]

    name: ClassVar[str] = "matrix"

    def __post_init__(self) -> None:
        table = np.asarray(self.rows, dtype=np.float64)
        if table.ndim != 2 or table.shape[0] != table.shape[1]:
            raise ValueError(f"Matrix: rows must be square, got shape {table.shape}")
        if not (table >= 0).all() or not np.allclose(table.sum(1), 1, atol=1e-6):
            raise ValueError(f"Matrix: rows must be at least 0 and each add up to 1, got {table.tolist()}")
        # whatever came (a list, an array, a tensor) becomes plain numbers: hashable, and JSON can hold it
        object.__setattr__(self, "rows", tuple(tuple(map(float, row)) for row in table))

    def flips(self, labels: Labels, classes: int, features: Floats | None, rng: np.random.Generator) -> Flips:
        if len(self.rows) != classes:
            raise ValueError(f"Matrix: rows must be {classes} for {classes} classes, got {len(self.rows)}")
        table = np.asarray(self.rows)
        off = table * (1 - np.eye(classes))
        return Flips(off.sum(1)[labels], _draw(off[labels], rng))


@dataclass(frozen=True)
class InstanceDependent(Noise):
    """Flip rows by what they look like (part-dependent noise of Xia et al. 2020).

    Each row has its own chance to flip, drawn around ``rate`` with spread 0.1, and its target follows
    a random projection of its features, one projection per class. Needs ``features`` in `corrupt`.
    """

    rate: float

    name: ClassVar[str] = "instance"

    def __post_init__(self) -> None:
        check_number("InstanceDependent", "rate", self.rate, 0, 1)

    def flips(self, labels: Labels, classes: int, features: Floats | None, rng: np.random.Generator) -> Flips:
        if features is None:
            raise ValueError("InstanceDependent: features must be given to corrupt(), one row per label, got None")
        scale = features.std(0)
        features = (features - features.mean(0)) / np.where(scale > 0, scale, 1)
        weight = rng.standard_normal((classes, features.shape[1], classes))
        logits = np.full((len(labels), classes), -np.inf)
        for label in np.unique(labels):  # class by class: one projection each, and memory stays small
            rows = labels == label
            logits[rows] = features[rows] @ weight[label]
        logits[np.arange(len(labels)), labels] = -np.inf
        share = np.exp(logits - logits.max(1, keepdims=True))
        return Flips(_around(self.rate, len(labels), rng), _draw(share, rng))


NOISES: dict[str, type[Noise]] = {
    "directed": Directed,
    "symmetric": Symmetric,
    "pair-flip": PairFlip,
    "instance": InstanceDependent,
    "matrix": Matrix,
}


@dataclass(frozen=True)
class Manifest:
    """What `corrupt` did: enough to do it again, to undo it, and to measure a method by it."""

    noise: str
    parameters: dict[str, Any]
    classes: int
    seed: int
    exact: bool
    rows: list[int]  #: rows whose label is noisy now, in order
    before: list[int]  #: their clean labels
    after: list[int]  #: their noisy labels

    def apply(self, labels: ArrayLike | Tensor) -> Tensor:
        """The noisy labels again, from the clean ones."""
        return self._exchange(labels, self.before, self.after, "clean")

    def undo(self, labels: ArrayLike | Tensor) -> Tensor:
        """The clean labels again, from the noisy ones."""
        return self._exchange(labels, self.after, self.before, "noisy")

    def save(self, path: str | Path) -> None:
        write_whole(Path(path), json.dumps(dataclasses.asdict(self)) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Manifest:
        fields = json.loads(Path(path).read_text())
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(fields, dict) or set(fields) != names:
            raise ValueError(f"Manifest: {path} must hold {', '.join(sorted(names))}")
        return cls(**fields)

    def _exchange(self, labels: ArrayLike | Tensor, old: list[int], new: list[int], kind: str) -> Tensor:
        changed = _as_labels(labels).copy()
        if self.rows and (self.rows[-1] >= len(changed) or (changed[self.rows] != old).any()):
            raise ValueError(f"Manifest: labels must be the {kind} ones it was made for, got others")
        changed[self.rows] = new
        return torch.from_numpy(changed)


def corrupt(
    labels: ArrayLike | Tensor,
    noise: Noise,
    *,
    classes: int,
    seed: int,
    exact: bool = False,
    features: ArrayLike | Tensor | None = None,
) -> tuple[Tensor, Manifest]:
    """Noisy labels and the record of what changed.

    Args:
        labels: the clean labels, whole numbers from 0 to ``classes - 1``.
        noise: what kind, how much.
        classes: how many classes there are, whether or not each occurs in ``labels``.
        seed: decides everything that is random here, and nothing else does.
        exact: flip the expected number of rows, rounded, instead of each row by its own chance.
        features: the inputs, one row each; for `InstanceDependent` alone.
    """
    check_number("corrupt", "classes", classes, 2, whole=True)
    check_number("corrupt", "seed", seed, 0, whole=True)
    clean = _as_labels(labels)
    if not len(clean):
        raise ValueError("corrupt: labels must have at least one row, got none")
    if clean.min() < 0 or clean.max() >= classes:
        raise ValueError(f"corrupt: labels must be from 0 to {classes - 1}, got {clean.min()} to {clean.max()}")
    rng = stream(seed, "noise")
    chance, target = noise.flips(clean, classes, _as_features(features, len(clean)), rng)
    rows = _exactly(chance, rng) if exact else np.flatnonzero(rng.random(len(clean)) < chance)
    noisy = clean.copy()
    noisy[rows] = target[rows]
    manifest = Manifest(
        noise=noise.name,
        parameters=dataclasses.asdict(noise),  # type: ignore[call-overload]
        classes=classes,
        seed=seed,
        exact=exact,
        rows=rows.tolist(),
        before=clean[rows].tolist(),
        after=noisy[rows].tolist(),
    )
    return torch.from_numpy(noisy), manifest


def _exactly(chance: Floats, rng: np.random.Generator) -> Labels:
    """Systematic sampling: the expected number of rows, each still drawn with its own chance."""
    order = rng.permutation(len(chance))
    expected = chance.sum()
    number = round(expected)
    if number == 0:
        return np.empty(0, dtype=np.int64)
    if chance.max() * number > expected:  # rounding up would draw a row twice
        number = int(expected)
    edges = np.cumsum(chance[order])
    marks = (np.arange(number) + rng.random()) * edges[-1] / number
    return np.sort(order[np.searchsorted(edges, marks, side="right")])


def _draw(share: Floats, rng: np.random.Generator) -> Labels:
    """One column per row, with chances in proportion to ``share``; rows of zeros give column 0."""
    edges = np.cumsum(share, 1)
    marks = rng.random(len(share)) * edges[:, -1]
    column: Labels = (marks[:, None] >= edges).sum(1) % share.shape[1]
    return column


def _around(rate: float, number: int, rng: np.random.Generator) -> Floats:
    """Normal with spread 0.1, drawn again where it leaves [0, 1], then scaled so that the mean is ``rate``.

    Without the scaling, cutting off at 0 would lift a small rate (0.05 would come out as 0.1).
    """
    if rate > 0.5:  # the same from the other end
        return 1 - _around(1 - rate, number, rng)
    chance: Floats = np.full(number, -1.0)
    while (outside := (chance < 0) | (chance > 1)).any():
        chance[outside] = rng.normal(rate, 0.1, outside.sum())
    scaled: Floats = np.clip(chance * (rate / chance.mean()), 0, 1)
    return scaled


def _as_labels(labels: ArrayLike | Tensor) -> Labels:
    array = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"labels must be one whole number per row, got {array.dtype} of shape {array.shape}")
    return array.astype(np.int64)


def _as_features(features: ArrayLike | Tensor | None, rows: int) -> Floats | None:
    if features is None:
        return None
    array = np.asarray(features.detach().cpu() if isinstance(features, Tensor) else features, dtype=np.float64)
    if len(array) != rows:
        raise ValueError(f"corrupt: features must have one row per label, {rows}, got {len(array)}")
    return array.reshape(rows, -1)
