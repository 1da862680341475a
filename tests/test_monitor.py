"""What is kept of each class, and the way back."""

from __future__ import annotations

import re

import pytest
import torch

import adaptivek

LABELS = torch.arange(4).repeat(8)  # four classes, eight of each in a batch


def batch(late: int | None) -> torch.Tensor:
    """Logits that know every class, but for one that is learned late."""
    known = torch.eye(4)[LABELS] * 6
    if late is not None:
        known[late == LABELS] = torch.eye(4)[(late + 1) % 4] * 6
    return known


def about_to_look(late: int, plain: int) -> tuple[adaptivek.Selection, adaptivek.ClassMonitor]:
    """After ten steps that lose a class; the last of them has not been told to the watch."""
    criterion = adaptivek.Selection("mkl:keep=0.75")
    watch = adaptivek.ClassMonitor(criterion, classes=4, every=10, plain=plain)
    for step in range(10):
        criterion(batch(late), LABELS)
        if step < 9:
            watch(LABELS)
    return criterion, watch


def test_shares_are_those_counted_by_hand():
    criterion = adaptivek.Selection("adaptive-k", warmup=0)
    watch = adaptivek.ClassMonitor(criterion, classes=5, every=20, plain=0, least=0.0)
    kept, seen = torch.zeros(5), torch.zeros(5)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        labels = torch.randint(-1, 4, (32,), generator=generator)
        labels[labels < 0] = -100
        criterion(torch.randn(32, 5, generator=generator) * 3, labels)
        watch(labels)
        for label, one in zip(labels.tolist(), criterion.kept.tolist(), strict=True):
            if label >= 0:
                seen[label] += 1
                kept[label] += one
    torch.testing.assert_close(watch.shares[:4], (kept / seen)[:4])
    assert watch.shares[4].isnan()  # never seen
    assert watch.lost == []


def test_a_class_that_is_lost_is_heard_of_and_trained_on_again():
    criterion, watch = about_to_look(late=2, plain=10)
    assert not criterion.kept[LABELS == 2].any()
    with pytest.warns(UserWarning, match=re.escape("mkl is losing classes: 2 (") + ".*10 steps"):
        watch(LABELS)
    assert watch.lost == [2]
    for _ in range(10):  # plain for as long as a look takes
        criterion(batch(late=2), LABELS)
        watch(LABELS)
        assert criterion.kept.all()
    assert watch.lost == []
    criterion(batch(late=None), LABELS)
    assert criterion.tally_step == 21


def test_it_may_only_warn():
    criterion, watch = about_to_look(late=1, plain=0)
    with pytest.warns(UserWarning, match="losing classes"):
        watch(LABELS)
    criterion(batch(late=1), LABELS)
    assert not criterion.kept.all()


@pytest.mark.parametrize("text", ["co-teaching:keep=1", "label-memory", "elr"])
def test_any_method_can_be_watched(text):
    criterion = adaptivek.Selection(text, rows=32, classes=4)
    if criterion.method.needs_epochs:
        criterion.start_epoch(0)
    watch = adaptivek.ClassMonitor(criterion, classes=4, every=1)
    logits = batch(late=None)
    criterion(torch.stack([logits, logits]) if criterion.method.networks == 2 else logits, LABELS, torch.arange(32))
    watch(LABELS)
    assert watch.shares.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 0}, "ClassMonitor: classes"),
        ({"least": 2.0}, "ClassMonitor: least"),
        ({"every": 0}, "ClassMonitor: every"),
        ({"plain": -1}, "ClassMonitor: plain"),
    ],
)
def test_mistakes_are_heard_of_at_once(changes, message):
    with pytest.raises(ValueError, match=message):
        adaptivek.ClassMonitor(adaptivek.Selection("mkl"), **({"classes": 4} | changes))


def test_not_before_there_is_something_to_count():
    with pytest.raises(RuntimeError, match="after a training step"):
        adaptivek.ClassMonitor(adaptivek.Selection("mkl"), classes=4)(LABELS)
