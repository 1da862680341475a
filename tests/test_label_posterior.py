"""Label posterior beside what the reference covers: where it is plain training, its bound, and that it helps soon."""

import pytest
import torch
import torch.nn.functional as F

import adaptivek
from adaptivek.experiments.data import load
from adaptivek.methods.elr import pull
from adaptivek.methods.label_posterior import memorised, thresholds
from adaptivek.noise import Directed, corrupt

from .tiny import digits_accuracy

ROWS, CLASSES = 12, 4


def seen(
    predictions: torch.Tensor,
    confusion: torch.Tensor,
    visits: float = 3.0,
    expected: torch.Tensor | None = None,
    method: str = "label-posterior:strength=0",
) -> adaptivek.Selection:
    """A criterion that has seen every row this often; as confident of what it has counted as can be, if not said."""
    criterion = adaptivek.Selection(method, rows=ROWS, classes=CLASSES)
    criterion.state_predictions.copy_(predictions)
    criterion.state_visits.fill_(visits)
    criterion.state_confusion.copy_(confusion)
    criterion.state_expected.copy_(confusion.sum(1) if expected is None else expected)
    criterion.state_moments.copy_(torch.tensor([[0.9], [0.85]]).expand(2, CLASSES))
    return criterion


def test_the_first_visit_is_plain_training():
    criterion = seen(torch.zeros(ROWS, CLASSES), 20 * torch.rand(CLASSES, CLASSES), visits=0)
    logits, labels = 9 * torch.randn(ROWS, CLASSES), torch.arange(ROWS) % CLASSES
    torch.testing.assert_close(criterion(logits, labels, torch.arange(ROWS)), F.cross_entropy(logits, labels))


def test_labels_of_a_class_that_is_hardly_found_again_are_left_alone():
    confusion = torch.full((CLASSES, CLASSES), 30.0).fill_diagonal_(10.0)
    criterion = seen(torch.rand(ROWS, CLASSES).softmax(1), confusion)
    logits, labels = 9 * torch.randn(ROWS, CLASSES), torch.randint(CLASSES, (ROWS,))
    torch.testing.assert_close(criterion(logits, labels, torch.arange(ROWS)), F.cross_entropy(logits, labels))


def test_a_network_that_is_right_more_often_than_it_is_confident_doubts_no_label():
    """Of 25 confident rows of each class 22 have its label: more than the 15 that it expects, so it is learning."""
    confusion = torch.full((CLASSES, CLASSES), 1.0).fill_diagonal_(22.0)
    logits, labels = 9 * torch.randn(ROWS, CLASSES), torch.randint(CLASSES, (ROWS,))
    plain = F.cross_entropy(logits, labels)
    for sure, doubts in ((15.0, False), (22.0, True)):
        criterion = seen(torch.rand(ROWS, CLASSES).softmax(1), confusion, expected=torch.full((CLASSES,), sure))
        assert torch.isclose(criterion(logits, labels, torch.arange(ROWS)), plain) != doubts


def test_a_network_that_is_hardly_more_confident_than_by_chance_doubts_no_label():
    confusion = torch.full((CLASSES, CLASSES), 3.0).fill_diagonal_(16.0)
    logits, labels = 9 * torch.randn(ROWS, CLASSES), torch.randint(CLASSES, (ROWS,))
    remembered, losses = torch.rand(ROWS, CLASSES).softmax(1), []
    for confidence in (1 / CLASSES, 0.3, 1 / CLASSES + 0.75 / 4, 0.9):
        criterion = seen(remembered, confusion)
        criterion.state_moments[0] = confidence
        losses.append(criterion(logits, labels, torch.arange(ROWS)).item())
    assert losses[0] == pytest.approx(F.cross_entropy(logits, labels).item())
    assert losses[0] != pytest.approx(losses[1])
    assert losses[2] == pytest.approx(losses[3])  # a quarter of the way from chance to certain is enough


@pytest.mark.parametrize(
    ("noisy", "doubt", "expected"),
    [(0.4, 0.4, 0.0), (0.4, 0.5, 0.0), (0.4, 0.35, 0.0), (0.4, 0.33, 0.4), (0.4, 0.1, 1.0), (0.0, 0.0, 0.0)],
)
def test_noise_that_is_found_no_more_is_being_memorised(noisy, doubt, expected):
    found = memorised(torch.tensor([noisy * 1e6, 1e6]), torch.tensor(doubt))
    assert found.item() == pytest.approx(expected, abs=1e-4)


def test_predictions_count_in_full_again_where_noise_is_being_memorised():
    confusion = torch.full((CLASSES, CLASSES), 10.0).fill_diagonal_(30.0)
    remembered = torch.rand(ROWS, CLASSES).softmax(1)
    logits, labels = torch.randn(ROWS, CLASSES), torch.randint(CLASSES, (ROWS,))
    targets = {}
    for visits, early in ((3.0, 0.0), (1e9, 0.0), (1e9, 500.0)):
        criterion = seen(remembered, confusion, visits=visits, method="label-posterior:worth=1e-9")
        criterion.state_early.copy_(torch.tensor([early, 1000.0]))
        targets[visits, early] = criterion(logits, labels, torch.arange(ROWS)).item(), criterion.confidence
    torch.testing.assert_close(targets[1e9, 500.0][1], targets[3.0, 0.0][1])
    assert not torch.allclose(targets[1e9, 0.0][1], targets[3.0, 0.0][1])


def test_the_pull_is_the_gradient_of_elr():
    logits = torch.randn(ROWS, CLASSES, dtype=torch.float64, requires_grad=True)
    remembered = 0.9 * torch.rand(ROWS, CLASSES, dtype=torch.float64).softmax(1)
    p = logits.softmax(1)
    (1 - (remembered * p).sum(1)).log().sum().backward()
    torch.testing.assert_close(pull(p.detach(), remembered), -logits.grad)


def test_a_label_that_all_agree_on_is_learned_as_it_is():
    """ELR's pull alone would ask for more than 1 of it, for ever."""
    sure = torch.eye(CLASSES)[torch.arange(ROWS) % CLASSES]
    criterion = seen(sure, 25 * torch.eye(CLASSES), method="label-posterior")
    labels, logits = torch.arange(ROWS) % CLASSES, 8 * sure
    expected = F.cross_entropy(logits, labels)
    torch.testing.assert_close(criterion(logits, labels, torch.arange(ROWS)), expected, rtol=0, atol=1e-4)


def test_what_is_said_after_many_visits_is_worth_the_square_root():
    """Of two classes, 30 % of each labelled as the other: the odds are 3/7, so the posterior can be written down."""
    two = torch.tensor([[70.0, 30.0], [30.0, 70.0]])
    p, odds = torch.tensor([0.2, 0.8]), (30 / 101) / (71 / 101)
    for visits, power in ((2.0, 1.0), (10.0, 0.75), (1e9, 0.5)):
        criterion = adaptivek.Selection("label-posterior", rows=2, classes=2)
        criterion.state_confusion.copy_(two)
        criterion.state_predictions.copy_(torch.tensor([0.1, 0.9]))
        criterion.state_visits.fill_(visits)
        criterion(p.log().expand(2, 2), torch.tensor([0, 0]), torch.arange(2))
        right, wrong = (0.2 * 0.1) ** power, (0.8 * 0.9) ** power * odds
        torch.testing.assert_close(criterion.confidence, torch.full((2,), right / (right + wrong)))


@pytest.mark.parametrize("size", [20, 1000])
def test_the_most_confident_quarter_of_each_class_is_counted(size):
    """Confidence of class 0 is normal about 0.75, that of class 1 about 0.55 and closer."""
    rows = 4000
    criterion = adaptivek.Selection("label-posterior", rows=rows, classes=2)
    torch.manual_seed(0)
    found = torch.arange(rows) % 2
    confidence = torch.where(found == 0, 0.75 + 0.08 * torch.randn(rows), 0.55 + 0.01 * torch.randn(rows)).clamp(0.5, 1)
    p = torch.stack([confidence, 1 - confidence], 1)
    logits = torch.where(found[:, None] == 0, p, p.flip(1)).log()
    for index in torch.randperm(rows).split(size):
        criterion(logits[index], found[index], index)
    above = thresholds(criterion.state_moments)
    shares = torch.stack([(confidence[found == c] > above[c]).float().mean() for c in (0, 1)])
    torch.testing.assert_close(shares, torch.full((2,), 0.25), rtol=0, atol=0.08)


@pytest.mark.parametrize("share", [0.9, 1.0])
def test_however_common_a_mistake_the_label_is_twice_as_likely(share):
    """With nothing but the odds to go by: predictions that say nothing, and all of class 1 labelled 0."""
    confusion = 50 * torch.eye(CLASSES)
    confusion[1, 0], confusion[1, 1] = 50 * share, 50 * (1 - share)
    criterion = seen(torch.full((ROWS, CLASSES), 1 / CLASSES), confusion)
    criterion(torch.zeros(1, CLASSES), torch.tensor([0]), torch.tensor([5]))
    # 1 for the label, a half for class 1, next to nothing for the others
    torch.testing.assert_close(criterion.confidence, torch.tensor([1 / 1.5]), rtol=0.01, atol=0)


def test_eight_epochs_are_enough_to_be_above_plain_training_and_label_memory():
    labels, _ = corrupt(load("digits").y, Directed(0.4), classes=10, seed=0)
    found = {text: digits_accuracy(text, labels, epochs=8) for text in ("vanilla", "label-memory", "label-posterior")}
    assert found["label-posterior"] > max(found["vanilla"], found["label-memory"]) + 0.02
