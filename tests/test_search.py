"""The search for R(t): what it may see, what it suggests, and that it finds."""

from __future__ import annotations

import dataclasses
import sys

import pytest
import torch

import adaptivek.experiments.search
from adaptivek.experiments.data import Split, load
from adaptivek.experiments.search import accuracy, in_two, search_rt, suggest, text
from adaptivek.experiments.session import Session, prepare
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.methods import build
from adaptivek.methods.rt import RT

QUICK = Recipe(network="digits-cnn", epochs=2, warmup_epochs=0, batch_size=20)
SPEC = RunSpec("digits", noise="symmetric", noise_rate=0.4, seed=3, recipe=QUICK)


@pytest.fixture(scope="module")
def small() -> Split:
    data = load("digits")
    return Split(data.x[:200], data.y[:200], data.x_test[:50], data.y_test[:50], 10)


class Fixed:
    """A trial that always answers with the lower or the upper end."""

    def __init__(self, end: int) -> None:
        self.end = end

    def suggest_float(self, name, low, high, *, log=False):
        return (low, high)[self.end]

    def suggest_int(self, name, low, high):
        return (low, high)[self.end]

    def suggest_categorical(self, name, choices):
        return choices[-self.end]


def test_the_search_sees_noisy_training_rows_only(small):
    job = prepare(SPEC, small)
    held_back = in_two(job, 0.25)
    assert (len(held_back.y), len(held_back.y_test)) == (150, 50)
    known = {row.numpy().tobytes(): int(label) for row, label in zip(small.x, job.labels, strict=True)}
    found = [*zip(held_back.x, held_back.y, strict=True), *zip(held_back.x_test, held_back.y_test, strict=True)]
    assert len({row.numpy().tobytes() for row, _ in found}) == len(known) == 200  # each row once, in one of the parts
    assert all(known[row.numpy().tobytes()] == int(label) for row, label in found)
    assert not torch.equal(job.labels, small.y)  # the labels are the noisy ones, so the comparison means something
    tests = {row.numpy().tobytes() for row in small.x_test}
    assert not tests & known.keys()


def test_candidates_are_trained_on_the_labels_as_they_are(small):
    held_back = in_two(prepare(SPEC, small), 0.25)
    session = Session(dataclasses.replace(SPEC, method="rt:keep=0.7", noise_rate=0.0), held_back, "cpu")
    assert torch.equal(session.labels, held_back.y)
    assert accuracy(SPEC, RT(keep=0.7), held_back, "cpu") == list(session)[-1].test_accuracy


@pytest.mark.parametrize("end", [0, 1])
def test_every_suggestion_is_a_curve(end):
    method = suggest(Fixed(end), 7)
    assert build(text(method)) == method
    assert method.ramp == (1, 3)[end]


def test_what_is_wrong_is_said(small):
    with pytest.raises(ValueError, match=r"search_rt: validation must be a number in \(0, 1\), got 1"):
        search_rt(SPEC, small, validation=1)
    with pytest.raises(ValueError, match=r"search_rt: validation must leave rows on both sides of 200, got 0\.99"):
        in_two(prepare(SPEC, small), 0.99)


def test_without_optuna_it_says_what_to_install(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"search_rt needs Optuna: pip install 'adaptivek\[search\]'"):
        search_rt(SPEC, small)


def test_the_best_is_found_and_the_search_can_be_repeated(small, monkeypatch):
    pytest.importorskip("optuna")
    asked = []

    def made_up(spec, method, data, device):
        asked.append(data)
        return 1 - abs(method.keep - 0.55)

    monkeypatch.setattr(adaptivek.experiments.search, "accuracy", made_up)
    found, again = (search_rt(SPEC, small, trials=25, device="cpu") for _ in range(2))
    assert found == again
    assert len(found.tried) == 25
    assert found.accuracy == max(reached for _, reached in found.tried)
    assert abs(found.method.keep - 0.55) < 0.05
    assert all(len(data.y) == 160 for data in asked)


def test_each_trial_reached_what_training_with_its_curve_reaches_and_the_best_is_told(small):
    pytest.importorskip("optuna")
    found = search_rt(SPEC, small, trials=2, device="cpu")
    held_back = in_two(prepare(SPEC, small), 0.2)
    assert len({method for method, _ in found.tried}) == 2
    for method, reached in found.tried:
        assert reached == accuracy(SPEC, method, held_back, "cpu")
    assert (found.method, found.accuracy) in found.tried
    assert found.accuracy == max(reached for _, reached in found.tried)
