"""What a criterion saves, and what it refuses to load."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import pytest
import torch

import adaptivek
from adaptivek.method import describe
from adaptivek.methods import METHODS, build

ROWS, CLASSES = 12, 3


def make(method: str | adaptivek.Method = "label-memory", **changes: object) -> adaptivek.Selection:
    options = {"warmup": 3, "rows": ROWS, "classes": CLASSES} | changes
    name = method if isinstance(method, str) else method.name
    truth = {"clean": torch.ones(ROWS, dtype=torch.bool)} if name == "oracle" else {}
    return adaptivek.Selection(method, **options, **truth)


@pytest.mark.parametrize("other", METHODS)
def test_a_checkpoint_of_any_other_method_is_refused_with_both_named(other):
    criterion = make(other)
    before = {name: value.clone() for name, value in criterion.state_dict().items()}
    for saved in set(METHODS) - {other}:
        with pytest.raises(ValueError, match="the checkpoint must be of method=") as error:
            criterion.load_state_dict(make(saved).state_dict())
        assert describe(build(other)) in str(error.value)
        assert describe(build(saved)) in str(error.value)
        assert all(torch.equal(value, before[name]) for name, value in criterion.state_dict().items())  # as it was


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "mkl:keep=0.7"}, "must be of method=mkl:keep=0.7, got method=mkl:keep=0.6"),
        ({"warmup": 4}, "must be of warmup=4, got warmup=3"),
        ({"window": 9}, "must be of window=9, got window=500"),
        ({"rows": 13}, "must be of rows=13, got rows=12"),
        ({"classes": 4}, "must be of classes=4, got classes=3"),
    ],
)
def test_other_settings_of_the_same_method_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make(**({"method": "mkl"} | changes)).load_state_dict(make("mkl").state_dict())


def test_an_older_revision_is_refused(monkeypatch):
    state = make("mkl").state_dict()
    monkeypatch.setattr(adaptivek.MKL, "revision", 7)
    with pytest.raises(ValueError, match="must be of revision=7, got revision=1"):
        make("mkl").load_state_dict(state)


def test_the_same_method_written_otherwise_is_taken():
    saved = make("mkl")
    saved(torch.randn(4, CLASSES), torch.tensor([0, 1, 2, 0]), torch.arange(4))
    for method in ("mkl:keep=0.6", adaptivek.MKL()):
        loaded = make(method)
        loaded.load_state_dict(saved.state_dict())
        assert loaded.tally_step == 1


def test_it_is_saved_with_tensors_alone_and_inside_a_model():
    from safetensors.torch import load, save

    model = torch.nn.ModuleDict({"net": torch.nn.Linear(2, CLASSES), "criterion": make()})
    model["criterion"](torch.randn(4, CLASSES), torch.tensor([0, 1, 2, 0]), torch.arange(4))
    state = model.state_dict()
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    again = torch.nn.ModuleDict({"net": torch.nn.Linear(2, CLASSES), "criterion": make()})
    again.load_state_dict(load(save(state)))
    assert again["criterion"].tally_step == 1
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    again.load_state_dict(torch.load(file, weights_only=True))


def test_a_file_of_something_else_is_refused():
    criterion = make()
    state = criterion.state_dict() | {"_extra_state": torch.zeros(3, dtype=torch.uint8)}
    with pytest.raises(ValueError, match="must hold the settings of a criterion, got something else"):
        criterion.load_state_dict(state)


def test_loaded_before_the_first_step_it_learns_the_number_of_classes():
    saved = make(classes=None)
    saved(torch.randn(4, CLASSES), torch.tensor([0, 1, 2, 0]), torch.arange(4))
    fresh = make(classes=None)
    fresh.load_state_dict(saved.state_dict())
    assert fresh.classes == CLASSES
    for a, b in zip(saved.memory.state, fresh.memory.state, strict=True):
        assert torch.equal(a, b)


class Steps(NamedTuple):
    step: torch.Tensor
    method: torch.Tensor
    weight: torch.Tensor


@dataclass(frozen=True)
class HasFieldsOfCommonNames(adaptivek.Method[Steps]):
    """Its state is called what the criterion's own attributes and counters are called."""

    name: ClassVar[str] = "common-names"

    def init(self, task: adaptivek.Task) -> Steps:
        return Steps(*(torch.full((), 100.0) for _ in Steps._fields))

    def step(self, state: Steps, batch: adaptivek.Batch) -> adaptivek.Decision:
        return adaptivek.Decision(batch.valid, {"step": state.step + 1})


def test_a_state_may_be_called_anything():
    criterion = adaptivek.Selection(HasFieldsOfCommonNames())
    for _ in range(3):
        criterion.reduce(torch.rand(4))
    assert criterion.memory.tally.step == 3
    assert criterion.memory.state.step == 103
    assert criterion.method == HasFieldsOfCommonNames()
    other = adaptivek.Selection(HasFieldsOfCommonNames())
    other.load_state_dict(criterion.state_dict())
    assert (other.tally_step, other.state_step) == (3, 103)
