"""Rivals that go by epochs, rows or sweeps: answers known in advance, beside the references."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import adaptivek
from adaptivek.methods import METHODS, build
from adaptivek.methods.beta_mixture import posterior

ROWS = 60


def shares(text: str, epochs: int) -> list[float]:
    """Share kept of one batch with all rows, epoch by epoch."""
    criterion = adaptivek.Selection(text, rows=ROWS)
    found = []
    for epoch in range(epochs):
        criterion.start_epoch(epoch)
        criterion(torch.randn(ROWS, 3), torch.randint(3, (ROWS,)), torch.randperm(ROWS))
        found.append(criterion.kept_share)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rt:keep=0.5,ramp=2", [1, 0.75, 0.5, 0.5]),
        ("rt:keep=0.5,ramp=2,late=0.2", [1, 0.75, 0.5, 0.6, 0.7]),
        ("rt:keep=0.5,ramp=1,late=-0.5", [1, 0.5, 1 / 60, 1 / 60]),  # never nothing
        ("curriculum:start=0.2,ramp=4", [1, 0.2, 0.4, 0.6, 0.8, 1, 1]),
        ("cyclical-curriculum", [1, 0.25, 0.5, 1, 0.5, 0.25, 0.5]),
        ("cyclical-curriculum:start=0.4,end=0.4", [1, 0.4, 0.4, 0.4]),
    ],
)
def test_the_share_follows_the_schedule(text, expected):
    assert shares(text, len(expected)) == pytest.approx(expected)


def test_itlm_uses_the_rows_with_the_smallest_losses_of_all_after_a_first_round_on_everything():
    criterion = adaptivek.Selection("itlm:keep=0.1", rows=30)
    losses = torch.arange(30.0).flip(0)
    for epoch, number in ((0, 30), (1, 3)):
        criterion.start_epoch(epoch, losses)
        criterion.reduce(torch.rand(30), index=torch.arange(30))
        assert criterion.kept.nonzero().flatten().tolist() == list(range(30 - number, 30))


def test_an_easy_row_that_turns_hard_is_left_out_of_the_next_lesson_and_may_come_back():
    criterion = adaptivek.Selection("curriculum:start=0.5,end=0.5", rows=4)
    index, kept = torch.arange(4), []
    for epoch, losses in enumerate([[1, 2, 3, 4], [9, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]]):
        criterion.start_epoch(epoch)
        criterion.reduce(torch.tensor(losses, dtype=torch.float32), index=index)
        kept.append(criterion.kept.tolist())
    yes, no = True, False
    assert kept == [[yes] * 4, [yes, yes, no, no], [no, yes, yes, no], [yes, yes, no, no]]


def test_the_mixture_recovers_two_heaps_of_losses_in_every_run():
    rng = np.random.default_rng(0)
    wrong = rng.random((2, 4000)) < np.array([[0.3], [0.45]])
    losses = torch.from_numpy(np.where(wrong, rng.gamma(40, 0.1, wrong.shape), rng.gamma(4, 0.1, wrong.shape)))
    found = posterior(losses, 10).numpy()
    assert ((found > 0.5) == wrong).mean(1).min() > 0.98
    np.testing.assert_allclose(found.mean(1), wrong.mean(1), atol=0.02)
    order = losses.argsort(-1).numpy()
    assert (np.diff(np.take_along_axis(found, order, 1)) > -1e-9).all()  # a higher loss is never less suspicious
    for run in range(2):
        np.testing.assert_allclose(posterior(losses[run], 10), found[run], rtol=1e-9)


@pytest.mark.parametrize("losses", [torch.zeros(50), torch.full((50,), 3.0), torch.tensor([1.0] * 49 + [math.nan])])
def test_the_mixture_survives_losses_that_are_all_alike_or_not_numbers(losses):
    found = posterior(losses, 10)
    assert ((found >= 0) & (found <= 1)).all()


def test_dlt_reads_the_noise_ratio_from_the_share_left_out_and_from_the_gap():
    rng = np.random.default_rng(1)
    wrong = rng.random(400) < 0.3
    criterion = adaptivek.Selection("dlt:plain=2", rows=400)
    for epoch in range(5):  # right labels are learned, wrong ones look ever worse
        losses = np.where(wrong, 2 + epoch, 2 / (1 + epoch)) + rng.normal(0, 0.05, 400)
        criterion.start_epoch(epoch)
        criterion.reduce(torch.tensor(losses, dtype=torch.float32), index=torch.arange(400))
        assert criterion.kept.all() if epoch < 2 else criterion.kept.tolist() == (~wrong).tolist()
    assert float(criterion.gap_ratio) == pytest.approx(wrong.mean())
    assert criterion.threshold == pytest.approx((5 + 0.5) / 2, abs=0.1)  # between the heaps of the epoch before


def test_exponentiated_gradient_weighs_by_the_sum_of_all_losses():
    criterion = adaptivek.Selection("eg-reweighting:rate=0.5", rows=3)
    for losses in ([1.0, 3.0, 2.0], [1.0, 1.0, 4.0]):
        criterion.reduce(torch.tensor(losses), index=torch.arange(3))
    np.testing.assert_allclose(criterion.weights, np.exp(-0.5 * np.array([0, 2, 4])), rtol=1e-6)


def test_median_tgd_looks_at_what_counts_only():
    criterion = adaptivek.Selection("median-tgd:factor=1.5")
    losses, mask = torch.tensor([1.0, 2.0, 3.1, 4.0, 0.1, 0.1, 0.1]), torch.arange(7) < 4
    criterion.reduce(losses, mask=mask)
    assert criterion.threshold == pytest.approx(1.5 * 2.55)
    assert criterion.kept.tolist() == [True] * 3 + [False] * 4


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.tables])
def test_a_method_that_remembers_rows_says_so_when_it_is_not_told_their_number(name):
    method = build(name)
    with pytest.raises(ValueError, match=rf"{type(method).__name__}: (rows|classes) must be given: Selection\("):
        adaptivek.Selection(method, warmup=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("median-tgd:factor=0.5", "MedianTGD: factor must be a number of at least 1, got 0.5"),
        ("rt:keep=0", "RT: keep must be a number in (0, 1], got 0.0"),
        ("rt:ramp=0", "RT: ramp must be a whole number of at least 1, got 0"),
        ("rt:curve=sine", "RT: curve must be one of exp, log, power; got 'sine'"),
        ("rt:power=0", "RT: power must be a number above 0, got 0.0"),
        ("rt:late=2", "RT: late must be a number in [-1, 1], got 2.0"),
        ("itlm:keep=1.5", "ITLM: keep must be a number in (0, 1], got 1.5"),
        ("itlm:every=0", "ITLM: every must be a whole number of at least 1, got 0"),
        ("beta-mixture:rounds=0", "BetaMixture: rounds must be a whole number of at least 1, got 0"),
        ("eg-reweighting:rate=0", "EGReweighting: rate must be a number above 0, got 0.0"),
        ("eg-reweighting:decay=1.1", "EGReweighting: decay must be a number in [0, 1], got 1.1"),
        ("dlt:plain=0", "DLT: plain must be a whole number of at least 1, got 0"),
        ("curriculum:start=0", "Curriculum: start must be a number in (0, 1], got 0.0"),
        ("curriculum:end=2", "Curriculum: end must be a number in (0, 1], got 2.0"),
        ("cyclical-curriculum:end=0.1", "CyclicalCurriculum: end must be a number in [0.25, 1], got 0.1"),
        ("cyclical-curriculum:factor=1", "CyclicalCurriculum: factor must be a number in (0, 1), got 1.0"),
    ],
)
def test_bad_parameters_are_named_at_construction(text, message):
    with pytest.raises(ValueError, match="must be") as error:
        build(text)
    assert str(error.value) == message
