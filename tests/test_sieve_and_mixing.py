"""What is particular to CORES², ANL, the agreement filter and mixup: answers known in advance."""

from __future__ import annotations

import math

import pytest
import torch

import adaptivek
from adaptivek.methods import build


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
        ("anl:beta=-1", "ANL: beta must be a number of at least 0, got -1.0"),
    ],
)
def test_bad_parameters_are_named_at_construction(text, message):
    with pytest.raises(ValueError, match="must be") as error:
        build(text)
    assert str(error.value) == message
