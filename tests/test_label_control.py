"""Label control beside what the reference covers: its control group, when it acts, and that it helps on few epochs."""

import pytest
import torch
import torch.nn.functional as F

import adaptivek
from adaptivek.experiments.data import load
from adaptivek.methods.held_out import UNSEEN, entropy, follow, held_out, learned_out, no_trend
from adaptivek.methods.label_control import begin, memorised
from adaptivek.noise import Symmetric, corrupt

from .tiny import digits_accuracy

ROWS, CLASSES = 64, 4


@pytest.mark.parametrize(
    ("number", "least", "most"), [(160, 8, 12), (8_000, 490, 510), (50_000, 980, 1_070), (2_000_000, 900, 1_150)]
)
def test_so_many_rows_are_controls(number, least, most):
    """A sixteenth, 1,024 at most."""
    held = held_out(torch.arange(number), torch.tensor(float(number)))
    assert least <= int(held.sum()) <= most


def test_controls_are_spread_over_a_data_set_that_is_sorted_by_class():
    held = held_out(torch.arange(8_000), torch.tensor(8_000.0))
    of_each_tenth = held.view(10, 800).sum(1)
    assert of_each_tenth.min() >= 45
    assert of_each_tenth.max() <= 55


@pytest.mark.parametrize(
    ("learned", "held", "number", "expected"),
    [
        (0.6, 0.6, 400, 0.0),  # nothing is memorised
        (0.5, 0.6, 400, 0.0),
        (0.61, 0.6, 400, 0.0),  # by chance
        (0.7, 0.6, 400, 1 - torch.tensor((-0.1 + 0.5 * (0.24 / 400) ** 0.5) / 0.03).exp().item()),
        (1.0, 0.6, 400, 1.0),
        (1.0, 0.0, 3, 0.0),  # too few to tell
    ],
)
def test_labels_are_memorised_as_far_as_they_are_predicted_more_often(learned, held, number, expected):
    agreement = torch.tensor([[learned * 6_000, held * number], [6_000.0, number]])
    assert memorised(agreement).item() == pytest.approx(expected, abs=1e-4)


def test_a_part_of_what_is_memorised_may_be_let_pass():
    agreement = torch.tensor([[4_200.0, 2_400.0], [6_000.0, 4_000.0]])  # 0.7 and 0.6
    expected = memorised(torch.tensor([[3_900.0, 2_400.0], [6_000.0, 4_000.0]]))  # 0.65 and 0.6
    torch.testing.assert_close(memorised(agreement, 0.05), expected)
    assert memorised(agreement) > expected


def trend_of(slope: float, epochs: int = 6, rows: int = 4_096, spread: float = 0.2) -> torch.Tensor:
    """Of held-out rows whose surprise changes by so much in each epoch, and by chance."""
    generator = torch.Generator().manual_seed(0)
    own = 1 + 0.3 * torch.randn(rows, generator=generator)  # some rows are harder than others
    trend, before = no_trend(), torch.full((rows,), UNSEEN)
    held = held_out(torch.arange(rows), torch.tensor(float(rows)))
    for epoch in range(epochs):
        for part in torch.randperm(rows, generator=generator).split(64):
            now = own[part] + slope * epoch + spread * torch.randn(len(part), generator=generator)
            trend, before[part] = follow(trend, before[part], now, held[part], torch.tensor(64 / rows))
    return trend


@pytest.mark.parametrize(("slope", "least", "most"), [(-0.05, 0.0, 1e-3), (0.05, 0.99, 1.0)])
def test_labels_teach_as_long_as_held_out_ones_become_less_surprising(slope, least, most):
    """Seen on rows of which each is compared with itself, though they differ by far more than they change."""
    said = learned_out(trend_of(slope), torch.tensor(4_096.0), torch.tensor(2.3), 1.0)
    assert least <= said <= most


def test_the_trend_is_the_mean_change_of_a_visit():
    surprise, number, change, squares, again, epochs = trend_of(-0.05, spread=0.0).tolist()
    assert change / again == pytest.approx(-0.05, abs=1e-5)
    assert squares / again == pytest.approx(0.05**2, abs=1e-6)
    assert surprise / number == pytest.approx(1 - 0.05 * 4.5, abs=0.1)
    assert epochs == pytest.approx(6)


def test_nothing_is_said_before_rows_were_seen_twice():
    assert learned_out(trend_of(0.5, epochs=1), torch.tensor(4_096.0), torch.tensor(2.3), 0.0) == 0


def test_it_begins_by_and_by_and_does_not_go_back():
    begun = torch.zeros(2)
    for said in ([1.0, 0.0], [0.0, 0.0], [1.0, 1.0]):
        begun = begin(begun, torch.tensor(said), torch.tensor(0.1))
    torch.testing.assert_close(begun, torch.tensor([0.3 + 0.3 * 0.7, 0.3]))
    assert begin(begun, torch.ones(2), torch.tensor(0.5)).tolist() == [1, 1]  # an epoch of two batches


def test_entropy_of_counts():
    counts = torch.tensor([3.0, 1.0, 0.0])
    expected = torch.distributions.Categorical(torch.tensor([0.75, 0.25])).entropy()
    torch.testing.assert_close(entropy(counts), expected)


def criterion_that_has_seen(agreement: torch.Tensor) -> adaptivek.Selection:
    criterion = adaptivek.Selection("label-control", rows=ROWS, classes=CLASSES)
    criterion.state_predictions.copy_(0.5 * torch.rand(ROWS, CLASSES).softmax(1))
    criterion.state_agreement.copy_(agreement)
    criterion.state_begun.fill_(1.0)
    return criterion


def test_labels_of_controls_are_never_learned():
    """Neither while nothing is memorised, when controls do not count at all, nor later, when they learn predictions."""
    torch.manual_seed(0)
    index = torch.arange(ROWS)
    held = held_out(index, torch.tensor(float(ROWS)))
    labels, logits = index % CLASSES, torch.randn(ROWS, CLASSES)
    changed = torch.where(held, (labels + 1) % CLASSES, labels)
    for predicted, weight in ((0.5, 0.0), (1.0, 1.0)):
        agreement = torch.tensor([[predicted * 900, 200.0], [900.0, 400.0]])
        losses = []
        for given in (labels, changed):
            torch.manual_seed(1)
            criterion = criterion_that_has_seen(agreement)
            losses.append(criterion(logits, given, index).item())
            torch.testing.assert_close(
                criterion.weights[held], torch.full((int(held.sum()),), weight), rtol=0, atol=1e-3
            )
        assert losses[0] == pytest.approx(losses[1], abs=1e-6)


def test_what_is_memorised_is_replaced_by_squared_predictions_with_the_same_class_shares():
    """Of two classes, one three times as common; all labels memorised, so nothing is learned but what is remembered."""
    rows, mean, squares = 32, torch.tensor([0.75, 0.25]), torch.tensor([0.9, 0.1])
    criterion = adaptivek.Selection("label-control:beta=0", rows=rows, classes=2)
    criterion.state_predictions.copy_(mean.expand(rows, 2))
    criterion.state_agreement.copy_(torch.tensor([[1000.0, 0.0], [1000.0, 1000.0]]))
    criterion.state_begun.fill_(1.0)
    criterion.state_shares.copy_(2 * torch.stack([mean, squares]))
    targets, weights = criterion.judge(
        mean.log().expand(rows, 2), torch.ones(rows, dtype=torch.long), torch.arange(rows)
    )
    torch.testing.assert_close(weights, torch.ones(rows))
    torch.testing.assert_close(targets, mean.expand(rows, 2), rtol=0, atol=1e-5)  # 0.9 * 0.75 / 0.9 to 0.1 * 0.25 / 0.1


def test_labels_are_learned_as_they_are_while_they_teach():
    """However much the predictions are against them."""
    torch.manual_seed(0)
    index, labels = torch.arange(ROWS), torch.arange(ROWS) % CLASSES
    held = held_out(index, torch.tensor(float(ROWS)))
    logits = 4 * F.one_hot((labels + 1) % CLASSES, CLASSES).float()
    for begun, expected in ((0.0, 1.0), (1.0, 0.0)):
        criterion = criterion_that_has_seen(torch.tensor([[200.0, 200.0], [400.0, 400.0]]))
        criterion.state_predictions.copy_(0.9 * logits.softmax(1))
        criterion.state_confusion.copy_(100 + 200 * torch.eye(CLASSES))  # every confusion is common
        criterion.state_begun.fill_(begun)
        targets, _ = criterion.judge(logits, labels, index)
        of_label = targets.gather(1, labels[:, None]).squeeze(1)[~held]
        assert (of_label - expected).abs().max() < 0.35


def test_without_row_numbers_it_is_label_memory():
    torch.manual_seed(0)
    one, other = (
        adaptivek.Selection(text, classes=CLASSES) for text in ("label-control", "label-memory:beta=0.5,caution=0")
    )
    for _ in range(5):
        logits, labels = 3 * torch.randn(ROWS, CLASSES), torch.randint(CLASSES, (ROWS,))
        torch.testing.assert_close(one(logits, labels), other(logits, labels))


def test_a_small_network_that_memorises_is_held_back():
    """A perceptron that learns digits with 40 % noise for long: plain training memorises the labels."""
    labels, _ = corrupt(load("digits").y, Symmetric(0.4), classes=10, seed=0)
    found = {text: digits_accuracy(text, labels, epochs=20) for text in ("vanilla", "label-control")}
    assert found["label-control"] > found["vanilla"] + 0.05
    assert found["label-control"] > 0.9


def test_the_first_visit_is_plain_training_on_all_but_the_controls():
    torch.manual_seed(0)
    index = torch.arange(ROWS)
    held = held_out(index, torch.tensor(float(ROWS)))
    labels, logits = index % CLASSES, torch.randn(ROWS, CLASSES)
    criterion = adaptivek.Selection("label-control", rows=ROWS, classes=CLASSES)
    torch.testing.assert_close(criterion(logits, labels, index), F.cross_entropy(logits[~held], labels[~held]))
