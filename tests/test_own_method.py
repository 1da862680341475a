"""Methods from outside: registered or installed, checked, and taken by name everywhere."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import ClassVar, NamedTuple

import pytest
import torch

import adaptivek
from adaptivek import methods, testing
from adaptivek.method import NoState
from adaptivek.testing import check_method

EXAMPLE = Path(__file__).parent.parent / "examples" / "own_method.py"


def example() -> ModuleType:
    """The example as a module, as ``--import`` loads it."""
    spec = importlib.util.spec_from_file_location("own_method", EXAMPLE)
    module = sys.modules["own_method"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def registry(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(methods, "METHODS", dict(methods.METHODS))
    return methods.METHODS


def test_the_example_is_a_method_of_thirty_lines_that_passes_and_is_taken_by_name(registry):
    kind = example().BelowMean
    check_method(kind)
    source = EXAMPLE.read_text()
    assert len(source[source.index("class MeanLoss") : source.index("if __name__")].strip().splitlines()) <= 30
    criterion = adaptivek.Selection("below-mean:factor=2.0", warmup=0)
    criterion.reduce(torch.tensor([0.5, 1.0, 9.0]))
    assert criterion.method == kind(factor=2.0)
    assert criterion.kept.tolist() == [True, True, False]


class Rate(NamedTuple):
    rate: torch.Tensor


@dataclass(frozen=True)
class TrimmedByRate(adaptivek.Method[NoState]):
    """Its share is called neither keep nor anything else that the library knows."""

    trusted: float = 0.5

    name: ClassVar[str] = "trimmed-by-rate"
    summary: ClassVar[str] = "keeps a share"
    paper: ClassVar[str] = "a test"
    clean_share: ClassVar[str] = "trusted"

    def init(self, task: adaptivek.Task) -> NoState:
        return NoState()

    def step(self, state: NoState, batch: adaptivek.Batch) -> adaptivek.Decision:
        return adaptivek.Decision(methods.mkl.smallest_share(batch.loss, batch, self.trusted))


def test_the_noise_ratio_reaches_the_parameter_that_a_method_declares(registry):
    from adaptivek.experiments.spec import RunSpec

    adaptivek.register(TrimmedByRate)
    check_method(TrimmedByRate)
    assert RunSpec("digits", "trimmed-by-rate", noise_rate=0.25).make_method().trusted == 0.75
    assert RunSpec("digits", "trimmed-by-rate:trusted=0.9", noise_rate=0.25).make_method().trusted == 0.9
    assert "ratio" in methods.needs(TrimmedByRate)


def test_an_installed_package_brings_its_methods(registry, monkeypatch):
    class Found:
        def load(self) -> type[adaptivek.Method]:
            return TrimmedByRate

    asked = []

    def found(**wanted: str) -> list[Found]:
        asked.append(wanted)
        return [Found()] if wanted == {"group": "adaptivek.methods", "name": "trimmed-by-rate"} else []

    monkeypatch.setattr(methods, "entry_points", found)
    assert adaptivek.Selection("trimmed-by-rate").method == TrimmedByRate()
    assert adaptivek.Selection("mkl").method == adaptivek.MKL()
    assert len(asked) == 1  # what is known is not looked for
    with pytest.raises(ValueError, match="got 'nowhere'"):
        adaptivek.Selection("nowhere")
    assert importlib.metadata.entry_points(group="adaptivek.methods") is not None


def test_registered_twice_it_is_the_same_and_another_of_its_name_is_refused(registry):
    adaptivek.register(TrimmedByRate)
    adaptivek.register(TrimmedByRate)

    @dataclass(frozen=True)
    class Impostor(TrimmedByRate):
        pass

    with pytest.raises(ValueError, match="name must be a new one, got 'trimmed-by-rate', which is TrimmedByRate"):
        adaptivek.register(Impostor)


def changed(**attributes: object) -> type:
    return dataclass(frozen=True)(type("Changed", (TrimmedByRate,), {"name": "changed", **attributes}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: int, "int: a method must be a subclass of adaptivek.Method"),
        (lambda: changed(name="Not A Name"), "name must be of small letters, digits, \\+ and -, got 'Not A Name'"),
        (lambda: changed(summary=None), "summary must be a str, got None"),
        (lambda: changed(clean_share="kept"), "clean_share must name a parameter, got 'kept'"),
        (lambda: type("Plain", (adaptivek.Method,), {"name": "p", "summary": "", "paper": ""}), "a frozen dataclass"),
    ],
)
def test_what_is_no_method_is_refused(make, message, registry):
    with pytest.raises((TypeError, ValueError), match=message):
        adaptivek.register(make())


@dataclass(frozen=True)
class Leaky(TrimmedByRate):
    """Lets samples that do not count have a say."""

    name: ClassVar[str] = "leaky"

    def step(self, state: NoState, batch: adaptivek.Batch) -> adaptivek.Decision:
        return adaptivek.Decision(batch.loss <= batch.loss.mean())


@dataclass(frozen=True)
class Curious(TrimmedByRate):
    """Reads a value back."""

    name: ClassVar[str] = "curious"

    def step(self, state: NoState, batch: adaptivek.Batch) -> adaptivek.Decision:
        return adaptivek.Decision(batch.loss <= float(batch.n_valid))


@dataclass(frozen=True)
class Forgetful(adaptivek.Method[Rate]):
    """Says that a field changes which its state has not."""

    name: ClassVar[str] = "forgetful"
    summary: ClassVar[str] = "forgets"
    paper: ClassVar[str] = "a test"

    def init(self, task: adaptivek.Task) -> Rate:
        return Rate(torch.zeros(()))

    def step(self, state: Rate, batch: adaptivek.Batch) -> adaptivek.Decision:
        return adaptivek.Decision(batch.valid, {"ratio": state.rate})


@dataclass(frozen=True)
class Random(TrimmedByRate):
    """Draws from a random state: not the same again, nor on another process."""

    name: ClassVar[str] = "random"

    def step(self, state: NoState, batch: adaptivek.Batch) -> adaptivek.Decision:
        return adaptivek.Decision(torch.rand_like(batch.loss))


@pytest.mark.parametrize(
    ("method", "check"),
    [
        (Leaky, "check_masking"),
        (Curious, "check_vmap"),
        (Forgetful, "check_pure"),
        (Random, "check_permutation"),
        (Random, "check_resuming"),
        (Random, "check_ranks"),
    ],
)
def test_each_check_finds_what_it_is_for(method, check):
    with pytest.raises(Exception, match=r"(?s)close|vmap|unsupported|no attribute|differs|loss") as error:
        getattr(testing, check)(method())
    assert error.type is not pytest.fail.Exception


def test_the_first_check_that_fails_is_named():
    with pytest.raises(AssertionError, match="Leaky does not pass check_masking: "):
        check_method(Leaky)
