"""Counts of predicted class and observed label: what they say, and how little they keep of very many classes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import adaptivek
from adaptivek import testing
from adaptivek.method import Batch
from adaptivek.methods import METHODS, confusion


def slowly(counts: np.ndarray, label: int) -> tuple[list[float], float]:
    """The odds of each class and the trust in a label, from counts [predicted, observed], one by one."""
    known = counts + np.eye(len(counts))

    def share(of: int) -> float:
        return max(known[of, label] / known[of].sum(), 1e-3)

    trust = 4 * counts[label, label] / (counts[:, label].sum() + 1) - 1
    return [min(1.0, share(c) / share(label)) for c in range(len(counts))], min(max(trust, 0.0), 1.0)


def test_odds_and_trust_are_those_of_the_counts():
    counts = np.random.default_rng(0).exponential(5, (7, 7)) + 40 * np.eye(7)
    odds, trust = confusion.odds_and_trust(torch.from_numpy(counts).float(), torch.arange(7))
    for label in range(7):
        expected, trusted = slowly(counts, label)
        np.testing.assert_allclose(odds[label], expected, rtol=1e-5)
        assert float(trust[label]) == pytest.approx(trusted, rel=1e-5)


def test_three_rows_say_the_same_where_confusions_are_as_common_as_these_make_them():
    """Each class is observed as others at a rate of its own, and all of them alike: by how common the label is."""
    classes, rng = 300, np.random.default_rng(1)
    counts = np.outer(rng.uniform(5, 50, classes), rng.dirichlet(np.ones(classes)))
    np.fill_diagonal(counts, rng.uniform(50, 100, classes))
    off = counts - np.diag(np.diag(counts))
    few = torch.from_numpy(np.stack([np.diag(counts), off.sum(1), off.sum(0)])).float()
    labels = torch.arange(classes)
    odds, trust = confusion.odds_and_trust(few, labels)
    expected, trusted = confusion.odds_and_trust(torch.from_numpy(counts).float(), labels)
    torch.testing.assert_close(odds, expected, rtol=0.03, atol=0.003)
    torch.testing.assert_close(trust, trusted, rtol=0.03, atol=0.03)


def test_three_rows_count_what_the_table_counts():
    classes, rng = 9, np.random.default_rng(2)
    horizon, table, few = torch.tensor(50.0), torch.zeros(classes, classes), torch.zeros(3, classes)
    for _ in range(12):
        moved = torch.from_numpy(rng.random((8, classes)))
        labels, valid = torch.from_numpy(rng.integers(classes, size=8)), torch.from_numpy(rng.random(8) < 0.8)
        loss = torch.zeros(8)
        batch = Batch(loss, loss, valid, valid.sum().float(), labels=labels)
        weights = torch.from_numpy(rng.random(8))
        table = confusion.count_confusion(table, horizon, moved.argmax(-1), batch, weights)
        few = confusion.count_confusion(few, horizon, moved.argmax(-1), batch, weights)
    agree = table.diagonal()
    torch.testing.assert_close(few, torch.stack([agree, table.sum(1) - agree, table.sum(0) - agree]))


@pytest.mark.parametrize("name", ["label-agreement", "label-memory", "label-posterior"])
def test_a_method_with_three_rows_is_the_same_alone_stacked_and_resumed(name, monkeypatch):
    monkeypatch.setattr(confusion, "MOST_CLASSES", 4)
    assert testing._make(METHODS[name]()).state_confusion.shape == (3, testing.CLASSES)
    for check in (testing.check_permutation, testing.check_masking, testing.check_vmap, testing.check_resuming):
        check(METHODS[name]())


def test_fifty_thousand_classes_take_a_few_numbers_each():
    criterion = adaptivek.Selection(classes=50_000)
    criterion(torch.randn(4, 50_000), torch.arange(4)).item()
    assert sum(buffer.numel() for buffer in criterion.buffers()) < 7 * 50_000


@pytest.mark.skipif(torch.__version__ < "2.6", reason="PyTorch 2.4 has no rule for more of it")
def test_odds_of_many_runs_are_computed_at_once():
    """Where `vmap` has no rule for an operation it goes run by run, and says so."""
    counts, labels = torch.rand(3, 4, 4), torch.randint(4, (3, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, _ = torch.func.vmap(confusion.odds_and_trust)(counts, labels)
    each = torch.stack([confusion.odds_and_trust(*pair)[0] for pair in zip(counts, labels, strict=True)])
    torch.testing.assert_close(found, each)
