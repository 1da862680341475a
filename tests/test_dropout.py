"""Dropout by key: against the binomial, and the same in every company."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.func import functional_call, vmap

from adaptivek.networks import make_model
from adaptivek.networks.dropout import Dropout, draw_keys, dropout_layers, set_keys


def masks(keys: torch.Tensor, rate: float = 0.5, units: int = 200) -> torch.Tensor:
    """Which units each key keeps, (keys, units)."""
    layer = Dropout(rate)
    rows = []
    for key in keys:
        layer.key = key
        rows.append(layer(torch.ones(1, units))[0] > 0)
    return torch.stack(rows)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_the_share_kept_is_right_for_each_unit_and_each_key(rate):
    kept = masks(draw_keys(1, 2_000, np.random.default_rng(0))[:, 0], rate).double()
    for axis in (0, 1):  # within five standard deviations of the binomial everywhere
        number = kept.shape[axis]
        assert (kept.mean(axis) - (1 - rate)).abs().max() < 5 * (rate * (1 - rate) / number) ** 0.5


def test_units_and_keys_are_independent():
    kept = masks(draw_keys(1, 2_000, np.random.default_rng(1))[:, 0]).double()
    for sample in (kept, kept.t()):
        found = np.corrcoef(sample.numpy(), rowvar=False)
        off = found[~np.eye(len(found), dtype=bool)]
        assert np.abs(off).max() < 6 / len(sample) ** 0.5
        assert abs(off.std() * len(sample) ** 0.5 - 1) < 0.05  # as spread as chance makes it
    triples = (2 * kept - 1)[:, :99].reshape(2_000, 33, 3).prod(2).mean(0)  # and so are three at a time
    assert triples.abs().max() < 5 / 2_000**0.5


def test_what_is_kept_is_scaled_and_evaluation_changes_nothing():
    layer, x = Dropout(0.75), torch.randn(4, 50)
    set_keys(torch.nn.Sequential(layer), draw_keys(1, 1, np.random.default_rng(0))[0])
    y = layer(x)
    assert ((y == 0) | torch.isclose(y, 4 * x)).all()
    assert 0 < (y == 0).sum() < y.numel()
    assert torch.equal(y, layer(x))  # the key decides, and it has not changed
    assert torch.equal(layer.eval()(x), x)


def test_whole_channels():
    layer = Dropout(whole_channels=True)
    set_keys(torch.nn.Sequential(layer), draw_keys(1, 1, np.random.default_rng(3))[0])
    share = (layer(torch.ones(8, 16, 3, 3)) > 0).float().mean((2, 3))
    assert set(share.unique().tolist()) == {0.0, 1.0}


def test_the_same_masks_alone_and_stacked():
    model = make_model("digits-cnn", 1, 10)
    layers, x = list(dropout_layers(model)), torch.randn(3, 5, 1, 8, 8)
    keys = draw_keys(len(layers), 3, np.random.default_rng(5))

    def one(keys, x):
        return functional_call(model, {f"{name}.key": keys[i] for i, name in enumerate(layers)}, (x,))

    together = vmap(one)(keys, x)
    for run in range(3):
        set_keys(model, keys[run])
        torch.testing.assert_close(model(x[run]), together[run])
