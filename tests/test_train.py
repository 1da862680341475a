"""The training loop: against plain Python, and against itself after a stop. Against the notebook: test_notebook.py."""

from __future__ import annotations

import copy
import dataclasses
import io
import math

import numpy as np
import pytest
import torch

from adaptivek.experiments.data import Split, load
from adaptivek.experiments.prepare import draws
from adaptivek.experiments.records import EpochRecord, Steps, look_closer, measure
from adaptivek.experiments.session import Session, networks
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.methods import METHODS
from adaptivek.noise import corrupt
from adaptivek.support.streams import stream

QUICK = Recipe(network="digits-cnn", epochs=4, warmup_epochs=2, decay_every=3)


@pytest.fixture(scope="module")
def small() -> Split:
    data = load("digits")
    return Split(data.x[:300], data.y[:300], data.x_test[:100], data.y_test[:100], 10)


def spec(**changes) -> RunSpec:
    return RunSpec(**({"dataset": "digits", "noise_rate": 0.3, "recipe": QUICK} | changes))


def weights(session: Session) -> list[torch.Tensor]:
    return list(session.model.state_dict().values())


@pytest.mark.parametrize("method", METHODS)
def test_truth_reaches_the_oracle_alone(method, small):
    """Another truth about the same labels changes nothing in the weights, unless the method is privileged."""
    session = Session(spec(method=method), small, "cpu")
    # same noisy labels to train on, but other rows said to be wrong
    shuffled = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    other = Session(spec(method=method, noise_rate=0.0), small._replace(y=session.labels), "cpu")
    other.criterion = copy.deepcopy(session.criterion)
    other._clean = session._clean[:, shuffled]
    if METHODS[method].privileged:
        other.criterion.state_clean.copy_(other._clean[0])
    records, others = list(session), list(other)
    same = all(torch.equal(a, b) for a, b in zip(*map(weights, (session, other)), strict=True))
    assert same != METHODS[method].privileged
    assert records[-1].clean_loss_mean != others[-1].clean_loss_mean  # the measurement did see it


@pytest.mark.parametrize(
    ("method", "options"),
    [
        *((method, {}) for method in METHODS),
        ("vanilla", {"average": 0.9, "hold_out": 0.2}),
        ("label-memory", {"views": 2, "batch_size": 30}),
    ],
)
def test_stop_save_load_go_on_is_bit_equal(method, options, small):
    """Stopped during warm-up and after it."""
    run = spec(method=method, recipe=dataclasses.replace(QUICK, **options))
    whole, expected, files = Session(run, small, "cpu"), [], {}
    for record in whole:
        expected.append(dataclasses.replace(record, samples_per_second=0).to_json())
        files[record.epoch] = io.BytesIO()
        torch.save(whole.state_dict(), files[record.epoch])
    for stop in (1, 3):
        torch.manual_seed(123)  # what others do with the global state must not matter
        second = Session(run, small, "cpu")
        files[stop].seek(0)
        second.load_state_dict(torch.load(files[stop], weights_only=True))
        found = [dataclasses.replace(record, samples_per_second=0).to_json() for record in second]
        assert found == expected[stop:]
        for a, b in zip(whole.final_weights().values(), second.final_weights().values(), strict=True):
            assert torch.equal(a, b)


def test_averaged_weights_are_what_is_tested(small):
    """Against the formula written out: the mean of all weights so far, and later a moving average."""
    run = spec(method="vanilla", recipe=dataclasses.replace(QUICK, epochs=2, average=0.9))
    session, means, steps = Session(run, small, "cpu"), None, 0
    plain = Session(dataclasses.replace(run, recipe=dataclasses.replace(run.recipe, average=0.0)), small, "cpu")
    step = plain.optimizer.step

    def watched():
        nonlocal means, steps
        step()
        steps += 1
        share, now = max(0.1, 1 / steps), [p.detach().numpy().copy() for p in plain.model.parameters()]
        means = now if means is None else [(1 - share) * m + share * v for m, v in zip(means, now, strict=True)]

    plain.optimizer.step = watched
    for ours, theirs in zip(session, plain, strict=True):
        averaged = copy.deepcopy(plain.model).eval()
        for parameter, mean in zip(averaged.parameters(), means, strict=True):
            parameter.data = torch.from_numpy(mean)
        assert ours.test_accuracy == (averaged(small.x_test).argmax(1) == small.y_test).float().mean()
        assert ours.train_loss == theirs.train_loss  # training does not see the average
    for name, value in session.final_weights().items():
        torch.testing.assert_close(value, averaged.state_dict()[name])
        assert not torch.equal(value, plain.model.state_dict()[name])


def test_the_epoch_that_counts_is_the_best_on_held_out_rows_with_their_noisy_labels(small):
    recipe = dataclasses.replace(QUICK, epochs=6, hold_out=0.25, learning_rate=0.2)
    session = Session(spec(method="vanilla", noise_rate=0.4, recipe=recipe), small, "cpu")
    labels, _ = corrupt(small.y, session.spec.make_noise(), classes=10, seed=0)
    held = stream(0, "hold-out").permutation(300)[:75]
    assert session.steps_per_epoch == 22  # of the 225 rows that are left
    seen = []
    for record in session:
        session.model.eval()
        with torch.no_grad():
            right = session.model(small.x[held]).argmax(1) == labels[held]
            accuracy = (session.model(small.x_test).argmax(1) == small.y_test).float().mean().item()
        seen.append((right.float().mean().item(), accuracy, weights(copy.deepcopy(session))))
        assert record.validation_accuracy == pytest.approx(seen[-1][0])
        best = max(seen, key=lambda epoch: epoch[0])  # the first of equals
        assert record.test_accuracy == pytest.approx(best[1])
    assert best is not seen[-1]  # or the test would tell nothing
    for ours, theirs in zip(session.final_weights().values(), best[2], strict=True):
        assert torch.equal(ours, theirs)


def test_global_random_state_is_given_back(small):
    before = torch.get_rng_state()
    session = Session(spec(), small, "cpu")
    next(iter(session))
    assert torch.equal(before, torch.get_rng_state())


def test_all_methods_of_a_seed_share_noise_weights_and_order(small):
    sessions = [Session(spec(method=method, seed=5), small, "cpu") for method in METHODS]
    drawn = draws(sessions[0].job, 2, 3)
    for other in sessions[1:]:
        assert torch.equal(sessions[0].labels, other.labels)
        assert all(torch.equal(a, b) for a, b in zip(drawn[:3], draws(other.job, 2, 3)[:3], strict=True))
        first = networks(other.model)[0].state_dict().values()
        assert all(torch.equal(a, b) for a, b in zip(weights(sessions[0]), first, strict=True))
        drawn_twice = [network.state_dict()["0.weight"].sum().item() for network in networks(other.model)]
        assert len(set(drawn_twice)) == other.criterion.method.networks
    others = Session(spec(seed=6), small, "cpu").job
    assert not torch.equal(drawn.order, draws(others, 2, 3).order)
    assert not torch.equal(drawn.keys, draws(others, 2, 3).keys)
    assert not torch.equal(drawn.order, draws(sessions[0].job, 2, 4).order)


def test_measure_against_plain_python():
    rng = np.random.default_rng(0)
    losses, kept, clean = rng.exponential(size=(7, 5)), rng.random((7, 5)) < 0.5, rng.random((7, 5)) < 0.6
    weights = rng.random((7, 5))  # of a method that relabels: not what is believed
    weights[3] = 0.0
    losses[2, 3], kept[2, 3] = math.nan, False
    kept[4] = False  # a batch that keeps nothing has no precision
    clean[5] = False  # a batch without clean samples has no recall
    precisions, recalls, clean_losses, noisy_losses = [], [], [], []
    for step in range(7):
        both = sum(1 for i in range(5) if kept[step, i] and clean[step, i])
        if kept[step].any():
            precisions.append(both / kept[step].sum())
        if clean[step].any():
            recalls.append(both / clean[step].sum())
        for i in range(5):
            if not math.isnan(losses[step, i]):
                (clean_losses if clean[step, i] else noisy_losses).append(losses[step, i])
    cuts = torch.arange(7.0)
    steps = Steps(*map(torch.tensor, (losses, weights, kept, clean)), cuts)
    found = {name: value.item() for name, value in measure(steps).items()}
    expected = {
        "train_loss": np.mean(clean_losses + noisy_losses),
        "kept_share": weights.mean(),
        "precision": np.mean(precisions),
        "recall": np.mean(recalls),
        "noise_ratio": 1 - kept.mean(),
        "threshold": 3,
        "clean_loss_mean": np.mean(clean_losses),
        "clean_loss_std": np.std(clean_losses),
        "noisy_loss_mean": np.mean(noisy_losses),
        "noisy_loss_std": np.std(noisy_losses),
        "empty_steps": 1,
        "nonfinite": 1,
    }
    assert found == pytest.approx(expected)
    # two runs on a leading axis are measured each by itself
    both = measure(Steps(*(torch.stack([part, part.flip(0)]) for part in steps)))
    assert {name: value[0].item() for name, value in both.items()} == pytest.approx(expected)
    assert both["train_loss"].shape == (2,)


def test_a_closer_look_against_numpy():
    rng = np.random.default_rng(0)
    losses, kept, clean = rng.exponential(4, size=(300, 5)), rng.random((300, 5)), rng.random((300, 5)) < 0.6
    losses[0, 0] = math.inf
    detail = look_closer(3, Steps(*map(torch.tensor, (losses, kept, kept > 0.9, clean)), torch.zeros(300)))
    edges = [*np.arange(40) / 4, math.inf]
    np.testing.assert_array_equal(detail.clean_losses, np.histogram(losses[clean], edges)[0])
    np.testing.assert_array_equal(detail.noisy_losses, np.histogram(losses[~clean], edges)[0])
    np.testing.assert_allclose(detail.clean_share, clean[:200].mean(1), atol=5e-4)
    np.testing.assert_allclose(detail.kept_share, kept[:200].mean(1), atol=6e-4)


def test_records_tell_the_truth(small):
    session = Session(spec(method="mkl", noise_rate=0.4, exact_noise=True), small, "cpu")
    records = list(session)
    assert [r.epoch for r in records] == [1, 2, 3, 4]
    assert all(r.selecting for r in records)  # MKL does not warm up
    last = records[-1]
    assert last.kept_share == pytest.approx(0.6)  # from the noise rate, as in the paper
    assert last.true_noise_ratio == pytest.approx(0.4)
    assert last.best_test_accuracy == max(r.test_accuracy for r in records)
    with torch.no_grad():
        session.model.eval()
        hits = session.model(small.x_test).argmax(1) == small.y_test
    assert last.test_accuracy == pytest.approx(hits.float().mean().item())
    assert math.isnan(last.threshold)
    assert last.to_json()["threshold"] is None
    assert EpochRecord.from_json(last.to_json()).to_json() == last.to_json()


def test_oracle_trains_on_the_clean_alone(small):
    """The same as plain training on a loss that is zero for wrong rows."""
    session = Session(spec(method="oracle", noise_rate=0.4), small, "cpu")
    records = list(session)
    assert records[-1].precision == 1
    assert records[-1].recall == 1
    assert records[-1].kept_share == pytest.approx(1 - records[-1].true_noise_ratio, abs=0.01)


def test_the_session_uses_the_noise_it_was_asked_for(small):
    session = Session(spec(noise="symmetric", noise_rate=0.3, seed=9), small, "cpu")
    expected, manifest = corrupt(small.y, session.spec.make_noise(), classes=10, seed=9)
    assert torch.equal(session.labels, expected)
    assert session.manifest == manifest


def test_instance_noise_sees_the_images(small):
    session = Session(spec(noise="instance"), small, "cpu")
    assert 0.2 < next(iter(session)).true_noise_ratio < 0.4


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_learns_digits(optimizer, small):
    recipe = dataclasses.replace(QUICK, optimizer=optimizer, learning_rate=0.05 if optimizer == "sgd" else 0.002)
    assert list(Session(spec(method="vanilla", noise_rate=0.0, recipe=recipe), small, "cpu"))[-1].test_accuracy > 0.6


def test_spec_round_trip():
    run = spec(method="mkl:keep=0.5", seed=3)
    assert RunSpec.from_dict(run.to_dict()) == run
    assert hash(run) == hash(spec(method="mkl:keep=0.5", seed=3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: spec(method="best"), "method must be one of oracle"),
        (lambda: spec(method="mkl:keep=2"), r"MKL: keep must be a number in \(0, 1\], got 2.0"),
        (lambda: spec(noise="loud"), "RunSpec: noise must be one of directed"),
        (lambda: spec(noise_rate=1.5), r"RunSpec: noise_rate must be a number in \[0, 1\], got 1.5"),
        (lambda: spec(seed=-1), "RunSpec: seed must be a whole number of at least 0, got -1"),
        (lambda: Recipe(epochs=0), "Recipe: epochs must be a whole number of at least 1, got 0"),
        (lambda: Recipe(network="vgg"), "Recipe: network must be one of digits-cnn"),
        (lambda: Recipe(momentum=1), r"Recipe: momentum must be a number in \[0, 1\), got 1"),
        (lambda: load("imagenet"), "load: dataset must be one of digits, mnist, .*got 'imagenet'"),
        (
            lambda: Session(spec(recipe=Recipe(network="digits-cnn", batch_size=5000))),
            "batch_size must be at most the 1437 training rows, got 5000",
        ),
    ],
)
def test_mistakes_are_named_before_training(make, message):
    with pytest.raises(ValueError, match=message):
        make()
