"""Rows that are settled are visited seldom, and come back."""

from __future__ import annotations

import re

import pytest
import torch

import adaptivek

ROWS, CLASSES = 60, 3
LABELS = torch.arange(ROWS) % CLASSES
WRONG = torch.arange(ROWS) % 5 == 0  # a fifth is predicted as the next class


def visit(criterion: adaptivek.Selection, wrong: torch.Tensor, unsure: torch.Tensor, times: int) -> None:
    answers = torch.where(wrong, (LABELS + 1) % CLASSES, LABELS)
    for _ in range(times):
        criterion(torch.eye(CLASSES)[answers] * torch.where(unsure, 2.0, 8.0)[:, None], LABELS, torch.arange(ROWS))


def test_settled_rows_are_visited_once_in_so_many_epochs():
    criterion = adaptivek.Selection("label-memory", rows=ROWS, classes=CLASSES)
    sampler = adaptivek.SkipSettled(criterion, every=4)
    assert sorted(sampler) == list(range(ROWS))  # nothing is known yet
    unsure = torch.arange(ROWS) % 3 == 0
    visit(criterion, WRONG, unsure, 12)
    assert torch.equal(criterion.confidence.bool(), ~WRONG)  # those of another class are settled too, if they are sure
    epochs = []
    for _ in range(4):
        length = len(sampler)
        epochs.append(list(sampler))
        assert len(epochs[-1]) == length
    for row in range(ROWS):
        assert sum(row in epoch for epoch in epochs) == (4 if unsure[row] else 1)
    assert epochs[0] != sorted(epochs[0])
    visit(criterion, WRONG, torch.ones(ROWS, dtype=torch.bool), 12)
    assert sorted(sampler) == list(range(ROWS))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: adaptivek.SkipSettled(adaptivek.Selection("mkl")), "criterion must be with label-memory, got mkl"),
        (
            lambda: adaptivek.SkipSettled(adaptivek.Selection("label-memory", classes=CLASSES)),
            "criterion must be given rows=",
        ),
        (
            lambda: adaptivek.SkipSettled(adaptivek.Selection("label-memory", rows=9, classes=CLASSES), settled=2),
            "settled must be",
        ),
    ],
)
def test_mistakes_are_heard_of_at_once(make, message):
    with pytest.raises(ValueError, match=f"SkipSettled: {re.escape(message)}"):
        make()


def test_without_row_numbers_it_goes_on_with_todays_prediction():
    criterion = adaptivek.Selection("label-memory", classes=CLASSES)
    logits = (torch.eye(CLASSES)[LABELS] * 4).requires_grad_()
    criterion(logits, LABELS).backward()
    assert torch.isfinite(logits.grad).all()
    for _ in range(100):
        criterion(torch.eye(CLASSES)[torch.where(WRONG, (LABELS + 1) % CLASSES, LABELS)] * 4, LABELS)
    assert torch.equal(criterion.confidence.bool(), ~WRONG)
    assert abs(criterion.noise_ratio - 0.2) < 0.02
