"""What is particular to CORES², ANL, the agreement filter and mixup: answers known in advance."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import adaptivek
from adaptivek.auditing.training import Plan
from adaptivek.experiments.data import Split, load
from adaptivek.experiments.prepare import draws, fresh_networks, prepare
from adaptivek.experiments.session import Session
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.experiments.stack import Stack
from adaptivek.methods import build
from adaptivek.networks.dropout import set_keys

from .reference.mixup import mixed


def test_the_regulariser_rises_as_in_the_released_schedule_and_the_sieve_begins_after_epoch_30():
    criterion = adaptivek.Selection("cores", classes=4)
    logits, labels = torch.tensor([[3.0, 0, 0, 0], [3.0, 0, 0, 0]]), torch.tensor([0, 1])
    each = -(logits[0].softmax(0) + 1e-8).log()
    strengths, kept = [], []
    for epoch in range(45):
        criterion.start_epoch(epoch)
        loss = criterion(logits, labels)
        strengths.append(float(criterion.state_strength))
        kept.append(criterion.kept.tolist())
        prior = torch.tensor([0.5, 0.5, 0, 0]) if epoch < 32 else torch.tensor([1.0, 0, 0, 0])
        if epoch:
            regulariser = strengths[-1] * (prior * each).sum()
            plain = torch.nn.functional.cross_entropy(logits[criterion.kept], labels[criterion.kept])
            torch.testing.assert_close(loss, (plain - regulariser) / (1 + strengths[-1]))
    assert strengths == pytest.approx([*[0] * 10, *(2 * step / 29 for step in range(30)), *[2] * 5])
    assert kept == [[True, True]] * 31 + [[True, False]] * 14  # 1 is less probable than the geometric mean


def test_the_reward_of_confidence_takes_an_undecided_prediction_to_its_label():
    """A label that the network is confident in is pulled at harder than by cross-entropy, an improbable one less."""
    logits = torch.tensor([[1.0, 0, 0], [1.0, 0, 0]], requires_grad=True)
    labels, pulls = torch.tensor([0, 1]), []
    for beta in (0.0, 1.0):
        criterion = adaptivek.Selection(f"cores:beta={beta},plain=0,ramp=1,sieve=9", classes=3)
        criterion.start_epoch(1)
        pulls.append((1 + beta) * torch.autograd.grad(criterion(logits, labels), logits)[0])
    assert -pulls[1][0, 0] > -pulls[0][0, 0] > 0
    assert -pulls[0][1, 1] > -pulls[1][1, 1] > 0


def test_both_losses_of_anl_add_up_to_a_constant_over_all_labels():
    """What makes them robust to noise that is spread evenly: 1 for the normalised one, K - 1 for the negative one."""
    logits = torch.randn(6, generator=torch.Generator().manual_seed(0)) * 3
    every = logits.expand(6, 6), torch.arange(6)
    for text, expected in (("anl:alpha=1,beta=0", 1), ("anl:alpha=0,beta=1", 5), ("anl", 5 + 25)):
        assert float(adaptivek.Selection(text)(*every)) * 6 == pytest.approx(expected, rel=1e-5)


def test_anl_leaves_alone_the_classes_that_are_ruled_out():
    logits = torch.tensor([[0.0, 1.0, -math.inf, -40.0]], requires_grad=True)
    adaptivek.Selection("anl:alpha=0")(logits, torch.tensor([0])).backward()
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0, 2] == 0
    assert logits.grad[0, 3].abs() < 1e-12
    without = torch.tensor([[0.0, 1.0, -40.0]])
    for text in ("anl", "cores"):
        criterion = adaptivek.Selection(text)
        criterion.start_epoch(0)
        assert torch.isfinite(criterion(logits, torch.tensor([0])))
    torch.testing.assert_close(adaptivek.Selection("anl")(logits, torch.tensor([0])),
                               adaptivek.Selection("anl")(without, torch.tensor([0])))  # fmt: skip


def test_agreement_keeps_where_the_predicted_class_is_the_label_once_warm_up_is_over():
    criterion = adaptivek.Selection("agreement", warmup=1)
    logits = torch.tensor([[2.0, 1.9, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 0.1]])
    labels = torch.tensor([0, 0, 2])
    criterion(logits, labels)
    assert criterion.kept.all()
    loss = criterion(logits, labels)
    assert criterion.kept.tolist() == [True, False, True]
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits[[0, 2]], labels[[0, 2]]))


def test_agreement_on_nothing_has_no_gradient():
    criterion = adaptivek.Selection("agreement", warmup=0)
    logits = torch.tensor([[0.0, 5.0]], requires_grad=True)
    criterion(logits, torch.tensor([0])).backward()
    assert (logits.grad == 0).all()
    assert criterion.tally_empty == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cores:beta=-1", "CORES: beta must be a number of at least 0, got -1.0"),
        ("cores:plain=-1", "CORES: plain must be a whole number of at least 0, got -1"),
        ("cores:ramp=0", "CORES: ramp must be a whole number of at least 1, got 0"),
        ("cores:sieve=-2", "CORES: sieve must be a whole number of at least 0, got -2"),
        ("anl:alpha=-1", "ANL: alpha must be a number of at least 0, got -1.0"),
        ("mixup:alpha=0", "Mixup: alpha must be a number above 0, got 0.0"),
        ("anl:beta=-1", "ANL: beta must be a number of at least 0, got -1.0"),
    ],
)
def test_bad_parameters_are_named_at_construction(text, message):
    with pytest.raises(ValueError, match="must be") as error:
        build(text)
    assert str(error.value) == message


def test_mixup_mixes_inputs_and_labels_alike():
    generator = torch.Generator().manual_seed(3)
    inputs, labels = torch.randn(40, 2, 3, generator=generator), torch.randint(4, (40,), generator=generator)
    x, y = adaptivek.mixup(inputs, labels, classes=4, generator=torch.Generator().manual_seed(0))
    partners = torch.randperm(40, generator=torch.Generator().manual_seed(0)).numpy()
    apart = int((labels != labels[partners]).nonzero()[0])
    share = float(y[apart, labels[apart]])
    assert 0 < share < 1
    expected = mixed(inputs.numpy(), labels.numpy(), 4, partners, share)
    np.testing.assert_allclose(x, expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y, expected[1], rtol=1e-5, atol=1e-6)
    again = adaptivek.mixup(inputs, labels, classes=4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again[0], x)
    soft = adaptivek.mixup(inputs, torch.eye(4)[labels], classes=4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(soft[1], y)


def test_the_share_is_drawn_from_the_beta_distribution_that_alpha_says():
    draw = torch.Generator().manual_seed(0)
    for alpha in (0.2, 1.0, 8.0):
        found = []
        for _ in range(1000):
            _, y = adaptivek.mixup(torch.zeros(2, 1), torch.tensor([0, 1]), 2, alpha, draw)
            found.append(float(y[0, 0]))
        # its variance is 1 / (8 alpha + 4); one order in two mixes each sample with itself, and shows a share of 1
        shares = [share for share in found if share != 1]
        assert 400 < len(shares) < 600
        assert np.mean(shares) == pytest.approx(0.5, abs=0.06)
        assert np.var(shares) == pytest.approx(1 / (8 * alpha + 4), rel=0.15)


def test_the_criterion_learns_from_mixed_labels():
    logits = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    inputs, targets = adaptivek.mixup(logits, torch.arange(8) % 3, classes=3)
    for text in ("mixup", "vanilla", "elr"):
        loss = adaptivek.Selection(text, rows=8, warmup=1)(inputs, targets, torch.arange(8))
        torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(inputs, targets))


def data() -> Split:
    digits = load("digits")
    return Split(digits.x[:200], digits.y[:200], digits.x_test[:100], digits.y_test[:100], 10)


def test_a_session_trains_on_the_mixtures_that_seed_and_epoch_decide():
    """Its first steps, again in a plain loop."""
    recipe = Recipe("digits-cnn", epochs=1, batch_size=20)
    session = Session(RunSpec("digits", "mixup:alpha=2", noise_rate=0.3, recipe=recipe, seed=4), data(), "cpu")
    (twin,) = fresh_networks(session.job)
    drawn = draws(session.job, 2, 0)
    (record,) = session
    optimizer, losses = torch.optim.SGD(twin.parameters(), lr=recipe.learning_rate), []
    for step in range(10):
        rows = drawn.order[step]
        set_keys(twin, drawn.keys[step, 0])
        x, y = mixed(data().x[rows].numpy(), session.labels[rows].numpy(), 10, drawn.partners[step].tolist(),
                     float(drawn.shares[step]))  # fmt: skip
        loss = torch.nn.functional.cross_entropy(twin(torch.from_numpy(x).float()), torch.from_numpy(y).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert record.train_loss == pytest.approx(np.mean(losses), rel=1e-4)
    for ours, theirs in zip(session.model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)
    assert drawn.shares.unique().numel() == 10
    assert all(sorted(partners) == list(range(20)) for partners in drawn.partners.tolist())


def test_runs_that_mix_by_different_shares_are_each_the_same_stacked_or_alone():
    recipe = Recipe("digits-cnn", epochs=2, batch_size=20)
    jobs = [
        prepare(RunSpec("digits", method, noise_rate=0.3, recipe=recipe, seed=seed), data())
        for method, seed in (("mixup", 0), ("vanilla", 0), ("mixup:alpha=8", 0), ("mixup", 1))
    ]
    together = list(zip(*Stack(jobs, "cpu"), strict=True))
    for job, records in zip(jobs, together, strict=True):
        for ours, theirs in zip(records, Session(job.spec, job.data, "cpu"), strict=True):
            assert ours.train_loss == pytest.approx(theirs.train_loss, rel=1e-3)
            assert ours.test_accuracy == pytest.approx(theirs.test_accuracy, abs=0.011)
    assert len({records[0].train_loss for records in together}) == 4


def test_texts_cannot_be_mixed():
    texts = data()._replace(x=torch.ones(200, 5, dtype=torch.int64))
    with pytest.raises(ValueError, match="RunSpec: method must be one that mixes no inputs for texts, got mixup"):
        prepare(RunSpec("mine", "mixup", recipe=Recipe("text-bag")), texts)
    with pytest.raises(ValueError, match=r"mixup: inputs must be real numbers, which can be mixed, got torch\.int64"):
        adaptivek.mixup(texts.x, texts.y, classes=10)
    with pytest.raises(ValueError, match="mixup: alpha must be a number above 0, got 0"):
        adaptivek.mixup(torch.rand(2), texts.y[:2], classes=10, alpha=0)


def test_an_audit_mixes_nothing():
    with pytest.raises(ValueError, match=r"method must be one that needs no truth, .*, trained plainly, got mixup"):
        Plan(epochs=1, method="mixup")
