"""Rows that are not believed are visited seldom, and come back."""

from __future__ import annotations

import re

import pytest
import torch

import adaptivek

ROWS, CLASSES = 60, 3
LABELS = torch.arange(ROWS) % CLASSES
WRONG = torch.arange(ROWS) % 5 == 0  # a fifth is predicted as the next class


def visit(criterion: adaptivek.Selection, wrong: torch.Tensor, times: int) -> None:
    answers = torch.where(wrong, (LABELS + 1) % CLASSES, LABELS)
    for _ in range(times):
        criterion(torch.eye(CLASSES)[answers] * 8, LABELS, torch.arange(ROWS))


def test_doubted_rows_are_visited_once_in_so_many_epochs():
    criterion = adaptivek.Selection("label-memory", rows=ROWS, classes=CLASSES)
    sampler = adaptivek.Sparing(criterion, LABELS, every=4)
    assert sorted(sampler) == list(range(ROWS))  # nothing is known yet
    visit(criterion, WRONG, 12)
    assert torch.equal(criterion.method.doubted(criterion.memory.state, LABELS), WRONG)
    assert torch.equal(criterion.believed.bool(), ~WRONG)
    epochs = []
    for _ in range(4):
        length = len(sampler)
        epochs.append(list(sampler))
        assert len(epochs[-1]) == length
    for row in range(ROWS):
        assert sum(row in epoch for epoch in epochs) == (1 if WRONG[row] else 4)
    assert epochs[0] != sorted(epochs[0])
    visit(criterion, torch.zeros_like(WRONG), 12)
    assert sorted(sampler) == list(range(ROWS))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: adaptivek.Sparing(adaptivek.Selection("mkl"), LABELS),
            "Sparing: criterion must be with label-memory, got mkl",
        ),
        (
            lambda: adaptivek.Sparing(adaptivek.Selection("label-memory", rows=9, classes=3), LABELS),
            "Sparing: labels must be one for each of 9 rows, got (60,)",
        ),
    ],
)
def test_mistakes_are_heard_of_at_once(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_without_row_numbers_it_goes_on_with_todays_prediction():
    criterion = adaptivek.Selection("label-memory", classes=CLASSES)
    logits = (torch.eye(CLASSES)[LABELS] * 4).requires_grad_()
    criterion(logits, LABELS).backward()
    assert torch.isfinite(logits.grad).all()
    for _ in range(100):
        criterion(torch.eye(CLASSES)[torch.where(WRONG, (LABELS + 1) % CLASSES, LABELS)] * 4, LABELS)
    assert torch.equal(criterion.believed.bool(), ~WRONG)
    assert abs(criterion.noise_ratio - 0.2) < 0.02
