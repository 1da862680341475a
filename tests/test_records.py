"""What the numbers of an epoch mean, the same in both engines."""

from __future__ import annotations

import math
import time

import pytest
import torch

from adaptivek.experiments.data import Split
from adaptivek.experiments.loop import Loop
from adaptivek.experiments.records import EpochRecord
from adaptivek.experiments.session import Session, prepare
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.experiments.stack import Stack

RECIPE = Recipe("digits-cnn", epochs=12, warmup_epochs=0, batch_size=20)


def data(rows: int = 160) -> Split:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(rows + 40) % 4
    x = torch.randn(rows + 40, 1, 8, 8, generator=generator) + y[:, None, None, None]
    return Split(x[:rows], y[:rows], x[rows:], y[rows:], 4)


def alone(spec: RunSpec, rows: int = 160) -> list[EpochRecord]:
    return list(Session(spec, data(rows), "cpu"))


def stacked(spec: RunSpec, rows: int = 160) -> list[EpochRecord]:
    return [records[0] for records in Stack([prepare(spec, data(rows))], "cpu")]


@pytest.mark.parametrize("train", [alone, stacked])
def test_kept_is_what_weighed_and_noise_is_what_was_not_believed(train):
    """Label memory learns from every row, under another label where it does not believe the one given."""
    spec = RunSpec("mine", "label-memory", noise="symmetric", noise_rate=0.4, recipe=RECIPE)
    session, seen = Session(spec, data(), "cpu"), []
    step = session.optimizer.step

    def watched(*args, **options):
        seen.append((session.criterion.weights.mean(), session.criterion.confidence.mean()))
        return step(*args, **options)

    session.optimizer.step = watched
    list(session)
    weights, believed = (torch.stack(column[-8:]).mean().item() for column in zip(*seen, strict=True))
    last = train(spec)[-1]
    assert abs(weights - believed) > 0.01  # or there would be nothing to tell apart
    assert last.kept_share == pytest.approx(weights, abs=1e-3)
    assert last.noise_ratio == pytest.approx(1 - believed, abs=1e-3)


@pytest.mark.parametrize("train", [alone, stacked])
def test_the_noise_ratio_told_is_that_of_the_criterion(train):
    """NaN in the first epoch, in which no row was seen a second time; not what looks noisy at the moment."""
    spec = RunSpec("mine", "label-posterior", noise="symmetric", noise_rate=0.4, recipe=RECIPE)
    session = Session(spec, data(800), "cpu")
    told = [session.criterion.noise_ratio for _ in session]
    found = train(spec, 800)
    assert [record.noise_ratio_told for record in found] == pytest.approx(told, abs=0.01, nan_ok=True)
    assert math.isnan(told[0])
    assert found[0].noise_ratio > 0
    assert told[-1] == pytest.approx(0.4, abs=0.1)


@pytest.mark.parametrize("train", [alone, stacked])
def test_the_pace_is_that_of_training_alone(train, monkeypatch):
    """Testing takes as long as it takes."""
    real = Loop._test

    def slowly(self):
        time.sleep(0.1)
        return real(self)

    monkeypatch.setattr(Loop, "_test", slowly)
    started = time.perf_counter()
    records = train(RunSpec("mine", "vanilla", recipe=RECIPE))
    training = time.perf_counter() - started - RECIPE.epochs * 0.1
    assert sum(160 / record.samples_per_second for record in records) < training + 0.1


@pytest.mark.parametrize("kind", [Session, Stack])
def test_an_epoch_is_written_once(kind):
    """What an epoch is made of is `Loop`'s; a session and a stack say how a batch goes through their networks."""
    assert issubclass(kind, Loop)
    own = {name for name, value in vars(kind).items() if callable(value) and name in vars(Loop)} - {"__init__"}
    assert own == Loop.__abstractmethods__
