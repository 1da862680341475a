"""Rivals that go by epochs, rows or full passes: answers known in advance, beside the references."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import adaptivek
from adaptivek.methods import METHODS, build
from adaptivek.methods.beta_mixture import posterior
from adaptivek.methods.moit import believe

from .made_results import made
from .reference.sop import SOP
from .tiny import answered

ROWS = 60


def shares(text: str, epochs: int) -> list[float]:
    """Share kept of one batch with all rows, epoch by epoch."""
    criterion = adaptivek.Selection(text, rows=ROWS)
    found = []
    for epoch in range(epochs):
        criterion.start_epoch(epoch)
        logits = answered(criterion.method, torch.randn(ROWS, 3))
        criterion(logits, torch.randint(3, (ROWS,)), torch.randperm(ROWS))
        found.append(criterion.kept_share)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rt:keep=0.5,ramp=2", [1, 0.75, 0.5, 0.5]),
        ("rt", [*(1 - 0.04 * epoch for epoch in range(10)), 0.6, 0.6]),
        ("augdesc", [*(1 - 0.04 * epoch for epoch in range(10)), 0.6, 0.6]),
        ("rt:keep=0.5,ramp=2,late=0.2", [1, 0.75, 0.5, 0.6, 0.7]),
        ("rt:keep=0.5,ramp=1,late=-0.5", [1, 0.5, 1 / 60, 1 / 60]),  # never nothing
        ("curriculum:start=0.2,ramp=4", [1, 0.2, 0.4, 0.6, 0.8, 1, 1]),
        ("cyclical-curriculum", [1, 0.25, 0.5, 1, 0.5, 0.25, 0.5]),
        ("cyclical-curriculum:start=0.4,end=0.4", [1, 0.4, 0.4, 0.4]),
    ],
)
def test_the_share_follows_the_schedule(text, expected):
    assert shares(text, len(expected)) == pytest.approx(expected, abs=0.5 / ROWS)


@pytest.mark.parametrize("name", ["co-teaching", "jocor"])
@pytest.mark.parametrize(("keep", "ramp"), [(0.6, 10), (0.55, 4), (0.7, 2), (0.3, 1)])
def test_the_forget_rate_is_that_of_the_authors_code(name, keep, ramp):
    """A table of rates with ``ramp`` entries from 0 to the full one, read from its second entry on; counts cut off."""
    rates = [*np.linspace(0, 1 - keep, ramp), *[1 - keep] * 12][1:12]
    expected = [int((1 - rate) * ROWS + 1e-9) / ROWS for rate in rates]
    assert shares(f"{name}:keep={keep},ramp={ramp}", 11) == pytest.approx(expected)
    if ramp == 10:
        assert expected.index(0.6) == 8  # from the ninth epoch on


@pytest.mark.parametrize(("text", "kept"), [("co-teaching", 5), ("jocor", 5), ("rt", 6), ("augdesc", 6), ("mkl", 6)])
def test_five_and_a_half_samples_are_five_where_the_authors_cut_off_and_six_elsewhere(text, kept):
    criterion = adaptivek.Selection(f"{text}:keep=0.55", warmup=0)
    criterion.start_epoch(20)
    criterion(answered(criterion.method, torch.randn(10, 3)), torch.zeros(10, dtype=torch.int64))
    assert criterion.kept.view(-1, 10)[-1].sum() == kept  # of the second network or view, where there is one


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
    assert float(criterion.state_gap_ratio) == pytest.approx(wrong.mean())
    assert criterion.threshold == pytest.approx((5 + 0.5) / 2, abs=0.1)  # between the heaps of the epoch before


def test_each_network_is_trained_on_what_the_other_finds_easy():
    criterion = adaptivek.Selection("co-teaching:keep=0.5,ramp=1")
    criterion.start_epoch(1)
    first = torch.tensor([[5.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 5.0]], requires_grad=True)
    second = torch.tensor([[5.0, 0.0], [0.0, 4.0], [4.0, 0.0], [0.0, 5.0]], requires_grad=True)
    model = adaptivek.Networks([torch.nn.Identity(), torch.nn.Identity()])
    assert model(first).shape == (2, 4, 2)
    assert model.eval()(first) is first
    loss = criterion(torch.stack([first, second]), torch.zeros(4, dtype=torch.int64))
    assert criterion.kept.tolist() == [[True, False, True, False], [True, True, False, False]]
    loss.backward()
    assert (first.grad != 0).any(1).tolist() == [True, False, True, False]
    # the mean of each, once: the notorious second division by the number kept is not there
    expected = [torch.nn.functional.cross_entropy(x[kept], torch.zeros(2, dtype=torch.int64))
                for x, kept in ((first, [0, 2]), (second, [0, 1]))]  # fmt: skip
    torch.testing.assert_close(loss, sum(expected))
    with pytest.raises(ValueError, match=r"needs the logits of 2 networks or views, stacked: .*, got \(4, 2\)"):
        criterion(first, torch.zeros(4, dtype=torch.int64))
    criterion.eval()
    both = torch.cat([first, second])
    expected = torch.nn.functional.cross_entropy(both, torch.zeros(8, dtype=torch.int64))
    torch.testing.assert_close(criterion(torch.stack([first, second]), torch.zeros(4, dtype=torch.int64)), expected)


def test_networks_that_agree_have_no_divergence_and_those_that_differ_are_left_out():
    sure, unsure = torch.tensor([6.0, 0.0, 0.0]), torch.tensor([1.0, 0.0, 0.0])
    criterion = adaptivek.Selection("jocor:keep=0.5,ramp=1,agreement=0.9")
    criterion.start_epoch(1)
    # both rather unsure; one sure and one not; labels 0
    logits = torch.stack([torch.stack([unsure, sure]), torch.stack([unsure, unsure])])
    loss = criterion(logits, torch.zeros(2, dtype=torch.int64))
    assert criterion.kept.tolist() == [[True, False]] * 2
    assert float(loss) == pytest.approx(0.1 * 2 * -float(unsure.log_softmax(0)[0]))


def test_neighbours_tell_wrong_labels_by_where_rows_lie():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 60)
    features = torch.from_numpy(np.eye(3)[truth] * 4 + rng.normal(size=(180, 3)) * 0.5).float()
    wrong = rng.random(180) < 0.25
    labels = torch.from_numpy(np.where(wrong, (truth + 1) % 3, truth))
    found = believe(features, labels, 3, 15).numpy()
    assert (found & wrong).sum() <= 3  # a class with fewer right labels than the median fills up with wrong ones
    assert (found & ~wrong).sum() > 0.9 * (~wrong).sum()
    assert len(set(np.bincount(labels.numpy()[found]).tolist())) == 1
    unseen = labels.clone()
    unseen[:5] = -1
    assert believe(features, unseen, 3, 15)[:5].all()


def test_a_label_that_stays_improbable_is_explained_away():
    criterion = adaptivek.Selection("sop:rate_u=1.0,rate_v=1.0", rows=2, classes=3)
    logits = torch.tensor([[4.0, 0.0, 0.0], [4.0, 0.0, 0.0]], requires_grad=True)
    pulls = []
    for _ in range(40):  # row 0 has a wrong label, row 1 the right one
        logits.grad = None
        criterion(logits, torch.tensor([1, 0]), torch.tensor([0, 1])).backward()
        pulls.append(logits.grad.norm(dim=1))
    assert pulls[0][0] > 0.5
    assert pulls[-1][0] < 0.1 * pulls[0][0]
    torch.testing.assert_close(pulls[-1][1], pulls[0][1], rtol=0.1, atol=0)
    assert criterion.state_u[0] > 0.5
    assert criterion.state_u[1] < 0.1


def test_an_impossible_label_is_excused_by_the_squared_error_alone():
    """Below 1e-4 the probability is clamped, and what is clamped has no slope: 1.4 times as much a visit, not 2,001."""
    criterion = adaptivek.Selection("sop", rows=1, classes=3)
    logits = torch.tensor([[20.0, 0.0, 0.0]], requires_grad=True)
    visits = 0
    while criterion.state_u[0] < 0.01:  # from there its square is above the clamp
        logits.grad = None
        criterion(logits, torch.tensor([1]), torch.tensor([0])).backward()
        assert (logits.grad == 0).all()  # the clamped label does not pull at the network either
        visits += 1
    assert visits == 42


def test_an_excuse_expires_once_the_network_predicts_the_label():
    criterion = adaptivek.Selection("sop", rows=2, classes=3)
    criterion.state_u.fill_(0.8)
    for _ in range(100):  # row 0 is predicted as its label by now, row 1 is not
        criterion(torch.tensor([[0.0, 20.0, 0.0], [2.0, 0.0, 0.0]]), torch.tensor([1, 1]), torch.tensor([0, 1]))
    assert criterion.state_u[0] < 0.2
    assert criterion.state_u[1] > 0.8


@given(seed=st.integers(0, 2**31), scale=st.floats(0.1, 30))
def test_sop_moves_by_the_slopes_of_the_released_loss(seed, scale):
    """Wherever u and v are, also past what their squares are clamped to, and however sure the network is."""
    rng, rows = np.random.default_rng(seed), np.arange(8)
    logits, labels = (scale * rng.normal(size=(8, 4))).astype(np.float32), rng.integers(0, 4, 8)
    reference, criterion = SOP(8, 4), adaptivek.Selection("sop", rows=8, classes=4)
    for name, size in (("u", (8,)), ("v", (8, 4))):
        at = torch.from_numpy((rng.uniform(-1.3, 1.3, size) * rng.integers(0, 2, size)).astype(np.float32))
        getattr(criterion, f"state_{name}").copy_(at)
        setattr(reference, name, at.double())
    before = criterion.state_u.clone()
    criterion(torch.from_numpy(logits), torch.from_numpy(labels), torch.from_numpy(rows))
    reference.step(logits.astype(np.float64), labels, rows)
    assert torch.equal(criterion.state_u[before.abs() > 1], before[before.abs() > 1])
    np.testing.assert_allclose(criterion.state_u, reference.u, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(criterion.state_v, reference.v, rtol=1e-4, atol=1e-5)


def test_a_round_that_begins_anew_says_how_old_the_network_is():
    anew, on = build("itlm:begin=anew,every=3"), build("itlm:every=3")
    assert [anew.epochs_since_restart(epoch) for epoch in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert [on.epochs_since_restart(epoch) for epoch in range(4)] == [0, 1, 2, 3]


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


@pytest.mark.parametrize(
    "name", [name for name, m in METHODS.items() if m.tables and m.needs_rows and not m.privileged]
)
def test_a_method_that_remembers_rows_says_so_when_it_is_not_told_their_number(name):
    method = build(name)
    with pytest.raises(ValueError, match=rf"{type(method).__name__}: rows must be given: Selection\("):
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
        ("itlm:begin=later", "ITLM: begin must be one of anew, on; got 'later'"),
        ("co-teaching:keep=0", "CoTeaching: keep must be a number in (0, 1], got 0.0"),
        ("co-teaching:ramp=0", "CoTeaching: ramp must be a whole number of at least 1, got 0"),
        ("jocor:agreement=1", "JoCoR: agreement must be a number in [0, 1), got 1.0"),
        ("augdesc:keep=2", "AugDesc: keep must be a number in (0, 1], got 2.0"),
        ("moit:neighbours=0", "MOIT: neighbours must be a whole number of at least 1, got 0"),
        ("moit:plain=0", "MOIT: plain must be a whole number of at least 1, got 0"),
        ("sop:rate_u=0", "SOP: rate_u must be a number above 0, got 0.0"),
        ("truncated-gce:truncate=0", "TruncatedGCE: truncate must be a number in (0, 1), got 0.0"),
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


RANKING = Path(__file__).parent.parent / "benchmarks" / "rivals.py"


@pytest.mark.skipif(not RANKING.exists(), reason="a source distribution has no benchmarks")
def test_the_ranking_has_elr_with_its_authors_values_for_directed_noise():
    ranking, text = runpy.run_path(str(RANKING)), "elr:strength=1,beta=0.9"
    runs = [made(spec) for spec in ranking["specs"](1)]
    assert {spec.noise for spec in ranking["specs"](1) if spec.method == text} == {"directed", "symmetric"}
    assert f"| {text} (0.05) |" in ranking["tables"](runs)
