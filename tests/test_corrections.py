"""Rivals that correct labels or the loss: answers known in advance, beside the references."""

from __future__ import annotations

import pytest
import torch

import adaptivek
from adaptivek.methods import build


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
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
