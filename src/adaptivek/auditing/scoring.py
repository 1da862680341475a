"""From held-out predictions to scores, flagged rows, the transition matrix and warnings.

The score of a row is the probability of its label in the ranking. As many rows are flagged as the noise ratio says:
first those whose label is contradicted there with the confidence that is usual in the predicted class, then the others,
the lowest score first. By the score alone, where much of one class is labelled as another, the rest of this class would
look noisier than the noisy rows. Noise per class and the matrix are counted from the flagged rows. So all of these
agree with each other.

The cleaned data keeps flagged rows of which only the frequency of the classes speaks against the label. A row of a rare
class that is hard to tell looks like one of a frequent class, noisy or not. Without such rows a model learns the rare
class worse, whoever was right about some of them. So the input itself must favour another class: it must raise the
odds of that class over the label, from what they are among all labels, by a factor of two or more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .duplicates import Alike
from .noise_estimate import NoiseEstimate, confident_contradictions
from .noise_floor import NoiseRatio
from .predictions import Codes, Floats, Predictions, best_other, label_probability
from .trusted import Known, ratio_from_known

LEARNED = 0.1  #: of the way from guessing to always right, on average over the classes: less is nothing
MOST_NOISE = 0.7  #: of the noise that would leave nothing to learn
FEW_ROWS = 10  #: of a class about which little can be said
MOST_CLASSES = 50  #: that are looked at to see whether anything was learned, the largest ones
KEPT, FEWEST_KEPT = 1 / 3, 5  #: share of a class that is never flagged, and rows of it
AGAINST = 2.0  #: by which the input raises the odds of another class, in rows that the cleaned data leaves out
DOUBTFUL = 0.01  #: by which a score is multiplied where an alike row speaks against the label


class Scores(NamedTuple):
    """What an audit estimates of the labels."""

    score: NDArray[np.float32]
    is_issue: NDArray[np.bool_]
    removed: NDArray[np.bool_]  #: flagged rows that the cleaned data leaves out
    suggested: Codes
    other: Codes  #: the most probable class besides the label
    other_probability: NDArray[np.float32]
    loss: NDArray[np.float32]
    loss_cut: float
    transition: Floats
    noise_per_class: Floats
    ratio: NoiseRatio
    accuracy: float
    warnings: list[str]
    notes: list[str]


def score_labels(
    held_out: Predictions,
    labels: Codes,
    classes: list[str],
    noise: NoiseEstimate,
    ranking: Predictions | None = None,
    same: Alike | None = None,
    advice: str = "",
    known: Known | None = None,
    seed: int = 0,
    some: tuple[Predictions, Codes] | None = None,
) -> Scores:
    """The score comes from the ranking, what is said of the model from the held-out predictions.

    Args:
        held_out: by models that have not seen the row.
        labels: the observed labels.
        classes: their names.
        noise: how much of them is noisy.
        ranking: predictions by which rows are ranked; by default the held-out ones.
        same: rows that are alike and have different labels.
        advice: added to the warning that nothing was learned.
        known: labels that are trusted, or that a person has decided on; they are not flagged, and tell of the noise.
        seed: of the interval that they give.
        some: of some rows predictions of all classes, and labels, to judge the model by; where ``held_out`` has few.
    """
    ranking = held_out if ranking is None else ranking
    probability = label_probability(ranking, labels)
    score = probability if same is None else np.where(same.outvoted, DOUBTFUL * probability, probability)
    ratio, notes, doubts = noise.ratio, [noise.assumption], []
    if known is not None:
        told = ratio_from_known(held_out, labels, known, ratio, len(classes), seed)
        if told is not None:
            ratio, notes, doubts = told.ratio, [told.assumption], [*filter(None, [told.warning])]
        score = np.where(known.trusted, 1.0, score)
    if same is not None:  # of labels that contradict each other all but one are noisy
        share = float(same.outvoted.mean())
        ratio = NoiseRatio(*(max(share, value) for value in ratio))
    first = confident_contradictions(ranking, labels, len(classes))
    first = first if same is None else first | same.outvoted
    first = first if known is None else first & ~known.trusted
    is_issue, kept = flagged(score, labels, len(classes), round(ratio.ratio * len(labels)), first)
    other, likely = best_other(ranking, labels)
    suggested = np.where(is_issue, other, labels)
    loss = -np.log(np.maximum(probability, 1e-6)).astype(np.float32)
    counts = np.bincount(labels, minlength=len(classes))
    if kept.any():
        names = ", ".join(classes[code] for code in np.flatnonzero(kept)[:10])
        notes.append(f"Rows of these classes are kept though they look noisy, or too few would be left: {names}.")
    removed = is_issue & speaks_against(ranking, labels, len(classes))
    removed = removed if same is None else removed | (is_issue & same.outvoted)
    stay = int(is_issue.sum() - removed.sum())
    if stay:
        notes.append(
            f"{stay:,} of the flagged rows stay in the cleaned data: their input hardly speaks against the label. "
            "They are worth a look."
        )
    if same is not None and same.outvoted.any():
        notes.append(
            f"{(same.place >= 0).sum():,} rows have the same content as another row with a different label; "
            f"{same.outvoted.sum():,} of these labels must be noisy, and come first."
        )
    return Scores(
        score=score.astype(np.float32),
        is_issue=is_issue,
        removed=removed,
        suggested=suggested,
        other=other,
        other_probability=likely.astype(np.float32),
        loss=loss,
        loss_cut=float(np.quantile(loss, 1 - is_issue.mean())) if is_issue.any() else float("nan"),
        transition=transition(labels, suggested, len(classes)),
        noise_per_class=np.bincount(labels, is_issue, len(classes)) / np.maximum(counts, 1),
        ratio=ratio,
        accuracy=float((held_out.predicted() == labels).mean()),
        warnings=doubts + warnings(*(some or (held_out, labels)), classes, ratio.ratio, advice),
        notes=notes,
    )


def flagged(
    score: Floats, labels: Codes, classes: int, number: int, first: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """So many rows, these first and the lowest score first, but of no class nearly all.

    The second answer is of which classes some were kept for that.
    """
    counts = np.bincount(labels, minlength=classes)
    most = np.maximum(0, counts - np.maximum(np.ceil(KEPT * counts), FEWEST_KEPT).astype(np.int64))
    order = np.lexsort((score, ~first))
    by_class = order[np.argsort(labels[order], kind="stable")]
    rank = np.empty(len(labels), np.int64)  # of a row among those of its label
    rank[by_class] = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    allowed = rank < most[labels]
    found = np.zeros(len(labels), bool)
    found[order[allowed[order]][:number]] = True
    passed = np.zeros(len(labels), bool)
    passed[order[:number]] = True
    return found, np.bincount(labels[passed & ~allowed], minlength=classes) > 0


def speaks_against(ranking: Predictions, labels: Codes, classes: int) -> NDArray[np.bool_]:
    """Where the input favours another class over the label, whatever the frequency of both."""
    frequency = np.maximum(np.bincount(labels, minlength=classes), 1) / len(labels)
    candidates = np.arange(classes)[None] if ranking.classes is None else ranking.classes
    favour = np.where(candidates == labels[:, None], 0.0, ranking.p / frequency[candidates]).max(1)
    found: NDArray[np.bool_] = favour >= AGAINST * label_probability(ranking, labels) / frequency[labels]
    return found


def transition(labels: Codes, true: Codes, classes: int) -> Floats:
    """(K, K) [true, observed] share of the rows of a true class with this label."""
    counts = np.bincount(true * classes + labels, minlength=classes**2).reshape(classes, classes)
    counts = counts + np.diag(counts.sum(1) == 0)
    found: Floats = counts / counts.sum(1, keepdims=True)
    return found


def warnings(held_out: Predictions, labels: Codes, classes: list[str], ratio: float, advice: str = "") -> list[str]:
    """Why not to trust the audit; nothing if there is no reason."""
    found = []
    reached = learned(held_out, labels, len(classes))
    if reached < LEARNED:
        found.append(
            f"The audit is not to be trusted: the model has learned next to nothing. Of two rows it has not seen, one "
            f"labelled with a class and one not, it finds the class more probable in the first in "
            f"{(1 + reached) / 2:.0%} of the cases; by guessing 50%. Either the inputs say nothing about the labels, "
            "or the model does not suit them, or rows are too few." + advice
        )
    elif ratio > MOST_NOISE * (1 - 1 / len(classes)):
        found.append("So many labels look noisy that the estimate may be far off.")
    counts = np.bincount(labels, minlength=len(classes))
    rare = [name for name, count in zip(classes, counts, strict=True) if count < FEW_ROWS]
    if rare:
        found.append(
            f"Little can be said about classes with fewer than {FEW_ROWS} rows: {', '.join(rare[:10])}"
            + (f" and {len(rare) - 10} more." if len(rare) > 10 else ".")
        )
    return found


def learned(held_out: Predictions, labels: Codes, classes: int) -> float:
    """0: guessing, 1: always right. By ranks, so that a rare class that is never the most probable counts too."""
    from scipy.stats import rankdata

    counts = np.bincount(labels, minlength=classes)
    areas = []
    for code in np.argsort(-counts, kind="stable")[:MOST_CLASSES]:
        mine = labels == code
        if counts[code] and not mine.all():
            ranks = rankdata(label_probability(held_out, np.full(len(labels), code)))
            above = ranks[mine].sum() - counts[code] * (counts[code] + 1) / 2
            areas.append(above / (counts[code] * (len(labels) - counts[code])))
    return float(2 * np.mean(areas) - 1)
