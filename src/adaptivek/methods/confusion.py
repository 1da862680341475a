"""Counts of predicted class and observed label, kept as training goes on, and what they say of a label.

A table (classes, classes); where that would be too large, three rows: how often each class was predicted where it was
observed, how often elsewhere, and how often it was observed elsewhere. Confusions of one class with another are then
taken to be as common as these make them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..method import Batch

RARE = 1e-3  # how often, at least, any class is taken to be labelled as any other
MOST_CLASSES = 4096  # of which each pair is counted


def no_counts(classes: int) -> Tensor:
    """Before there is anything to count."""
    return torch.zeros(classes if classes <= MOST_CLASSES else 3, classes)


def count_confusion(
    confusion: Tensor, horizon: Tensor, predicted: Tensor, batch: Batch, weights: Tensor | None = None
) -> Tensor:
    """Counts of predicted class and observed label with this batch, each sample by its weight; older ones fade."""
    assert batch.labels is not None
    labels, classes = batch.labels, confusion.shape[-1]
    added = (batch.valid if weights is None else batch.valid * weights).to(confusion.dtype)
    if confusion.shape[-2] == classes:
        places = predicted * classes + labels
    else:
        agree = predicted == labels
        places = torch.cat([torch.where(agree, predicted, predicted + classes), labels + 2 * classes])
        added = torch.cat([added, torch.where(agree, 0, added)])
    left = (1 - batch.n_valid / horizon).clamp(min=0)
    # counted, not a matrix product, which autocast would take in half precision
    return (left * confusion).flatten().scatter_add_(-1, places, added).view_as(confusion)


def odds_and_trust(confusion: Tensor, labels: Tensor, most: float = 1.0) -> tuple[Tensor, Tensor]:
    """For each label, (B,), the odds of each class, (B, classes), and how far it may be doubted, (B,).

    The odds are 1 of the label's own class, and at most ``most`` of any other.
    """
    right, predicted = right_and_predicted(confusion)
    given, rate, number = _given(confusion, labels)
    # before there is anything to count, each class is observed as itself
    own = ((right[labels] + 1) / (predicted[labels] + 1)).clamp(RARE).unsqueeze(-1)
    # what has one value for each label, or for each class, goes first: with many classes each pass over both takes time
    odds = rate / own * (given / (predicted + 1))
    odds = odds.clamp(RARE / own, torch.full_like(own, most)).scatter(-1, labels.unsqueeze(-1), 1.0)
    return odds, (4 * right[labels] / (number + 1) - 1).clamp(0, 1)


def right_and_predicted(confusion: Tensor) -> tuple[Tensor, Tensor]:
    """How often each class was predicted where it was observed, and how often at all, (classes,)."""
    if confusion.shape[-2] == confusion.shape[-1]:
        return confusion.diagonal(), confusion.sum(-1)
    agree, predicted, _ = confusion.unbind(-2)
    return agree, agree + predicted


def _given(confusion: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How often other classes were predicted where these labels were observed, and how often any was, (B,).

    The first as two factors, of classes, (classes,) or (B, classes), and of labels, (B, 1).
    """
    if confusion.shape[-2] == confusion.shape[-1]:
        given = confusion.t()[labels]
        return given, torch.ones_like(given[..., :1]), given.sum(-1)
    agree, predicted, observed = confusion.unbind(-2)
    rate = (observed / observed.sum().clamp(min=1))[labels]
    number = agree[labels] + rate * (predicted.sum() - predicted[labels])
    return predicted, rate.unsqueeze(-1), number
