"""Progressive early stopping: what is frozen stays, what is begun afresh is, and the filter comes last."""

from __future__ import annotations

import io
import itertools

import pytest
import torch

import adaptivek
from adaptivek.experiments.data import Split, load
from adaptivek.experiments.executors import _for_a_stack
from adaptivek.experiments.prepare import fresh_network, prepare
from adaptivek.experiments.session import Session
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.experiments.stack import Stack
from adaptivek.methods import build
from adaptivek.networks import LAST_PARTS, MODELS, in_last_parts, make_model

RECIPE = Recipe("digits-cnn", epochs=4, batch_size=20, momentum=0.9, weight_decay=0.01, learning_rate=0.02)
SPEC = RunSpec("digits", "pes:plain=1,later=1,head=1", noise_rate=0.3, recipe=RECIPE)


@pytest.fixture(scope="module")
def small() -> Split:
    data = load("digits")
    return Split(data.x[:200], data.y[:200], data.x_test[:100], data.y_test[:100], 10)


def test_parts_are_trained_alone_by_the_schedule():
    assert [build("pes").parts_alone(epoch) for epoch in range(42)] == [0] * 25 + [2] * 7 + [1] * 7 + [0] * 3
    assert [build("pes:plain=1,later=0,head=2").parts_alone(epoch) for epoch in range(4)] == [0, 1, 1, 0]
    assert not any(build("mkl").parts_alone(epoch) for epoch in range(50))


@pytest.mark.parametrize("name", MODELS)
def test_the_parts_that_a_network_declares_are_its_last(name):
    names = [weight for weight, _ in make_model(name, 3, 10).named_parameters()]
    for number in range(1, len(LAST_PARTS[name]) + 1):
        inside = [in_last_parts(name, number, weight) for weight in names]
        assert inside == sorted(inside)
        assert any(inside)
        assert not all(inside)
    head = [weight for weight in names if in_last_parts(name, 1, weight)]
    assert all(len(make_model(name, 3, 10).get_parameter(weight)) == 10 for weight in head)


def test_frozen_weights_stay_and_fresh_ones_come_from_elsewhere(small):
    session, weights = Session(SPEC, small, "cpu"), []
    for record in session:
        weights.append({name: value.detach().clone() for name, value in session.model.state_dict().items()})
        assert record.kept_share == 1 or record.epoch == 4
    assert record.kept_share < 1
    moved = [
        {name.partition(".")[0] for name in after if not torch.equal(before[name], after[name])}
        for before, after in itertools.pairwise(weights)
    ]
    assert moved == [{"7", "10"}, {"10"}, {"0", "2", "7", "10"}]


@pytest.mark.parametrize(("after", "number"), [(1, 2), (2, 1)])
def test_a_stage_begins_from_fresh_weights_of_these_parts(after, number, small, monkeypatch):
    session, seen = Session(SPEC, small, "cpu"), []
    train = session._train
    monkeypatch.setattr(session, "_train", lambda drawn: (seen.append(_copied(session)), train(drawn))[1])
    list(session)
    fresh = fresh_network(session.job, 1 + number).state_dict()
    for name, value in seen[after].items():
        assert torch.equal(value, fresh[name]) == in_last_parts("digits-cnn", number, name), name


def _copied(session: Session) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in session.model.named_parameters()}


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_stopped_in_any_stage_it_goes_on_to_the_same_bits(stop, small):
    whole, first, second = (Session(SPEC, small, "cpu") for _ in range(3))
    list(whole)
    for _ in zip(range(stop), first, strict=False):
        pass
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    list(second)
    for a, b in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_no_stack_takes_it(small):
    assert not _for_a_stack(SPEC)
    with pytest.raises(ValueError, match="Stack: method must be one that freezes no parts of a network, got pes"):
        Stack([prepare(SPEC, small)], "cpu")


def test_without_freezing_it_is_agreement_with_a_warm_up_in_epochs():
    criterion = adaptivek.Selection("pes:plain=1,later=0,head=0")
    logits, labels = torch.tensor([[2.0, 1.0], [0.0, 5.0]]), torch.tensor([0, 0])
    for epoch, kept in ((0, [True, True]), (1, [True, False])):
        criterion.start_epoch(epoch)
        criterion(logits, labels)
        assert criterion.kept.tolist() == kept


@pytest.mark.parametrize("name", ["plain", "later", "head"])
def test_bad_parameters_are_named_at_construction(name):
    with pytest.raises(ValueError, match=f"PES: {name} must be a whole number of at least 0, got -1"):
        build(f"pes:{name}=-1")
