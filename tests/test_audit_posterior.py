"""The second half of the audit: label posteriors, and training on them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import nn

from adaptivek.auditing import label_posterior as module
from adaptivek.auditing import training
from adaptivek.auditing.criterion import EarlyLearning
from adaptivek.auditing.label_posterior import label_posterior
from adaptivek.auditing.noise_estimate import NoiseEstimate
from adaptivek.auditing.noise_floor import NoiseRatio
from adaptivek.auditing.predictions import Predictions, mean_prediction
from adaptivek.auditing.scoring import score_labels
from adaptivek.auditing.training import Plan, Run
from adaptivek.noise import PairFlip, corrupt

PLAN = Plan(epochs=16, batch_size=16, learning_rate=3e-3)


def run_on_digits(plan: Plan, rate: float = 0.0) -> tuple[Run, np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    inputs = torch.from_numpy(x).float().div(16).reshape(-1, 1, 8, 8)
    labels = corrupt(y, PairFlip(rate), classes=10, seed=0)[0].numpy()

    def make(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    return Run(lambda rows: inputs[rows], labels, 10, make, plan, "cpu"), labels, y


def test_posteriors_are_bayes_rule_with_the_noise_of_known_data(monkeypatch):
    def all_of(predictions: Predictions) -> np.ndarray:
        parts = list(label_posterior(predictions, labels, 3, ratio=0.3, seed=0))
        assert [part.start for part, _ in parts] == [0, 7_000, 14_000]
        return np.concatenate([found for _, found in parts])

    monkeypatch.setattr(module, "CHUNK", 7_000)
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.3, 0.3, 0.3], 20_000)
    true = (rng.random((20_000, 1)) > np.cumsum(p, 1)).sum(1).clip(max=2)
    labels = np.where(rng.random(20_000) < 0.3, (true + 1) % 3, true)
    transition = 0.7 * np.eye(3) + 0.3 * np.roll(np.eye(3), 1, 1)
    by_hand = p * transition[:, labels].T
    by_hand /= by_hand.sum(1, keepdims=True)
    found = all_of(Predictions(p, None))
    assert np.abs(found - by_hand).mean() < 0.02
    order = np.argsort(-p, 1)
    few = all_of(Predictions(np.take_along_axis(p, order, 1), order))
    np.testing.assert_allclose(few, found, atol=1e-3)


def test_from_the_first_update_on_rows_are_trained_on_posteriors(tmp_path):
    (run, labels, y), (resumed, _, _) = (run_on_digits(PLAN, rate=0.3) for _ in range(2))
    assert run.updates == (8, 12)
    correct = []
    for _ in range(16):
        run.epoch()
        assert isinstance(run.criterion, EarlyLearning)
        correct.append((run.criterion.targets.argmax(1).numpy() == y).mean() if run.criterion.uses_posterior else 0)
        assert (run.noise is None) == (run.done < 8)
        if run.done == 9:
            run.save(tmp_path / "checkpoint.pt")
            resumed.load(tmp_path / "checkpoint.pt")
            resumed.epoch()
        if run.done == 10:
            assert resumed.noise == run.noise
            for mine, other in zip(run.models[1].parameters(), resumed.models[1].parameters(), strict=True):
                assert torch.equal(mine, other)
    assert correct[:7] == [0] * 7
    assert correct[7] > (labels == y).mean() + 0.15
    assert correct[11] > correct[7]
    assert correct[15] == correct[11]  # not changed while training
    held_out, in_sample = (Predictions(*table.tables()) for table in (run.dynamics.held_out, run.dynamics.in_sample))
    ranking = mean_prediction(held_out, in_sample)
    scores = score_labels(held_out, labels, [str(k) for k in range(10)], run.noise, ranking)
    assert roc_auc_score(labels != y, -scores.score) > 0.98
    assert scores.ratio.ratio == pytest.approx((labels != y).mean(), abs=0.03)
    rows = torch.arange(20)
    logits = torch.randn(20, 10, requires_grad=True)
    loss = F.cross_entropy(logits, run.criterion.targets[rows]) * 2  # of each half of the batch the mean
    (expected,) = torch.autograd.grad(loss, logits)
    found = run.criterion.gradient(logits.detach(), torch.zeros(20, dtype=torch.long), rows)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("epochs", "method"), [(5, "auto"), (12, "gce")])
def test_short_runs_and_methods_without_a_table_have_one_stage(epochs, method):
    run, _, _ = run_on_digits(Plan(epochs=epochs, method=method, batch_size=256))
    assert run.updates == ()
    predicts = []
    for _ in range(epochs):
        predicts.append(run._predicts_now())
        run.done += 1
    assert predicts[-1]
    assert sum(predicts) == (3 if epochs == 12 else 1)


def test_every_update_comes_after_held_out_predictions():
    run, _, _ = run_on_digits(Plan(epochs=20, batch_size=256))
    predicted = [run.done + 1 for run.done in range(20) if run._predicts_now()]
    assert predicted == [8, 10, 13, 15, 17, 20]


def test_where_no_floor_is_clear_training_goes_on_as_before(monkeypatch):
    (run, _, _), (plain, _, _) = (run_on_digits(Plan(epochs=8, batch_size=64)) for _ in range(2))
    noise = NoiseEstimate(NoiseRatio(0.3, 0.2, 0.4), even=False)
    monkeypatch.setattr(training, "estimate_noise", lambda *_: noise)
    plain.updates = ()
    for one in (run, plain):
        for _ in range(8):
            one.epoch()
    assert isinstance(run.criterion, EarlyLearning)
    assert not run.criterion.uses_posterior
    assert run.noise is None
    for mine, other in zip(run.models[1].parameters(), plain.models[1].parameters(), strict=True):
        assert torch.equal(mine, other)
