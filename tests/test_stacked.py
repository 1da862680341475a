"""Stacked runs: each comes out as it does alone, whatever the company."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.func import vmap

from adaptivek.experiments.data import Split, load
from adaptivek.experiments.groups import varying, with_parameters
from adaptivek.experiments.prepare import draws, prepare
from adaptivek.experiments.session import Session
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.experiments.stack import Stack
from adaptivek.method import Task
from adaptivek.methods import METHODS, build, defaults
from adaptivek.networks import Conv2d
from adaptivek.networks.views import PAD, augment, distort
from adaptivek.step import Inputs, begin_epoch, remember, start, train_step

from .tiny import answered, swept

QUICK = Recipe(network="digits-cnn", epochs=3, warmup_epochs=1, decay_every=2)
STACKED = [name for name, method in METHODS.items() if not method.freezes]
# after some hundred steps a difference in the last digit has grown, and a sample near the threshold may tip over
LOOSE = {"rel": 2e-3, "abs": 2e-3}
#: what does something within three epochs
SOONER = {"moit": "moit:neighbours=5,plain=1", "plc": "plc:plain=1"}


@pytest.fixture(scope="module")
def splits() -> list[Split]:
    data = load("digits")
    return [
        Split(data.x[rows], data.y[rows], data.x_test[:100], data.y_test[:100], 10)
        for rows in (slice(0, 200), slice(200, 400))
    ]


def job(method, split, **changes):
    asked = {"dataset": "digits", "method": method, "noise_rate": 0.3, "recipe": QUICK} | changes
    return prepare(RunSpec(**asked), split)


def assert_same(ours, theirs) -> None:
    pairs = {key: (value, getattr(theirs, key)) for key, value in dataclasses.asdict(ours).items()}
    del pairs["samples_per_second"]
    for key, (one, other) in pairs.items():
        assert one == pytest.approx(other, nan_ok=True, **LOOSE), key


def test_a_run_is_the_same_stacked_or_alone(splits):
    jobs = [
        job(method, splits[seed], seed=seed, noise_rate=rate)
        for seed, rate, method in [
            *((0, 0.4, method) for method in reversed(STACKED)),
            *((1, 0.2, SOONER.get(method, method)) for method in STACKED),
        ]
    ]
    stack = Stack(jobs, "cpu")
    together = list(zip(*stack, strict=True))
    for run, records, details in zip(jobs, together, stack.details, strict=True):
        session = Session(run.spec, run.data, "cpu")
        for ours, theirs in zip(records, session, strict=True):
            assert_same(ours, theirs)
        assert [detail.epoch for detail in details] == [1, 2, 3]
        for ours, theirs in zip(details, session.details, strict=True):
            assert ours.clean_share == theirs.clean_share
            assert sum(ours.noisy_losses) == sum(theirs.noisy_losses)
    for run in (0, 7):  # and in the smallest company
        for ours, theirs in zip(together[run], Stack([jobs[run]], "cpu"), strict=True):
            assert_same(ours, theirs[0])


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_every_optimiser(optimizer, splits):
    recipe = dataclasses.replace(QUICK, optimizer=optimizer, learning_rate=0.002, weight_decay=0.01, epochs=2)
    recipe = dataclasses.replace(recipe, momentum=0.9) if optimizer == "sgd" else recipe
    jobs = [job(method, splits[0], recipe=recipe) for method in ("mkl", "adaptive-k")]
    together = list(zip(*Stack(jobs, "cpu"), strict=True))
    for run, records in zip(jobs, together, strict=True):
        for ours, theirs in zip(records, Session(run.spec, run.data, "cpu"), strict=True):
            assert_same(ours, theirs)


def test_runs_of_one_stack_may_begin_to_select_at_different_times(splits):
    recipes = [dataclasses.replace(QUICK, warmup_epochs=epochs) for epochs in (2, 0, 1)]
    jobs = [job("adaptive-k", splits[0], recipe=recipe) for recipe in recipes]
    stack = Stack(jobs, "cpu")
    together = list(zip(*stack, strict=True))
    assert [sum(not record.selecting for record in records) for records in together] == [2, 0, 1]
    for run, records, details in zip(jobs, together, stack.details, strict=True):
        session = Session(run.spec, run.data, "cpu")
        for ours, theirs in zip(records, session, strict=True):
            assert_same(ours, theirs)
        assert [detail.epoch for detail in details] == [detail.epoch for detail in session.details]


@pytest.mark.parametrize("network", ["resnet9"])
def test_a_network_that_cannot_be_stacked_is_a_stack_of_one(network):
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(24, 3, 32, 32, generator=draw), torch.arange(24) % 4
    data = Split(x, y, x[:8], y[:8], 4)
    recipe = Recipe(network=network, epochs=1, warmup_epochs=0, batch_size=8, augment=True, precision="bfloat16")
    jobs = [job("mkl", data, recipe=recipe), job("vanilla", data, recipe=recipe)]
    for run in jobs:  # one after the other through the same network
        for ours, theirs in zip(Stack([run], "cpu"), Session(run.spec, data, "cpu"), strict=True):
            assert_same(ours[0], theirs)
    with pytest.raises(ValueError, match="jobs must be one at a time for resnet9, got 2"):
        Stack(jobs, "cpu")


@pytest.mark.parametrize("name", METHODS)
def test_rules_that_differ_in_numbers_are_one_rule_with_a_number_for_each_run(name):
    """Every real parameter of every method may come as a tensor with one number for each run."""
    reals = {key: value for key, value in defaults(METHODS[name]).items() if isinstance(value, float)}
    rng = np.random.default_rng(0)
    clean = torch.from_numpy(rng.random((2, 30)) < 0.7)
    for key, value in (reals or {"": 0.0}).items():
        methods = [build(name), dataclasses.replace(build(name), **({key: value * 0.8 or 0.2} if key else {}))]
        numbers = varying(methods, torch.device("cpu"))
        assert set(numbers) == set(filter(None, [key]))
        tasks = [Task(truth if methods[0].privileged else None, 30, 5) for truth in clean]
        apart = [start(method, task) for method, task in zip(methods, tasks, strict=True)]
        both = type(apart[0])(
            *(type(a)(*(torch.stack(pair) for pair in zip(a, b, strict=True))) for a, b in zip(*apart, strict=True))
        )

        def step(numbers, memory, given, method=methods[0]):
            method = with_parameters(method, numbers)
            mean, outcome = train_step(method, memory, Inputs(**given))
            remember(method, memory, outcome)
            return mean, outcome.weights

        for turn in range(24):
            if turn % 3 == 0:
                for run, method in enumerate(methods):
                    found = swept(method, 30, 2 * turn + run)
                    begin_epoch(method, apart[run], turn // 3, found)
                    one = type(both)(*(type(piece)(*(value[run] for value in piece)) for piece in both))
                    begin_epoch(method, one, turn // 3, found)
            given = {
                "logits": answered(methods[0], torch.from_numpy(rng.normal(size=(2, 10, 5)).astype(np.float32)) * 2),
                "labels": torch.from_numpy(rng.integers(0, 5, (2, 10))),
                "rows": torch.from_numpy(rng.permuted(np.tile(np.arange(30), (2, 1)), axis=1)[:, :10].copy()),
            }
            means, weights = vmap(step)(numbers, both, given)
            for run, method in enumerate(methods):
                mean, alone = step({}, apart[run], {part: value[run] for part, value in given.items()}, method)
                torch.testing.assert_close(means[run], mean)
                torch.testing.assert_close(weights[run], alone)


def test_what_cannot_be_stacked_is_refused(splits):
    with pytest.raises(ValueError, match="one recipe, but for warm-up, and one shape"):
        Stack([job("mkl", splits[0]), job("mkl", splits[0], recipe=dataclasses.replace(QUICK, epochs=9))], "cpu")
    with pytest.raises(ValueError, match="one recipe, but for warm-up, and one shape"):
        Stack([job("mkl", splits[0]), job("mkl", splits[0]._replace(x=F.pad(splits[0].x, (0, 1, 0, 1))))], "cpu")
    with pytest.raises(ValueError, match="reforward must be False"):
        Stack([job("mkl", splits[0], reforward=True)], "cpu")
    with pytest.raises(ValueError, match="at least one"):
        Stack([], "cpu")


def test_a_convolution_as_a_product():
    layer, x = Conv2d(3, 4, (5, 3)), torch.randn(2, 3, 9, 8)
    expected = layer(x)
    layer.as_product = True
    torch.testing.assert_close(layer(x), expected)
    assert not torch.equal(layer(x + 1), expected)


def test_augmentation_against_plain_slices():
    draw = np.random.default_rng(0)
    x = torch.from_numpy(draw.random((6, 3, 10, 12)))
    moves = torch.from_numpy(draw.integers(0, [2 * PAD + 1, 2 * PAD + 1, 2], (6, 3)))
    padded = F.pad(x, [PAD] * 4, mode="reflect")
    for image, (down, right, mirrored) in enumerate(moves.tolist()):
        expected = padded[image, :, down : down + 10, right : right + 12]
        assert torch.equal(augment(x, moves)[image], expected.flip(-1) if mirrored else expected)


def test_a_distorted_image_against_plain_loops():
    x = torch.arange(1.0, 65.0).view(1, 1, 8, 8).expand(2, 1, 8, 8)
    found = distort(x, torch.tensor([[3, 0, 8], [7, 7, 16]]))
    for image, (down, right, factor) in enumerate([(3, 0, 1.0), (7, 7, 1.5)]):
        for row in range(8):
            for column in range(8):
                hidden = abs(row - down) <= 2 and abs(column - right) <= 2
                assert found[image, 0, row, column] == (0 if hidden else factor * x[image, 0, row, column])


def test_texts_have_no_views(splits):
    with pytest.raises(ValueError, match="method must be one without views for data that are not images, got augdesc"):
        job("augdesc", splits[0]._replace(x=splits[0].x.flatten(1)))


def test_augmentation_is_drawn_anew_each_epoch_and_reaches_all_places(splits):
    ready = job("vanilla", splits[0], recipe=dataclasses.replace(QUICK, augment=True))
    first, second = (draws(ready, 2, epoch).moves for epoch in (0, 1))
    assert not torch.equal(first, second)
    assert first.amin((0, 1)).tolist() == [0, 0, 0]
    assert first.amax((0, 1)).tolist() == [2 * PAD, 2 * PAD, 1]
    with pytest.raises(ValueError, match="augment must be False for data that are not images"):
        prepare(ready.spec, splits[0]._replace(x=splits[0].x.flatten(1)))


@pytest.mark.parametrize("network", ["digits-cnn", "resnet9"])
def test_averaged_and_stopped_early_the_same_stacked_or_alone(network, splits):
    recipe = dataclasses.replace(QUICK, network=network, average=0.9, hold_out=0.2, batch_size=20)
    split = splits[0]
    if network == "resnet9":  # with batch statistics; the size its poolings need
        split = split._replace(
            x=F.interpolate(split.x[:50], 16), y=split.y[:50], x_test=F.interpolate(split.x_test, 16)
        )
    jobs = [job(method, split, recipe=recipe) for method in ("itlm", "oracle")]
    jobs = jobs if network == "digits-cnn" else jobs[:1]
    together = list(zip(*Stack(jobs, "cpu"), strict=True))
    for run, records in zip(jobs, together, strict=True):
        for ours, theirs in zip(records, Session(run.spec, run.data, "cpu"), strict=True):
            assert_same(ours, theirs)
            assert 0 <= ours.validation_accuracy <= 1


def test_a_network_that_begins_anew_does_so_in_a_stack_too(splits):
    recipe = dataclasses.replace(QUICK, epochs=5, momentum=0.9, learning_rate=0.02, average=0.9)
    jobs = [job(method, splits[0], recipe=recipe) for method in ("itlm:begin=anew,every=2", "itlm:begin=on,every=2")]
    for ours, theirs in zip(Stack(jobs[:1], "cpu"), Session(jobs[0].spec, jobs[0].data, "cpu"), strict=True):
        assert_same(ours[0], theirs)
    with pytest.raises(ValueError, match="jobs must restart with fresh weights in the same epochs"):
        Stack(jobs, "cpu")
