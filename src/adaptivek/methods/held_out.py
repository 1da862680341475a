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
MOST = 9.0  # surprise of a single row: a probability of about 1e-4
UNSEEN = -1.0  # in place of the surprise of a row


def held_out(rows: Tensor, number: Tensor) -> Tensor:
    """Which of so many rows are held out, (B,) bool: always the same, spread evenly over the data set."""
    share = (MANY / number).clamp(max=LARGEST)
    return rows * 40503 % 2**16 < share * 2**16  # times 2^16 over the golden ratio: Knuth's multiplicative hash


def no_trend() -> Tensor:
    """Before anything is seen: of held-out rows of about the last epoch surprise and number, and of those seen before
    the change of it, its square and their number; last the epochs that have passed."""
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
    passed = trend[-1] + share
    moved = torch.cat([(1 - share) * trend[:-1] + counted.to(trend.dtype), passed.unsqueeze(0)])
    return moved, torch.where(held & (passed >= LATE), surprise, before)


def learned_out(trend: Tensor, number: Tensor, chance: Tensor, errors: float) -> Tensor:
    """How surely labels teach no more, 0 to 1: held-out labels are more surprising than a visit before.

    For certain if by ``errors`` standard errors or more. ``number``: rows of the training set; ``chance``: what labels
    surprise one who knows nothing but how common each is.
    """
    least = (PART * (LARGEST * number).clamp(max=MANY)).clamp(min=ENOUGH)
    surprise, again = trend[0] / trend[1].clamp(min=1), trend[4].clamp(min=1)
    falling = (errors * trend[3].sqrt() - trend[2]).clamp(min=0) / again
    # the rest of the surprise or what is learned so far, whichever is less: the rest of it may be noise
    scale = torch.minimum(surprise, chance - surprise).clamp(min=LEAST)
    return torch.where(trend[4] >= least, torch.exp(-falling / (SLOWEST * scale)), 0.0)


def entropy(counts: Tensor) -> Tensor:
    """Of the shares that counts (classes,) have."""
    shares: Tensor = counts / counts.sum().clamp(min=1)
    return torch.special.entr(shares).sum()
