"""From what a run remembers to scores, what is flagged, and what is not to be trusted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .beliefs import Stock, take_stock
from .dynamics import Dynamics
from .estimate import Codes, Fit, Floats, Slots, fit, for_ranking, posterior
from .floor import Ratio

LEARNED = 0.1  #: of the way from guessing to always right, on average over the classes: less is nothing
MOST_NOISE = 0.7  #: of the noise that would leave nothing to learn
FEW_ROWS = 10  #: of a class about which little can be said


class Verdict(NamedTuple):
    score: NDArray[np.float32]
    is_issue: NDArray[np.bool_]
    suggested: Codes
    loss: NDArray[np.float32]
    loss_cut: float
    fitted: Fit
    noise_per_class: Floats
    ratio: Ratio
    accuracy: float
    warnings: list[str]


def judge(
    dynamics: Dynamics, labels: Codes, classes: list[str], seed: int = 0, advice: str = "", stock: Stock | None = None
) -> Verdict:
    """The matrix and the ratio come from the network that has not seen the row; the score from both networks.

    ``stock`` is what was known half-way, if the networks have trained on beliefs since: then they agree on more than
    they know. ``advice`` is given where nothing was learned.
    """
    other, own = Slots(*dynamics.other.tables()), Slots(*dynamics.own.tables())
    guess = other.named()
    found = take_stock(other, own, labels, len(classes)) if stock is None else stock
    ratio = found.ratio.ratio
    fitted = fit(other, labels, len(classes), ratio, seed)
    wrong = 1 - posterior(other, labels, fitted).right
    both = together(other, own)
    score, best_other = posterior(both, labels, for_ranking(fitted, found.hard))
    number = round(ratio * len(labels))
    is_issue = np.zeros(len(labels), bool)
    is_issue[np.argsort(score, kind="stable")[:number]] = True
    loss = -np.log(np.maximum(probability(both, labels), 1e-6)).astype(np.float32)
    cut = float(np.quantile(loss, 1 - ratio)) if number else float("nan")
    counts = np.bincount(labels, minlength=len(classes))
    per_class = np.bincount(labels, wrong, len(classes)) / np.maximum(counts, 1)
    return Verdict(
        score=score.astype(np.float32),
        is_issue=is_issue,
        suggested=np.where(is_issue, best_other, labels),
        loss=loss,
        loss_cut=cut,
        fitted=fitted,
        noise_per_class=per_class,
        ratio=found.ratio,
        accuracy=float((guess == labels).mean()),
        warnings=doubts(guess, labels, classes, ratio, found.hard, advice),
    )


def doubts(
    guess: Codes, labels: Codes, classes: list[str], ratio: float, hard: bool = False, advice: str = ""
) -> list[str]:
    """Why not to trust the audit; nothing if there is no reason."""
    counts = np.bincount(labels, minlength=len(classes))
    recall = np.bincount(labels, guess == labels, len(classes)) / np.maximum(counts, 1)
    chance = 1 / len(classes)
    reached = (recall.mean() - chance) / (1 - chance)
    found = []
    if reached < LEARNED:
        found.append(
            f"The audit is not to be trusted: the network has learned next to nothing. It finds the label of "
            f"{recall.mean():.0%} of the rows it has not seen, on average over the classes; guessing {chance:.0%}. "
            "Either the inputs say nothing about the labels, or the network does not suit them, or rows are too few."
            + advice
        )
    elif ratio > MOST_NOISE * (1 - chance):
        found.append("So many labels look wrong that the estimate may be far off.")
    if hard:
        found.append(
            "Hard rows seem to be mislabelled more often than easy ones, or classes overlap: of the share of wrong "
            "labels no more is known than its interval."
        )
    rare = [name for name, count in zip(classes, counts, strict=True) if count < FEW_ROWS]
    if rare:
        found.append(
            f"Little can be said about classes with fewer than {FEW_ROWS} rows: {', '.join(rare[:10])}"
            + (f" and {len(rare) - 10} more." if len(rare) > 10 else ".")
        )
    return found


def together(first: Slots, second: Slots) -> Slots:
    """The mean of two predictions; where each names its own classes, all of them."""
    if first.classes is None or second.classes is None:
        return Slots((first.p + second.p) / 2, None)
    same = (first.classes[:, :, None] == second.classes[:, None, :]) & (second.p > 0)[:, None, :]
    p = first.p + (same * second.p[:, None, :]).sum(2)
    rest = second.p * ~(same & (first.p > 0)[:, :, None]).any(1)
    p = np.where(first.p > 0, p, 0)
    return Slots(np.concatenate([p, rest], 1) / 2, np.concatenate([first.classes, second.classes], 1))


def probability(slots: Slots, labels: Codes) -> Floats:
    """Of the label."""
    if slots.classes is None:
        found: Floats = slots.p[np.arange(len(labels)), labels]
        return found
    total: Floats = (slots.p * (slots.classes == labels[:, None])).sum(1)
    return total
