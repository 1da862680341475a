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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sat:alpha=1", "SAT: alpha must be a number in [0, 1), got 1.0"),
    ],
)
def test_bad_parameters_are_named_at_construction(text, message):
    with pytest.raises(ValueError, match="must be") as error:
        build(text)
    assert str(error.value) == message
