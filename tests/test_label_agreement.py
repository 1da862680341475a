"""Label agreement beside what the reference covers: when labels are doubted, which are, and that it helps."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import adaptivek
from adaptivek.experiments.data import load
from adaptivek.methods.label_agreement import lasting, levelled_off, memorised, settled, threshold, trust
from adaptivek.noise import Symmetric, corrupt

from .reference.label_agreement import LabelAgreement
from .tiny import digits_accuracy

ROWS, CLASSES = 60, 3
INDEX, LABELS = torch.arange(ROWS), torch.arange(ROWS) % CLASSES


def criterion_with(forgotten: float, found: float = 0.9, text: str = "label-agreement") -> adaptivek.Selection:
    """One that has seen this share of 10,000 predicted labels forgotten, and this share of each class predicted."""
    criterion = adaptivek.Selection(text, rows=ROWS, classes=CLASSES)
    counts = torch.tensor([forgotten * 10_000, 10_000.0, found * 3_000, 3_000.0])
    criterion.state_labels.copy_(counts.unsqueeze(-1).expand(4, CLASSES) / CLASSES)
    return criterion


def none_is_forgotten(criterion: adaptivek.Selection) -> None:
    criterion.state_labels[:2].copy_(torch.tensor([[0.0], [10_000.0]]).expand(2, CLASSES))


def test_it_is_the_default():
    assert adaptivek.Selection().method == adaptivek.LabelAgreement()


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
        (0.00, 8, 0.0, 0.2),  # nor often enough
        (0.00, 60, 1.0, 1.0),
        (0.07, 60, 0.0, 0.5),  # by chance it may be more
    ],
)
def test_a_network_has_settled_that_forgets_few_labels(forgotten, number, low, high):
    counts = torch.tensor([[forgotten * number], [number]]).expand(2, CLASSES) / CLASSES
    assert low <= settled(counts, 0.08).item() <= high


@pytest.mark.parametrize(
    ("of_one", "number", "low", "high"),
    [
        (0.00, 1_000.0, 1.0, 1.0),
        (0.20, 1_000.0, 1.0, 1.0),
        (0.30, 100_000.0, 0.45, 0.55),  # 0.1 in the mean of three classes
        (0.50, 1_000.0, 0.0, 0.0),
        (0.60, 10.0, 0.0, 0.0),
        (1.00, 0.1, 1.0, 1.0),  # hardly any label
        (0.00, 0.0, 1.0, 1.0),
    ],
)
def test_a_rare_class_that_is_forgotten_counts_as_much_as_a_common_one(of_one, number, low, high):
    counts = torch.tensor([[0.0, 0.0, of_one * number], [1e7, 1e7, number]])
    assert low <= settled(counts, 0.08).item() <= high


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


def test_the_threshold_is_a_deviation_above_the_mean_and_never_too_high():
    p = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7], [0.4, 0.3, 0.3]])
    found = threshold(p.square().sum(-1).mean(), 3)
    assert found.item() == pytest.approx(p.numpy().mean() + p.numpy().std(), abs=1e-6)
    assert threshold(torch.tensor(1.0), 2).item() == 0.75  # of certain predictions of two classes it would be 1


def test_a_class_that_is_hardly_predicted_is_not_doubted():
    found = torch.tensor([[10.0, 400.0, 1000.0], [1000.0, 1000.0, 1000.0]])
    torch.testing.assert_close(trust(found), torch.tensor([0.0, 0.6, 1.0]), rtol=0, atol=0.01)


def left_out(criterion: adaptivek.Selection, logits: torch.Tensor) -> torch.Tensor:
    """Which labels nothing is learned from: their predictions are their targets."""
    logits = logits.requires_grad_()
    criterion(logits, LABELS, INDEX).backward()
    return logits.grad.abs().sum(1) < 1e-6


def test_while_a_network_is_learning_it_is_plain_training():
    """However much the predictions are against the labels, once a row was seen four times."""
    logits = logits_for((LABELS + 1) % CLASSES)
    for visits, plain in ((3.0, False), (4.0, True)):
        criterion = criterion_with(forgotten=0.3)
        criterion.state_changes[0].copy_(torch.tensor([3_000.0, 1_000.0]))
        believe_the_predictions(criterion, visits)
        loss = criterion(logits, LABELS, INDEX)
        assert torch.isclose(loss, F.cross_entropy(logits, LABELS)) == plain


def test_as_many_labels_forgotten_as_learned_are_doubted():
    """Torn between two classes a network goes on forgetting, and learns no more."""
    logits = logits_for((LABELS + 1) % CLASSES)
    criterion = criterion_with(forgotten=0.3)
    criterion.state_changes[0].copy_(torch.tensor([3_000.0, 3_000.0]))
    believe_the_predictions(criterion, 4.0)
    assert criterion(logits, LABELS, INDEX) < F.cross_entropy(logits, LABELS) / 2


def believe_the_predictions(criterion: adaptivek.Selection, visits: float) -> None:
    """Every row was seen so often, and remembered as the class after its label, which confuses many."""
    criterion.state_visits.fill_(visits)
    criterion.state_predictions.copy_(0.9 * F.one_hot((LABELS + 1) % CLASSES, CLASSES) + 0.1 / CLASSES)
    criterion.state_confusion.copy_(100 * (torch.eye(CLASSES) + torch.eye(CLASSES).roll(-1, 1)))
    criterion.state_expected.fill_(100.0)
    criterion.state_moments.copy_(torch.tensor([[0.9], [0.81]]).expand(2, CLASSES))


@pytest.mark.parametrize(
    ("learned", "lost", "low", "high"),
    [
        (500_000, 500_000, 1.0, 1.0),
        (530_000, 470_000, 0.45, 0.51),  # a surplus of 6 %, half-way between 4 and 8
        (600_000, 400_000, 0.0, 0.0),
        (400_000, 600_000, 1.0, 1.0),
        (0, 0, 0.0, 0.0),  # nothing has been seen twice
        (50, 50, 0.0, 0.0),  # by chance it may be more
    ],
)
def test_a_network_has_levelled_off_that_forgets_as_many_as_it_learns(learned, lost, low, high):
    assert low <= levelled_off(torch.tensor([float(learned), float(lost)])).item() <= high


@pytest.mark.parametrize(
    ("predicted", "noisy", "seen", "expected"),
    [
        (0.60, 0.4, 1_000.0, 0.0),  # what seemed clean, and no more
        (0.625, 0.4, 1_000.0, 0.5),
        (0.70, 0.4, 1_000.0, 1.0),
        (0.70, 0.0, 1_000.0, 0.0),
        (0.70, 0.4, 50.0, 0.0),  # too few to know
        (0.70, 0.0, 0.0, 0.0),
    ],
)
def test_labels_are_memorised_where_more_are_predicted_than_seemed_clean(predicted, noisy, seen, expected):
    found = torch.tensor([[predicted * 500], [500.0]]).expand(2, CLASSES)
    value = memorised(found, torch.tensor([noisy * seen, seen]))
    assert value.item() == pytest.approx(expected, abs=1e-3)


def test_the_first_four_visits_are_those_of_label_posterior_while_much_is_forgotten():
    torch.manual_seed(0)
    both = [adaptivek.Selection(text, rows=ROWS, classes=CLASSES) for text in ("label-agreement", "label-posterior")]
    apart = 0.0
    for epoch in range(8):
        for index in torch.randperm(ROWS).split(6):
            logits = torch.randn(6, CLASSES) + logits_for((LABELS[index] + (index < 20)) % CLASSES, 1.5)
            found, expected = (criterion(logits, LABELS[index], index) for criterion in both)
            assert epoch >= 4 or torch.equal(found, expected)
            apart = max(apart, (found - expected).abs().item())
    assert apart > 1e-3


def test_without_row_numbers_it_is_label_posterior():
    torch.manual_seed(0)
    both = [adaptivek.Selection(text, classes=CLASSES) for text in ("label-agreement", "label-posterior")]
    for _ in range(30):
        logits = torch.randn(12, CLASSES) + logits_for(LABELS[:12], 2.0)
        found, expected = (criterion(logits, LABELS[:12]) for criterion in both)
        assert torch.equal(found, expected)


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
    assert torch.equal(left_out(criterion_with(forgotten=0.0), logits), weak)


def test_a_rare_class_must_be_predicted_as_surely_as_a_common_one():
    """Else its labels are learned more easily, and in the end it is predicted too often."""
    criterion = criterion_with(forgotten=0.0)
    common = torch.where(INDEX < 50, 0, LABELS)
    for _ in range(20):  # what it sees as common
        criterion(logits_for(common), common, INDEX)
    none_is_forgotten(criterion)
    unsure = torch.where((INDEX % 10 == 0)[:, None], logits_for(LABELS, 1.2), logits_for(LABELS))
    assert torch.equal(left_out(criterion, unsure), INDEX % 10 == 0)


def test_a_label_counts_again_as_soon_as_it_is_predicted():
    criterion, other = criterion_with(forgotten=0.0), (LABELS + (INDEX < 3)) % CLASSES
    assert torch.equal(left_out(criterion, logits_for(other)), INDEX < 3)
    assert not left_out(criterion, logits_for(LABELS)).any()


def test_where_labels_come_back_by_themselves_they_are_no_longer_left_out():
    """A third of what was left out is predicted at the next visit: it was hard, and is being learned from others."""
    criterion = criterion_with(forgotten=0.0)
    criterion.state_agreed.fill_(1.0)
    assert left_out(criterion, logits_for((LABELS + (INDEX < 30)) % CLASSES)).sum() == 30
    for _ in range(2):
        none_is_forgotten(criterion)
        found = left_out(criterion, logits_for((LABELS + (INDEX < 20)) % CLASSES))
    assert not found.any()


def test_a_network_that_loses_its_classes_gets_all_labels_back():
    """Everything is predicted as one class: that many labels are forgotten, and none is left out any more."""
    criterion = criterion_with(forgotten=0.0)
    criterion(logits_for(LABELS), LABELS, INDEX)
    for _ in range(2):
        found = left_out(criterion, logits_for(torch.zeros_like(LABELS)))
    assert not found.any()


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
            least.append(reference.kept.min())
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
