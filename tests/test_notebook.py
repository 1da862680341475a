"""The second pass of the authors' notebook: the loop against theirs, written again, and which methods can have one."""

from __future__ import annotations

import dataclasses
import functools
import re

import numpy as np
import pytest
import torch

from adaptivek.experiments.data import Split, load
from adaptivek.experiments.prepare import draws
from adaptivek.experiments.session import Session
from adaptivek.experiments.spec import RECIPES, Recipe, RunSpec
from adaptivek.methods import METHODS
from adaptivek.networks import make_model
from adaptivek.networks.dropout import dropout_layers, set_keys
from adaptivek.support.streams import stream

QUICK = Recipe(network="digits-cnn", epochs=4, warmup_epochs=2, decay_every=3)
BEFORE_THE_OPTIMIZER = "ignore:Detected call of `lr_scheduler.step\\(\\)` before"  # torch on where the notebook steps


@pytest.fixture(scope="module")
def small() -> Split:
    data = load("digits")
    return Split(data.x[:300], data.y[:300], data.x_test[:100], data.y_test[:100], 10)


def spec(**changes) -> RunSpec:
    return RunSpec(**({"dataset": "digits", "noise_rate": 0.3, "recipe": QUICK} | changes))


def weights(session: Session) -> list[torch.Tensor]:
    return list(session.model.state_dict().values())


def notebook(run: RunSpec, data: Split, labels: torch.Tensor, keys) -> tuple[torch.nn.Module, list[int]]:
    """The authors' loop as it stands, written again: the scheduler steps before each epoch, two passes, losses through
    NumPy, one threshold for all epochs.

    ``keys(epoch)`` are those of dropout, for the first and the second pass of each step.
    """
    recipe, size = run.recipe, run.recipe.batch_size
    model = make_model(recipe.network, 1, 10, run.seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=recipe.learning_rate)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, recipe.decay_every, recipe.decay_factor)
    m = v = 0.0
    kept_numbers = []
    model.train()
    for epoch in range(recipe.epochs):
        scheduler.step()
        order = stream(run.seed, "order", epoch).permutation(len(labels))
        for step, start in enumerate(range(0, len(labels) - size + 1, size)):
            set_keys(model, keys(epoch)[step, 0])
            rows = torch.from_numpy(order[start : start + size])
            x, y = data.x[rows], labels[rows]
            if epoch >= recipe.warmup_epochs:
                losses = torch.nn.CrossEntropyLoss(reduction="none")(model(x), y).detach().numpy()
                mean = losses.mean()
                m = 0.9 * m + 0.1 * mean
                v = 0.999 * v + 0.001 * mean**2
                chosen = np.where(losses <= m / (np.sqrt(v) + 1e-8))[0]
                kept_numbers.append(len(chosen))
                x, y = x[chosen], y[chosen]
                set_keys(model, keys(epoch)[step, 1])
            optimizer.zero_grad()
            torch.nn.CrossEntropyLoss()(model(x), y).backward()
            optimizer.step()
    return model, kept_numbers


@pytest.mark.filterwarnings(BEFORE_THE_OPTIMIZER)
def test_reforward_is_the_notebook_weight_for_weight(small):
    # long enough for the threshold to come down from its early peak and leave samples out
    recipe = dataclasses.replace(QUICK, epochs=14, warmup_epochs=6, decay_early=True)
    run = spec(reforward=True, noise_rate=0.4, seed=1, recipe=recipe)
    session = Session(run, small, "cpu")
    records = list(session)
    layers = len(dropout_layers(session.model))
    model, kept_numbers = notebook(
        run, small, session.labels, functools.cache(lambda epoch: draws(session.job, layers, epoch).keys)
    )
    for ours, theirs in zip(weights(session), model.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    assert 0 < min(kept_numbers) < 10  # some were left out, never all
    shares = np.array(kept_numbers).reshape(8, -1).mean(1) / 10
    np.testing.assert_allclose([r.kept_share for r in records[6:]], shares)


@pytest.mark.filterwarnings(BEFORE_THE_OPTIMIZER)
@pytest.mark.parametrize("dataset", ["mnist", "fashion-mnist"])
def test_the_learning_rate_drops_when_the_notebooks_does(dataset):
    """By torch's own scheduler, stepped at the start of each epoch: before the 30th and the 60th."""
    recipe, rates = RECIPES[dataset], []
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.05)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30, 0.2)
    for _ in range(80):
        scheduler.step()
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
    assert [rates.count(rate) for rate in dict.fromkeys(rates)] == [29, 30, 21]
    assert [recipe.learning_rate_at(epoch) for epoch in range(80)] == pytest.approx(rates)
    assert (recipe.epochs, recipe.warmup_epochs) == (80, 30)


def test_without_reforward_the_run_differs_only_after_warmup(small):
    sessions = [Session(spec(reforward=flag), small, "cpu") for flag in (False, True)]
    for epoch, pair in enumerate(zip(*sessions, strict=True)):
        same = [torch.equal(a, b) for a, b in zip(*map(weights, sessions), strict=True)]
        assert all(same) == (epoch < 2)
        assert pair[0].selecting == (epoch >= 2)


def test_a_second_pass_weighs_as_the_method_says(small):
    """Weights between 0 and 1 too: all above 0 is not all alike."""
    recipe = dataclasses.replace(QUICK, epochs=2, warmup_epochs=0)
    sessions = [
        Session(spec(method=method, reforward=True, recipe=recipe), small, "cpu")
        for method in ("vanilla", "eg-reweighting")
    ]
    for session in sessions:
        list(session)
    assert not any(torch.equal(a, b) for a, b in zip(*map(weights, sessions), strict=True))


@pytest.mark.parametrize("method", METHODS)
def test_a_second_pass_is_refused_where_plain_cross_entropy_is_not_the_method(method):
    kind = METHODS[method]
    plain = not kind.needs_logits
    if plain:
        assert spec(method=method, reforward=True).reforward
    else:
        with pytest.raises(ValueError, match=rf"RunSpec: reforward must be False for {re.escape(method)}"):
            spec(method=method, reforward=True)


def test_nothing_kept_under_reforward_does_not_crash(small):
    """Where the notebook would call backward on a spent loss."""
    run = spec(method="adaptive-k:beta1=1.0", reforward=True)
    session = Session(run, small, "cpu")
    records = list(session)
    assert records[-1].empty_steps == session.steps_per_epoch
    assert records[-1].noise_ratio == 1
    assert all(torch.isfinite(w).all() for w in weights(session))
