"""From what a run remembers to the result: scores, the ratio with its interval, what is flagged, what is not to be trusted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .dynamics import Dynamics
from .estimate import MOST_ROWS, Codes, Fit, Floats, Slots, fit, posterior, refit

DRAWS = 40  #: of the bootstrap
BOOTSTRAP_ROWS = 20_000  #: in a draw, at most; the spread is scaled to all rows
MODEL_ERROR = (0.005, 0.06)  #: what the estimate is off by beside chance: so much, and this share of it
LEARNED = 0.1  #: of the way from guessing to always right, on average over the classes: less is nothing
FEW_ROWS = 10  #: of a class about which little can be said


class Verdict(NamedTuple):
    score: NDArray[np.float32]
    is_issue: NDArray[np.bool_]
    suggested: Codes
    loss: NDArray[np.float32]
    loss_cut: float
    fitted: Fit
    noise_per_class: Floats
    ratio: tuple[float, float, float]  #: estimate, low, high
    accuracy: float
    warnings: list[str]


def judge(dynamics: Dynamics, labels: Codes, classes: list[str], seed: int = 0) -> Verdict:
    """The matrix and the ratio come from the network that has not seen the row; the score from both networks."""
    other, own = Slots(*dynamics.other.tables()), Slots(*dynamics.own.tables())
    fitted = fit(other, labels, len(classes), seed)
    unseen = posterior(other, labels, fitted)
    ratio = float(1 - unseen.right.mean())
    both = together(other, own)
    score, best_other = posterior(both, labels, fitted)
    number = round(ratio * len(labels))
    is_issue = np.zeros(len(labels), bool)
    is_issue[np.argsort(score, kind="stable")[:number]] = True
    loss = -np.log(np.maximum(probability(both, labels), 1e-6)).astype(np.float32)
    cut = float(np.quantile(loss, 1 - ratio)) if number else float("nan")
    wrong = 1 - unseen.right
    counts = np.bincount(labels, minlength=len(classes))
    per_class = np.bincount(labels, wrong, len(classes)) / np.maximum(counts, 1)
    guess = _highest(other)
    spread = _spread(other, labels, fitted, ratio, seed)
    return Verdict(
        score=score.astype(np.float32),
        is_issue=is_issue,
        suggested=np.where(is_issue, best_other, labels),
        loss=loss,
        loss_cut=cut,
        fitted=fitted,
        noise_per_class=per_class,
        ratio=(ratio, max(0.0, ratio - 1.96 * spread), min(1.0, ratio + 1.96 * spread)),
        accuracy=float((guess == labels).mean()),
        warnings=doubts(guess, labels, classes, ratio),
    )


def doubts(guess: Codes, labels: Codes, classes: list[str], ratio: float) -> list[str]:
    """Why not to trust the audit; nothing if there is no reason."""
    counts = np.bincount(labels, minlength=len(classes))
    recall = np.bincount(labels, guess == labels, len(classes)) / np.maximum(counts, 1)
    chance = 1 / len(classes)
    reached = (recall.mean() - chance) / (1 - chance)
    found = []
    if reached < LEARNED:
        found.append(
            f"The audit is not to be trusted: the network has learned next to nothing. It finds the label of "
            f"{recall.mean():.0%} of the rows it has not seen, on average over the classes; guessing finds {chance:.0%}. "
            "Either the inputs say nothing about the labels, or the network does not suit them, or there are too few rows."
        )
    elif ratio > 0.5 * (1 - chance) * 2 * 0.75:
        found.append("So many labels look wrong that the estimate may be far off.")
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


def _highest(slots: Slots) -> Codes:
    place: Codes = slots.p.argmax(1)
    return place if slots.classes is None else np.take_along_axis(slots.classes, place[:, None], 1)[:, 0]


def _spread(slots: Slots, labels: Codes, fitted: Fit, ratio: float, seed: int) -> float:
    """Standard deviation of the ratio: of the rows by bootstrap, and of the model by experience."""
    rng = np.random.default_rng([seed, 1])
    size = min(len(labels), BOOTSTRAP_ROWS, MOST_ROWS)
    some = rng.choice(len(labels), size, replace=False)
    part, given = slots.of(some), labels[some]
    draws = [refit(part, given, fitted, rng.poisson(1.0, size).astype(float)) for _ in range(DRAWS)]
    chance = float(np.std(draws)) * np.sqrt(size / len(labels))
    floor, share = MODEL_ERROR
    return float(np.sqrt(chance**2 + floor**2 + (share * ratio) ** 2))
