"""The noise ratio that a criterion tells: a number where it can be known, and the reason where it cannot."""

import math

import pytest
import torch
from torch import nn

import adaptivek
from adaptivek.experiments.data import load
from adaptivek.noise import Symmetric, corrupt
from adaptivek.training.history import History, metrics


def told(early: tuple[float, float], now: float, classes: int = 3) -> adaptivek.Selection:
    """A criterion that has found so many of so many confident labels noisy in first visits, and this share now."""
    criterion = adaptivek.Selection("label-posterior", rows=10, classes=classes)
    criterion.state_early.copy_(torch.tensor(early))
    criterion.tally_recent_seen.fill_(50.0)
    criterion.tally_recent_confidence.fill_(50.0 * (1 - now))
    return criterion


def train(x: torch.Tensor, labels: torch.Tensor, classes: int, epochs: int, method: str = "") -> adaptivek.Selection:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 256), nn.ReLU(), nn.Linear(256, classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = adaptivek.Selection(method or None, rows=len(x), classes=classes)
    for _ in range(epochs):
        for index in torch.randperm(len(x)).split(16):
            optimizer.zero_grad()
            criterion(model(x[index]), labels[index], index).backward()
            optimizer.step()
    return criterion


@pytest.mark.parametrize(
    ("early", "now", "known", "reason"),
    [
        ((40, 200), 0.2, 0.2, ""),
        ((58, 200), 0.2, 0.2, ""),
        ((30, 200), 0.2, 0.15, ""),
        ((62, 200), 0.2, math.nan, "31% of the labels looked noisy in the first visits, 20% do now: noisy labels"),
        (
            (10, 200),
            0.2,
            math.nan,
            "5% of the labels looked noisy in the first visits, 20% do now: the network has",
        ),
        ((20, 99), 0.2, math.nan, "too few rows have been seen again"),
        ((0, 0), 0.2, math.nan, "too few rows have been seen again"),
        ((0, 200), math.nan, math.nan, "no label has been judged yet"),
    ],
)
def test_it_is_known_where_the_first_visits_showed_about_as_much(early, now, known, reason):
    criterion = told(early, now)
    assert criterion.noise_ratio == pytest.approx(known, nan_ok=True)
    assert bool(criterion.noise_ratio_reason) == math.isnan(known)
    assert criterion.noise_ratio_reason.startswith(reason)


@pytest.mark.parametrize(
    ("quarter", "half", "now", "classes", "expected"),
    [
        ((80, 200), (160, 400), 0.1, 3, 0.4),  # 40 % looked noisy, nothing was left to learn, and 10 % look so now
        ((80, 200), (164, 400), 0.1, 3, 0.375),  # it was learning by a point, so five more may have been learned
        ((80, 200), (160, 400), 0.39, 3, 0.4),
        ((80, 200), (164, 400), 0.36, 3, 0.36),
        ((80, 200), (160, 400), 0.5, 3, 0.5),
        ((36, 90), (72, 180), 0.1, 3, 0.1),  # too few
        ((104, 200), (208, 400), 0.1, 3, math.nan),  # more than half of the labels: noisy or not learned?
        ((92, 200), (184, 400), 0.1, 2, math.nan),  # of two classes that is next to chance
        ((88, 200), (176, 400), 0.1, 2, 0.44),
    ],
)
def test_rows_that_were_never_learned_from_are_believed_where_labels_were_memorised(
    quarter, half, now, classes, expected
):
    criterion = told((200 * now, 200), now, classes)
    criterion.state_unseen.copy_(torch.tensor([quarter, half]))
    assert criterion.noise_ratio == pytest.approx(expected, nan_ok=True)
    assert criterion.noise_ratio_reason.endswith("memorised, or hard ones learned") == math.isnan(expected)
    criterion.state_early.zero_()  # then nothing else is known
    known = expected < now - 1e-6 or expected > now + 1e-6  # so not if it is NaN
    assert math.isnan(criterion.noise_ratio) != known
    assert bool(criterion.noise_ratio_reason) != known


@pytest.mark.parametrize(("half", "visits", "known"), [(172, 3, False), (172, 5, True), (168, 3, True)])
def test_the_first_few_visits_of_a_network_that_had_much_to_learn_tell_nothing(half, visits, known):
    """From half to quarter it learned three points, or two."""
    criterion = told((20, 200), 0.1)
    criterion.state_unseen.copy_(torch.tensor([[20.0, 200.0], [half - 120.0, 400.0]]))
    criterion.state_visits.fill_(visits)
    assert math.isnan(criterion.noise_ratio) != known


@pytest.mark.parametrize(
    ("wrong", "expected", "known"), [(20.0, 75.0, True), (20.0, 65.0, False), (4.0, 65.0, True), (20.0, 85.0, True)]
)
def test_a_network_that_is_right_more_often_than_it_is_confident_cannot_tell_yet(wrong, expected, known):
    """Of 300 confident rows, unless next to none are labelled otherwise."""
    criterion = told((20, 200), 0.1)
    criterion.state_confusion.copy_((100 - wrong) * torch.eye(3) + wrong * torch.eye(3).roll(1, 0))
    criterion.state_expected.fill_(expected)
    assert math.isnan(criterion.noise_ratio) != known
    assert criterion.noise_ratio_reason.endswith("" if known else "still learning")


def test_late_first_visits_are_counted():
    """Of 400 rows all are as confident as can be, the first 200 rightly and half of the others not."""
    criterion = adaptivek.Selection("label-posterior", rows=400, classes=2)
    labels = torch.arange(400) % 2
    found = torch.where(torch.arange(400) < 200, labels, (torch.arange(400) // 2) % 2)
    logits = 20 * (2.0 * nn.functional.one_hot(found, 2) - 1)
    batches = torch.arange(400).split(20)
    for _ in range(3):
        for index in batches:
            criterion(logits[index], labels[index], index)
    counts = [[0.0, 0.0], [0.0, 0.0]]
    for index in batches:  # each has a twentieth of the rows, so a fifth of a quarter and a tenth of a half
        wrong = int((found != labels)[index].sum())
        for of, stays in zip(counts, (0.8, 0.9), strict=True):
            of[:] = stays * of[0] + wrong, stays * of[1] + 20
    torch.testing.assert_close(criterion.state_unseen, torch.tensor(counts), rtol=1e-4, atol=1e-4)


def test_there_is_a_reason_before_the_first_step():
    criterion = adaptivek.Selection()
    assert math.isnan(criterion.noise_ratio)
    assert criterion.noise_ratio_reason == "no label has been judged yet"


def test_a_method_that_counts_no_first_visits_tells_what_it_finds():
    criterion = adaptivek.Selection("mkl:keep=0.75", warmup=0)
    criterion.reduce(torch.rand(8))
    assert criterion.noise_ratio == pytest.approx(0.25)
    assert criterion.noise_ratio_reason == ""


def test_memorised_labels_are_not_taken_for_clean_ones():
    """Labels at random, which say nothing of the inputs: all that a network can do is to memorise them."""
    torch.manual_seed(0)
    x, labels = torch.randn(2400, 200), torch.randint(10, (2400,))
    criterion = train(x, labels, 10, 8)
    assert float(1 - criterion.confidence.mean()) < 0.5  # nine of ten are noisy
    assert math.isnan(criterion.noise_ratio)
    assert criterion.noise_ratio_reason.endswith("memorised, or hard ones learned")


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_where_it_is_known_it_is_right(rate):
    data = load("digits")
    labels, _ = corrupt(data.y, Symmetric(rate), classes=10, seed=0)
    criterion = train(data.x, labels, 10, 8)
    assert criterion.noise_ratio == pytest.approx((labels != data.y).float().mean().item(), abs=0.05)
    assert float(metrics(criterion)["noise_ratio"]) == pytest.approx(criterion.noise_ratio)


def test_labels_that_are_memorised_fast_are_told_by_rows_that_were_not_seen_yet():
    """Two clouds that are learned at once, in so many dimensions that three labels of ten are memorised at once too."""
    torch.manual_seed(0)
    truth = torch.randint(2, (4000,))
    x = torch.randn(4000, 400)
    x[:, 0] += 6 * (2.0 * truth - 1)
    labels, _ = corrupt(truth, Symmetric(0.3), classes=2, seed=0)
    criterion = train(x, labels, 2, 12, "label-posterior")
    noisy = (labels != truth).float().mean().item()
    assert float(1 - criterion.tally.recent_confidence / criterion.tally.recent_seen) < noisy - 0.1
    assert criterion.noise_ratio == pytest.approx(noisy, abs=0.05)


def test_after_a_single_visit_it_is_not_known():
    data = load("digits")
    criterion = train(data.x, data.y, 10, 1)
    assert criterion.noise_ratio_reason.startswith("too few rows have been seen again")
    written = []
    History(criterion, every=1, write=lambda values, step: written.append(values))()
    assert "noise_ratio" not in written[0]
