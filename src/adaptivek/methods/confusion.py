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


def odds_and_trust(confusion: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """For each label, (B,): the odds of each class, at most 1, (B, classes), and how far it may be doubted, (B,)."""
    at_label = labels.unsqueeze(-1)
    totals, given = _totals_and_given(confusion, labels)
    own = given.gather(-1, at_label)
    # before there is anything to count, each class is observed as itself
    share = (given.scatter(-1, at_label, own + 1) / (totals + 1)).clamp(RARE)
    found_again = own.squeeze(-1) / (given.sum(-1) + 1)
    return (share / share.gather(-1, at_label)).clamp(max=1), (4 * found_again - 1).clamp(0, 1)


def right_and_predicted(confusion: Tensor) -> tuple[Tensor, Tensor]:
    """How often each class was predicted where it was observed, and how often at all, (classes,)."""
    if confusion.shape[-2] == confusion.shape[-1]:
        return confusion.diagonal(), confusion.sum(-1)
    agree, predicted, _ = confusion.unbind(-2)
    return agree, agree + predicted


def _totals_and_given(confusion: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """How often each class was predicted, (classes,), and how often where these labels were observed, (B, classes)."""
    if confusion.shape[-2] == confusion.shape[-1]:
        return confusion.sum(-1), confusion.t()[labels]
    agree, predicted, observed = confusion.unbind(-2)
    rate = observed / observed.sum().clamp(min=1)
    given = rate[labels].unsqueeze(-1) * predicted
    return agree + predicted, given.scatter(-1, labels.unsqueeze(-1), agree[labels].unsqueeze(-1))
