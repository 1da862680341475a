"""A search for the curve R(t): which share of small losses to keep, epoch by epoch, when the noise ratio is not known.

Candidates are validated on rows held out from the training set, with their observed labels, which are noisy. The order
of candidates is that on clean labels all the same: a network cannot predict a noisy label of a row that it has never
seen. Neither the test set nor the clean labels can reach the search: what it trains on holds neither.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from ..backend.checks import check_number
from ..methods.rt import RT
from .data import Split
from .prepare import Job, hold_out, prepare
from .session import Session
from .spec import RunSpec


class Trial(Protocol):
    """What is asked of an optimiser; Optuna's trials have it."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float: ...
    def suggest_int(self, name: str, low: int, high: int) -> int: ...
    def suggest_categorical(self, name: str, choices: tuple[str, ...]) -> Any: ...


class Found(NamedTuple):
    """The best curve, and what was tried."""

    method: RT
    accuracy: float  #: on the held-out rows, on their noisy labels
    tried: list[tuple[RT, float]]


def search_rt(
    spec: RunSpec,
    data: Split | None = None,
    *,
    trials: int = 20,
    validation: float = 0.2,
    device: str | torch.device = "auto",
    root: str | Path | None = None,
) -> Found:
    """Search for a good R(t) for the run ``spec`` (its method does not matter).

    Each trial trains once on the other rows, with ``spec``'s recipe. What comes out is a method:
    ``RunSpec(..., method=text(found.method))`` then trains on all rows.

    Args:
        spec: data set, noise, seed and recipe; the seed also decides the split and the search.
        data: the data set, if it is not one that `load` knows.
        trials: how many curves to try.
        validation: share of the training rows to hold out, in (0, 1).
        device: where to train.
        root: folder of data sets.
    """
    check_number("search_rt", "trials", trials, 1, whole=True)
    check_number("search_rt", "validation", validation, 0, 1, open_low=True, open_high=True)
    try:
        import optuna
    except ImportError:
        raise ImportError("search_rt needs Optuna: pip install 'adaptivek[search]'") from None
    held_out = in_two(prepare(spec, data, root), validation)
    tried: list[tuple[RT, float]] = []

    def score(trial: Trial) -> float:
        method = suggest(trial, spec.recipe.epochs)
        tried.append((method, accuracy(spec, method, held_out, device)))
        return tried[-1][1]

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=spec.seed))
        study.optimize(score, n_trials=trials)
    finally:
        optuna.logging.set_verbosity(level)
    best, reached = max(tried, key=lambda pair: pair[1])
    return Found(best, reached, tried)


def suggest(trial: Trial, epochs: int) -> RT:
    """One curve of the family: how far it falls, how soon, in which shape, and where it goes from there."""
    return RT(
        keep=trial.suggest_float("keep", 0.3, 1.0),
        ramp=trial.suggest_int("ramp", 1, max(1, epochs // 2)),
        curve=trial.suggest_categorical("curve", ("power", "exp", "log")),
        power=trial.suggest_float("power", 0.25, 8.0, log=True),
        late=trial.suggest_float("late", -0.1, 0.1),
    )


def in_two(job: Job, share: float) -> Split:
    """The training rows of a run in two, with their observed labels: to train on, and to validate on."""
    validated, used = hold_out(len(job.labels), share, job.spec.seed)
    if not len(validated) or len(used) < job.spec.recipe.batch_size:
        raise ValueError(f"search_rt: validation must leave rows on both sides of {len(job.labels)}, got {share}")
    x, labels = job.data.x[job.rows], job.labels
    return job.data._replace(x=x[used], y=labels[used], x_test=x[validated], y_test=labels[validated])


def accuracy(spec: RunSpec, method: RT, data: Split, device: str | torch.device = "auto") -> float:
    """Last-epoch accuracy on the held-out rows of a run with this method; its labels are noisy already."""
    run = dataclasses.replace(spec, method=text(method), noise_rate=0.0)
    return list(Session(run, data, device))[-1].test_accuracy


def text(method: RT) -> str:
    """The method as one types it."""
    return "rt:" + ",".join(f"{name}={value}" for name, value in dataclasses.asdict(method).items())
