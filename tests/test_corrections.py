"""Rivals that correct labels or the loss: answers known in advance, beside the references."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import adaptivek
from adaptivek.experiments.data import Split, load
from adaptivek.experiments.prepare import prepare
from adaptivek.experiments.session import Session
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.experiments.stack import Stack
from adaptivek.methods import build
from adaptivek.methods.forward import estimate


def test_a_sample_counts_for_less_while_its_target_is_between_two_classes():
    """SAT: from the label to the prediction, which is another class, the clearest entry falls to a half and rises."""
    criterion = adaptivek.Selection("sat", warmup=0, rows=2, classes=2)
    logits, labels, weights = torch.tensor([[20.0, 0.0], [20.0, 0.0]]), torch.tensor([1, 0]), []
    for _ in range(20):
        criterion(logits, labels, torch.arange(2))
        weights.append(criterion.weights.tolist())
    noisy, clean = zip(*weights, strict=True)
    assert noisy == pytest.approx([max(0.9**visit, 1 - 0.9**visit) for visit in range(1, 21)], abs=1e-5)
    assert min(noisy) == noisy[6]  # 0.9^7 is the first power below a half
    assert clean == pytest.approx([1.0] * 20, abs=1e-5)


def test_the_clearest_labels_are_corrected_first_and_the_rest_as_the_threshold_rises():
    """PLC, with predictions that never change: one noisy label is far from probable, one less so, two are likely."""
    criterion = adaptivek.Selection("plc:plain=2", rows=4, classes=2)
    logits = torch.tensor([[0.1, 1.0], [0.45, 1.0], [0.95, 1.0], [1.0, 0.1]]).log()  # ratios of label 0
    corrected, thresholds = [], []
    for epoch in range(12):
        criterion.start_epoch(epoch)
        criterion(logits, torch.zeros(4, dtype=torch.int64), torch.arange(4))
        corrected.append((criterion.confidence == 0).tolist())
        thresholds.append(round(float(criterion.state_threshold), 3))
    # it stays in an epoch with a correction, and rises in all others: twice, and the second label is below it
    assert thresholds == [0.3] * 3 + [0.4, 0.5, 0.5, 0.6, 0.7, 0.8, 0.9, 0.9, 0.9]
    assert [row[0] for row in corrected] == [False] * 2 + [True] * 10
    assert [row[1] for row in corrected] == [False] * 5 + [True] * 7
    assert not any(row[2] or row[3] for row in corrected)
    assert criterion.state_labels.tolist() == [1, 1, 0, 0]


def test_a_corrected_label_is_what_is_learned_and_may_be_taken_back():
    criterion = adaptivek.Selection("plc:plain=1,window=1,threshold=0.8", rows=1, classes=2)
    seen = []
    for epoch, share in enumerate([0.1, 0.1, 0.9, 0.9]):
        logits = torch.tensor([[share, 1 - share]]).log().requires_grad_()
        criterion.start_epoch(epoch)
        criterion(logits, torch.tensor([0]), torch.tensor([0])).backward()
        seen.append(int(logits.grad.argmin()))  # the class that is pulled up
    assert seen == [0, 1, 1, 0]


def test_lrt_is_plc_with_a_threshold_that_stays():
    criterion = adaptivek.Selection("plc:threshold=0.83,increment=0,window=10,plain=1", rows=2, classes=2)
    for epoch in range(8):
        criterion.start_epoch(epoch)
        criterion(torch.tensor([[0.8, 1.0], [0.85, 1.0]]).log(), torch.zeros(2, dtype=torch.int64), torch.arange(2))
    assert float(criterion.state_threshold) == pytest.approx(0.83)
    assert criterion.confidence.tolist() == [0, 1]


def noisy_predictions(rows: int, rate: float, classes: int = 3) -> tuple[np.ndarray, torch.Tensor]:
    """A transition matrix, and the logits of a network that knows the true class and that it is then flipped."""
    matrix = (1 - rate) * np.eye(classes) + rate * np.roll(np.eye(classes), 1, 1)
    confidence = np.random.default_rng(0).uniform(0.5, 1, (rows, 1))  # of the true class, before the noise
    truth = np.arange(rows) % classes
    clean = confidence * np.eye(classes)[truth] + (1 - confidence) / classes
    return matrix, torch.from_numpy(np.log(clean @ matrix + 1e-6)).float()


def test_the_transition_matrix_is_read_at_the_anchors_and_outliers_are_passed_over():
    matrix, logits = noisy_predictions(900, 0.3)
    np.testing.assert_allclose(estimate(logits, 97.0), matrix, atol=0.06)
    np.testing.assert_allclose(estimate(logits, 100.0), matrix, atol=0.01)
    spoilt = logits.clone()
    spoilt[:3] = 20 * torch.eye(3)  # of each class one label that has been memorised
    np.testing.assert_allclose(estimate(spoilt, 97.0), matrix, atol=0.06)
    np.testing.assert_allclose(estimate(spoilt, 100.0), np.eye(3), atol=0.01)


def test_with_the_right_matrix_the_true_classes_have_the_smallest_loss():
    """Cross-entropy is smallest where the noisy labels are predicted, the corrected loss where the classes are."""
    matrix, logits = noisy_predictions(900, 0.4)
    labels = torch.from_numpy(np.random.default_rng(1).choice(3, 20_000, p=matrix[0]))  # all of true class 0
    criterion = adaptivek.Selection("forward", warmup=0, classes=3)
    criterion.start_epoch(0, logits)
    found = {}
    for name, p in (("classes", [0.98, 0.01, 0.01]), ("labels", matrix[0] + 1e-6)):
        prediction = torch.from_numpy(np.log(p)).float().expand(len(labels), 3)
        found[name] = criterion(prediction, labels), torch.nn.functional.cross_entropy(prediction, labels)
    assert found["classes"][0] < found["labels"][0]
    assert found["classes"][1] > found["labels"][1]


def test_the_matrix_is_estimated_once_from_the_network_as_warm_up_has_left_it():
    """From the logits of all rows, in a run alone and in a stack, each run from its own network."""
    data = load("digits")
    split = Split(data.x[:200], data.y[:200], data.x_test[:50], data.y_test[:50], 10)
    recipe = Recipe(network="digits-cnn", epochs=4, warmup_epochs=2)
    specs = [RunSpec("digits", f"forward:percentile={at}", noise_rate=0.3, recipe=recipe) for at in (97, 80)]
    matrices = {}
    for spec in specs:
        session, percentile = Session(spec, split, "cpu"), spec.make_method().percentile
        for epoch, _ in enumerate(session, 1):
            if epoch <= recipe.warmup_epochs:
                assert not session.criterion.state_estimated
                session.model.eval()
                with torch.no_grad():
                    expected = estimate(session.model(split.x), percentile)
            else:
                torch.testing.assert_close(session.criterion.state_matrix, expected, rtol=1e-4, atol=1e-6)
        matrices[percentile] = session.criterion.state_matrix
    assert not torch.allclose(*matrices.values())
    stack = Stack([prepare(spec, split) for spec in specs], "cpu")
    list(stack)
    (group,) = stack.groups
    for method, matrix in zip(group.methods, group.memory.state.matrix, strict=True):
        torch.testing.assert_close(matrix, matrices[method.percentile], rtol=1e-3, atol=1e-4)


def test_what_a_full_pass_of_logits_must_be_is_said():
    criterion = adaptivek.Selection("forward", warmup=0, classes=3)
    with pytest.raises(ValueError, match=r"needs the logits of all rows: start_epoch\(epoch, logits\), got \(5,\)"):
        criterion.start_epoch(0, torch.rand(5))


def test_true_classes_are_inferred_from_counts_of_how_each_class_is_labelled():
    """LCCN: only class 0 is ever mislabelled, as 1. So a label 1 is doubted where 0 is predicted, and only there."""
    truth = np.arange(300) % 3
    labels = np.where((truth == 0) & (np.arange(300) % 5 < 2), 1, truth)
    logits = torch.from_numpy(np.log(0.7 * np.eye(3)[truth] + 0.1)).float()  # 0.8 for the true class
    criterion, rows = adaptivek.Selection("lccn", warmup=0, rows=300, classes=3), torch.arange(300)
    criterion.start_epoch(0)
    loss = criterion(logits, torch.from_numpy(labels), rows)  # plain, and counted
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels)))
    assert criterion.confidence.min() == 1
    criterion.start_epoch(1)
    expected = (np.array([[60, 40, 0], [0, 100, 0], [0, 0, 100]]) + 1) / 103
    np.testing.assert_allclose(criterion.state_matrix, expected, rtol=1e-5)
    criterion(logits, torch.from_numpy(labels), rows)
    doubted = (criterion.confidence < 0.5).numpy()
    assert doubted.tolist() == (labels != truth).tolist()
    unlikely = adaptivek.Selection("lccn", warmup=0, rows=300, classes=3)
    unlikely.load_state_dict(criterion.state_dict())
    unlikely(torch.tensor([[0.1, 0.1, 0.8]]).log(), torch.tensor([1]), torch.tensor([5]))
    assert unlikely.confidence[0] > 0.5  # 2 is predicted, but no 2 has been labelled 1


def test_a_strong_prior_leaves_the_predictions_alone_as_targets():
    criterion = adaptivek.Selection("lccn:prior=1e9", warmup=0, rows=4, classes=3)
    logits, labels = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0])
    for epoch in range(2):
        criterion.start_epoch(epoch)
        moving = logits.clone().requires_grad_()
        criterion(moving, labels, torch.arange(4)).backward()
        assert (moving.grad.abs().max() > 1e-3) == (epoch == 0)  # a target that is the prediction has no gradient


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("forward:percentile=0", "Forward: percentile must be a number in (0, 100], got 0.0"),
        ("lccn:prior=0", "LCCN: prior must be a number above 0, got 0.0"),
        ("plc:threshold=0.95", "PLC: threshold must be a number in (0, 0.9], got 0.95"),
        ("plc:increment=-1", "PLC: increment must be a number of at least 0, got -1.0"),
        ("plc:window=0", "PLC: window must be a whole number of at least 1, got 0"),
        ("plc:plain=0", "PLC: plain must be a whole number of at least 1, got 0"),
        ("sat:alpha=1", "SAT: alpha must be a number in [0, 1), got 1.0"),
    ],
)
def test_bad_parameters_are_named_at_construction(text, message):
    with pytest.raises(ValueError, match="must be") as error:
        build(text)
    assert str(error.value) == message
