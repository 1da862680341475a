"""What is random comes from streams of its own: none is another's, nor one that users are likely to have."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from adaptivek.auditing.training import Plan, Run
from adaptivek.experiments.data import Split
from adaptivek.experiments.prepare import draws, prepare
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.noise import Directed, corrupt
from adaptivek.support.streams import stream

EPOCHS = range(8)
OFTEN_USED = np.random.default_rng(0).bit_generator.state["state"]["state"]


@pytest.fixture
def begun(monkeypatch) -> list[int]:
    """The state that each generator starts in, as they are made."""
    states = []
    real = np.random.default_rng

    def watched(*args):
        generator = real(*args)
        states.append(generator.bit_generator.state["state"]["state"])
        return generator

    monkeypatch.setattr(np.random, "default_rng", watched)
    return states


def test_no_two_draws_of_a_run_share_a_stream(begun):
    x, y = torch.rand(40, 1, 8, 8), torch.arange(40) % 4
    recipe = Recipe("digits-cnn", batch_size=5, augment=True, hold_out=0.25)
    for seed in (0, 1, 2**32, 3 * 2**32):  # NumPy cuts a large seed into words
        for method, views in (("vanilla", 1), ("augdesc", 1), ("mixup", 1), ("vanilla", 2)):
            own = dataclasses.replace(recipe, views=views)
            spec = RunSpec("mine", method, "directed", 0.3, seed=seed, recipe=own)
            job = prepare(spec, Split(x, y, x, y, 4))
            for epoch in EPOCHS:
                draws(job, 2, epoch)
    # order, dropout and augmentation an epoch, for AugDesc the distorted views too, for mixup the pairs, for strong
    # views these and the distortions
    assert len(begun) == 4 * (4 * 2 + (3 + 4 + 4 + 5) * len(EPOCHS))
    assert len(set(begun)) == 4 * (2 + 6 * len(EPOCHS))  # the same for all methods, and for nothing else
    assert OFTEN_USED not in begun


def test_no_two_draws_of_an_audit_share_a_stream(begun):
    labels = np.arange(60) % 3
    run = Run(lambda rows: torch.ones(len(rows), 2), labels, 3, lambda seed: torch.nn.Linear(2, 3),
              Plan(epochs=4, batch_size=5, seed=0), "cpu")  # fmt: skip
    for epoch in range(4):
        run.done = epoch
        list(run._batches())
    assert len(set(begun)) == len(begun) == 5  # the halves, and an order an epoch
    assert OFTEN_USED not in begun


def test_noise_is_not_drawn_from_the_generator_that_everybody_splits_by():
    """Or rows split by `default_rng(0).random(n) < 0.8` would have all wrong labels on one side."""
    _, manifest = corrupt(np.zeros(1_000, int), Directed(0.3), classes=5, seed=0)
    split = np.random.default_rng(0).random(1_000) < 0.8
    among = split[manifest.rows].mean()
    assert 0.7 < among < 0.9


def test_a_stream_is_the_same_everywhere_and_for_ever():
    """Written down once."""
    assert stream(0, "order", 0).integers(0, 1000, 5).tolist() == [189, 578, 654, 59, 192]


def test_the_test_could_fail(begun):
    np.random.default_rng([5, 0])
    np.random.default_rng(5)
    assert len(set(begun)) == 1  # what NumPy does with zeros at the end
