"""Label agreement beside what the reference covers: when labels are doubted, which are, and that it helps."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import adaptivek
from adaptivek.experiments.data import load
from adaptivek.methods.label_agreement import lasting, settled, thresholds, trust
from adaptivek.noise import Symmetric, corrupt

from .reference.label_agreement import LabelAgreement
from .tiny import digits_accuracy

ROWS, CLASSES = 60, 3
INDEX, LABELS = torch.arange(ROWS), torch.arange(ROWS) % CLASSES


def criterion_with(forgotten: float, found: float = 0.9, text: str = "label-agreement") -> adaptivek.Selection:
    """One that has seen this share of 10,000 predicted labels forgotten, and this share of each class predicted."""
    criterion = adaptivek.Selection(text, rows=ROWS, classes=CLASSES)
    criterion.state_forgotten.copy_(torch.tensor([forgotten * 10_000, 10_000.0]))
    criterion.state_found.copy_(torch.tensor([[found * 1_000], [1_000.0]]).expand(2, CLASSES))
    return criterion


def logits_for(classes: torch.Tensor, scale: float = 4.0) -> torch.Tensor:
    return scale * F.one_hot(classes, CLASSES).float()


@pytest.mark.parametrize(
    ("forgotten", "number", "low", "high"),
    [
        (0.00, 10_000, 1.0, 1.0),
        (0.07, 10_000, 1.0, 1.0),
        (0.10, 1_000_000, 0.45, 0.51),  # half-way between 0.08 and 0.12
        (0.13, 10_000, 0.0, 0.0),
        (0.50, 10_000, 0.0, 0.0),
        (0.00, 0, 0.0, 0.0),  # nothing has been seen twice
        (0.00, 8, 0.0, 0.0),  # nor often enough
        (0.00, 60, 1.0, 1.0),
        (0.07, 60, 0.0, 0.5),  # by chance it may be more
    ],
)
def test_a_network_has_settled_that_forgets_few_labels(forgotten, number, low, high):
    assert low <= settled(torch.tensor([forgotten * number, number]), 0.08).item() <= high


@pytest.mark.parametrize(
    ("returned", "number", "low", "high"),
    [
        (0.05, 10_000, 1.0, 1.0),
        (0.15, 1_000_000, 0.49, 0.51),  # half-way between 0.1 and 0.2
        (0.25, 10_000, 0.0, 0.0),
        (0.00, 0, 1.0, 1.0),  # nothing was left out
        (0.25, 4, 1.0, 1.0),  # by chance it may be less
    ],
)
def test_doubts_last_where_few_labels_come_back(returned, number, low, high):
    assert low <= lasting(torch.tensor([returned * number, number])).item() <= high


def test_the_threshold_of_a_class_is_a_deviation_above_its_mean_and_never_too_high():
    p = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.1, 0.9], [0.3, 0.7]])
    moments = torch.stack([p.mean(0), p.square().mean(0)])
    expected = [p[:, 0].numpy().mean() + p[:, 0].numpy().std(), 0.75]  # of the second class it would be 0.93
    np.testing.assert_allclose(thresholds(moments).numpy(), expected, rtol=1e-5)


def test_a_class_that_is_hardly_predicted_is_not_doubted():
    found = torch.tensor([[10.0, 400.0, 1000.0], [1000.0, 1000.0, 1000.0]])
    torch.testing.assert_close(trust(found), torch.tensor([0.0, 0.6, 1.0]), rtol=0, atol=0.01)


def test_while_labels_are_forgotten_it_is_plain_training():
    """However much the predictions are against the labels."""
    logits = logits_for((LABELS + 1) % CLASSES)
    criterion = criterion_with(forgotten=0.3)
    torch.testing.assert_close(criterion(logits, LABELS, INDEX), F.cross_entropy(logits, LABELS))
    assert criterion.confidence.min() == 1
    assert math.isnan(criterion.noise_ratio)
    assert "still learning" in criterion.noise_ratio_reason


def test_the_first_epoch_is_plain_training():
    torch.manual_seed(0)
    criterion = adaptivek.Selection("label-agreement", rows=ROWS, classes=CLASSES)
    for index in torch.randperm(ROWS).split(6):
        logits = torch.randn(6, CLASSES)
        torch.testing.assert_close(criterion(logits, LABELS[index], index), F.cross_entropy(logits, LABELS[index]))


def test_a_label_that_is_not_predicted_gives_no_gradient_and_the_others_no_larger_one():
    wrong = INDEX % 5 == 0
    logits = logits_for(torch.where(wrong, (LABELS + 1) % CLASSES, LABELS)).requires_grad_()
    plain = logits.detach().clone().requires_grad_()
    criterion_with(forgotten=0.0)(logits, LABELS, INDEX).backward()
    F.cross_entropy(plain, LABELS).backward()
    torch.testing.assert_close(logits.grad[wrong], torch.zeros(int(wrong.sum()), CLASSES))
    torch.testing.assert_close(logits.grad[~wrong], plain.grad[~wrong])


def test_a_label_that_is_predicted_without_confidence_is_left_out_too():
    weak = INDEX % 5 == 0
    logits = torch.where(weak[:, None], logits_for(LABELS, 0.2), logits_for(LABELS, 5.0))
    criterion = criterion_with(forgotten=0.0)
    criterion(logits, LABELS, INDEX)
    assert torch.equal(criterion.confidence == 1, ~weak)


def test_a_label_counts_again_as_soon_as_it_is_predicted():
    criterion, other = criterion_with(forgotten=0.0), (LABELS + (INDEX < 3)) % CLASSES
    criterion(logits_for(other), LABELS, INDEX)
    assert criterion.confidence[:3].max() == 0
    criterion(logits_for(LABELS), LABELS, INDEX)
    assert criterion.confidence.min() == 1


def test_where_labels_come_back_by_themselves_they_are_no_longer_left_out():
    """A third of what was left out is predicted at the next visit: it was hard, and is being learned from others."""
    criterion = criterion_with(forgotten=0.0)
    criterion.state_agreed.fill_(1.0)
    criterion(logits_for((LABELS + (INDEX < 30)) % CLASSES), LABELS, INDEX)
    assert criterion.confidence.min() == 0
    criterion.state_forgotten.copy_(torch.tensor([0.0, 10_000.0]))  # none of these forgotten
    for _ in range(2):
        criterion(logits_for((LABELS + (INDEX < 20)) % CLASSES), LABELS, INDEX)
        criterion.state_forgotten.copy_(torch.tensor([0.0, 10_000.0]))
    assert criterion.confidence.min() > 0


def test_a_network_that_loses_its_classes_gets_all_labels_back():
    """Everything is predicted as one class: that many labels are forgotten, and no label is doubted any more."""
    criterion = criterion_with(forgotten=0.0)
    criterion(logits_for(LABELS), LABELS, INDEX)
    for _ in range(2):
        criterion(logits_for(torch.zeros_like(LABELS)), LABELS, INDEX)
    assert criterion.confidence.min() == 1


def test_the_noise_ratio_is_the_share_of_labels_that_are_not_predicted():
    wrong = INDEX % 5 == 0
    criterion = adaptivek.Selection("label-agreement", rows=ROWS, classes=CLASSES)
    assert math.isnan(criterion.noise_ratio)
    for _ in range(300):
        criterion(logits_for(torch.where(wrong, (LABELS + 1) % CLASSES, LABELS)), LABELS, INDEX)
    assert criterion.noise_ratio == pytest.approx(0.2, abs=0.01)
    assert not criterion.noise_ratio_reason


def test_does_what_the_reference_does_when_labels_come_and_go():
    """Predictions that are steady, then are not, then are again: labels are left out, and taken back in between."""
    rng, number = np.random.default_rng(0), 400
    labels, other = rng.integers(CLASSES, size=(2, number))
    truth = np.where(rng.random(number) < 0.8, labels, other)
    criterion = adaptivek.Selection("label-agreement", rows=number, classes=CLASSES)
    reference, least = LabelAgreement(number, CLASSES), []
    for epoch in range(8):
        steady = epoch not in (4, 5)
        for rows in np.split(rng.permutation(number), 10):
            chance = rng.normal(size=(len(rows), CLASSES))
            logits = (3 * np.eye(CLASSES)[truth[rows]] + 0.5 * chance if steady else 2 * chance).astype(np.float32)
            loss = criterion(torch.from_numpy(logits), torch.from_numpy(labels[rows]), torch.from_numpy(rows))
            losses, _ = reference.step(logits.astype(np.float64), labels[rows], rows)
            assert loss.item() == pytest.approx(losses(logits).mean(), abs=1e-4)
            np.testing.assert_allclose(criterion.confidence.numpy(), reference.confidence, atol=1e-4)
            least.append(reference.confidence.min())
    assert min(least[:10]) == 1  # the first epoch
    assert max(least[20:40]) == 0  # some are left out
    assert min(least[45:60]) == 1  # and taken back
    assert min(least[75:]) == 0


def test_a_small_network_that_memorises_is_held_back():
    """A perceptron that learns digits with 40 % noise for long: plain training memorises the labels."""
    labels, _ = corrupt(load("digits").y, Symmetric(0.4), classes=10, seed=0)
    found = {text: digits_accuracy(text, labels, epochs=20) for text in ("vanilla", "label-agreement")}
    assert found["label-agreement"] > found["vanilla"] + 0.05
    assert found["label-agreement"] > 0.9


def test_row_numbers_are_asked_for():
    with pytest.raises(ValueError, match="rows"):
        adaptivek.Selection("label-agreement", classes=CLASSES)(torch.randn(4, CLASSES), torch.arange(4) % CLASSES)
