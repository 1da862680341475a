"""The second half of the audit: what rows are believed to be, and training on it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import nn

from adaptivek.auditing import beliefs, training
from adaptivek.auditing.beliefs import Stock, believe
from adaptivek.auditing.criterion import EarlyLearning
from adaptivek.auditing.estimate import Slots
from adaptivek.auditing.floor import Ratio
from adaptivek.auditing.judge import judge, probability, together
from adaptivek.auditing.training import Plan, Run
from adaptivek.noise import PairFlip, corrupt

PLAN = Plan(epochs=16, batch_size=16, learning_rate=3e-3)
HARD, EASY = (Stock(Ratio(0.3, 0.2, 0.4), hard) for hard in (True, False))


def run_on_digits(plan: Plan, rate: float = 0.0) -> tuple[Run, np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    inputs = torch.from_numpy(x).float().div(16).reshape(-1, 1, 8, 8)
    labels = corrupt(y, PairFlip(rate), classes=10, seed=0)[0].numpy()

    def make(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    return Run(lambda rows: inputs[rows], labels, 10, make, plan, "cpu"), labels, y


def test_beliefs_are_bayes_rule_with_the_noise_of_known_data(monkeypatch):
    def all_of(slots: Slots) -> np.ndarray:
        parts = list(believe(slots, labels, 3, ratio=0.3, seed=0))
        assert [part.start for part, _ in parts] == [0, 7_000, 14_000]
        return np.concatenate([found for _, found in parts])

    monkeypatch.setattr(beliefs, "CHUNK", 7_000)
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.3, 0.3, 0.3], 20_000)
    true = (rng.random((20_000, 1)) > np.cumsum(p, 1)).sum(1).clip(max=2)
    labels = np.where(rng.random(20_000) < 0.3, (true + 1) % 3, true)
    transition = 0.7 * np.eye(3) + 0.3 * np.roll(np.eye(3), 1, 1)
    by_hand = p * transition[:, labels].T
    by_hand /= by_hand.sum(1, keepdims=True)
    found = all_of(Slots(p, None))
    assert np.abs(found - by_hand).mean() < 0.02
    order = np.argsort(-p, 1)
    few = all_of(Slots(np.take_along_axis(p, order, 1), order))
    np.testing.assert_allclose(few, found, atol=1e-3)


def test_from_the_first_turn_on_rows_are_trained_on_beliefs(tmp_path):
    (run, labels, y), (resumed, _, _) = (run_on_digits(PLAN, rate=0.3) for _ in range(2))
    assert run.turns == (8, 12)
    believed = []
    for _ in range(16):
        run.epoch()
        assert isinstance(run.criterion, EarlyLearning)
        believed.append((run.criterion.targets.argmax(1).numpy() == y).mean() if run.criterion.believes else 0)
        assert (run.stock is None) == (run.done < 8)
        if run.done == 9:
            run.save(tmp_path / "checkpoint.pt")
            resumed.load(tmp_path / "checkpoint.pt")
            resumed.epoch()
        if run.done == 10:
            assert resumed.stock == run.stock
            for mine, other in zip(run.models[1].parameters(), resumed.models[1].parameters(), strict=True):
                assert torch.equal(mine, other)
    assert believed[:7] == [0] * 7
    assert believed[7] > (labels == y).mean() + 0.15
    assert believed[11] > believed[7]
    assert believed[15] == believed[11]  # not changed while training
    verdict = judge(run.dynamics, labels, [str(k) for k in range(10)], stock=run.stock)
    assert roc_auc_score(labels != y, -verdict.score) > 0.98
    assert verdict.ratio.ratio == pytest.approx((labels != y).mean(), abs=0.03)
    rows = torch.arange(20)
    logits = torch.randn(20, 10, requires_grad=True)
    loss = F.cross_entropy(logits, run.criterion.targets[rows]) * 2  # of each half of the batch the mean
    (expected,) = torch.autograd.grad(loss, logits)
    found = run.criterion.gradient(logits.detach(), torch.zeros(20, dtype=torch.long), rows)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("epochs", "method"), [(5, "auto"), (12, "gce")])
def test_short_runs_and_methods_without_a_table_have_one_stage(epochs, method):
    run, _, _ = run_on_digits(Plan(epochs=epochs, method=method, batch_size=256))
    assert run.turns == ()
    looks = []
    for _ in range(epochs):
        looks.append(run._judges())
        run.done += 1
    assert looks[-1]
    assert sum(looks) == (3 if epochs == 12 else 1)


def test_every_stage_ends_with_looks_at_the_other_half():
    run, _, _ = run_on_digits(Plan(epochs=20, batch_size=256))
    looked = [run.done + 1 for run.done in range(20) if run._judges()]
    assert looked == [8, 10, 13, 15, 17, 20]


@pytest.mark.parametrize("stock", [HARD, Stock(Ratio(0.2, 0.1, 0.31), False)])
def test_where_little_is_known_all_goes_on_as_before(monkeypatch, stock):
    (run, labels, _), (plain, _, _) = (run_on_digits(Plan(epochs=8, batch_size=64)) for _ in range(2))
    monkeypatch.setattr(training, "take_stock", lambda *_: stock)
    plain.turns = ()
    for one in (run, plain):
        for _ in range(8):
            one.epoch()
    assert isinstance(run.criterion, EarlyLearning)
    assert not run.criterion.believes
    assert run.stock is None
    for mine, other in zip(run.models[1].parameters(), plain.models[1].parameters(), strict=True):
        assert torch.equal(mine, other)
    both = together(*(Slots(*table.tables()) for table in (run.dynamics.other, run.dynamics.own)))
    score = judge(run.dynamics, labels, [str(k) for k in range(10)], stock=HARD).score
    assert spearmanr(score, probability(both, labels)).statistic > 0.999


def test_what_was_known_half_way_is_the_ratio_at_the_end():
    run, labels, _ = run_on_digits(Plan(epochs=6, batch_size=16, learning_rate=3e-3))
    for _ in range(6):
        run.epoch()
    names = [str(k) for k in range(10)]
    assert judge(run.dynamics, labels, names, stock=EASY).ratio == EASY.ratio
    assert not judge(run.dynamics, labels, names, stock=EASY).warnings
    assert "Hard rows" in judge(run.dynamics, labels, names, stock=HARD).warnings[0]
