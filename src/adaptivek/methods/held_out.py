"""Rows whose labels are never learned, and what they tell: is there still something to learn from labels?

Held-out rows are visited once an epoch, like all others. By how much their labels surprise the network less than one
visit before, each row compared with itself, is what other rows' labels have taught it in the meantime.
"""

from __future__ import annotations

import torch
from torch import Tensor

MANY = 1024  # rows that are held out at most, which tell an agreement to about 1.5 points
LARGEST = 1 / 16  # share of all rows that are held out at most
SLOWEST = 0.01  # of what there is to learn, an epoch: learning no faster than that has come to its end
ENOUGH, PART = 6, 1 / 8  # rows seen twice before anything is said: so many, and so large a part of those held out
LATE = 0.5  # epochs: before that a network has hardly begun, and nothing is compared with it
LEAST = 0.01  # that there is to learn
LEARNED = 0.05  # less of the surprise than by chance: then a network has learned something
MOST = 9.0  # surprise of a single row: a probability of about 1e-4
UNSEEN = -1.0  # in place of the surprise of a row


def held_out(rows: Tensor, number: Tensor) -> Tensor:
    """Which of so many rows are held out, (B,) bool: always the same, spread evenly over the data set."""
    share = (MANY / number).clamp(max=LARGEST)
    return rows * 40503 % 2**16 < share * 2**16  # times 2^16 over the golden ratio: Knuth's multiplicative hash


def no_trend() -> Tensor:
    """Before anything is seen.

    Six numbers. Of held-out rows of about the last epoch: the sum of their surprise, and how many they are. Of those
    of them that were seen before: the sum of its changes, that of their squares, and how many. Last the epochs so far.
    """
    return torch.zeros(6)


def follow(trend: Tensor, before: Tensor, surprise: Tensor, held: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """The trend with a batch, and what to remember of its rows, (B,).

    Args:
        trend: as `no_trend` has it.
        before: (B,) surprise of each row at its last visit, or `UNSEEN`.
        surprise: (B,) cross-entropy with the observed labels.
        held: (B,) which rows are held out, and count.
        share: of an epoch, that the batch is.
    """
    surprise, again = surprise.clamp(max=MOST), held & (before >= 0)
    change = torch.where(again, surprise - before, 0.0)
    counted = torch.stack([torch.where(held, surprise, 0.0), held, change, change.square(), again]).sum(-1)
    epochs = trend[-1:] + share
    moved = torch.cat([(1 - share) * trend[:-1] + counted.to(trend.dtype), epochs])
    return moved, torch.where(held & (epochs >= LATE), surprise, before)


def learned_out(trend: Tensor, rows: Tensor, chance: Tensor, errors: float) -> Tensor:
    """How surely labels teach no more, 0 to 1: held-out labels are more surprising than a visit before.

    For certain if by ``errors`` standard errors or more.

    Args:
        trend: as `no_trend` has it.
        rows: of the training set, how many.
        chance: how surprising labels are to one who knows how common each is, and nothing else.
        errors: at least 0.
    """
    _, _, change, squares, again, _ = trend.unbind()
    surprise, least = mean_surprise(trend), (PART * (LARGEST * rows).clamp(max=MANY)).clamp(min=ENOUGH)
    falling = (errors * squares.sqrt() - change).clamp(min=0) / again.clamp(min=1)
    # of the surprise that is left some may be noise, so at most as much is to be learned as has been
    scale = torch.minimum(surprise, chance - surprise).clamp(min=LEAST)
    return torch.where(again >= least, torch.exp(-falling / (SLOWEST * scale)), 0.0)


def learned(trend: Tensor, chance: Tensor) -> Tensor:
    """How far a network has begun to learn, 0 to 1: by how much less held-out labels surprise it than by chance."""
    return ((1 - mean_surprise(trend) / chance.clamp(min=LEAST)) / LEARNED).clamp(0, 1)


def mean_surprise(trend: Tensor) -> Tensor:
    """Of the held-out rows of about the last epoch."""
    return trend[0] / trend[1].clamp(min=1)


def entropy(counts: Tensor) -> Tensor:
    """Of the shares that counts (classes,) have."""
    found: Tensor = torch.special.entr(counts / counts.sum().clamp(min=1)).sum()
    return found
