"""From the training dynamics to scores, flagged rows and warnings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .dynamics import Dynamics
from .noise_estimate import NoiseEstimate, estimate_noise
from .noise_floor import NoiseRatio
from .predictions import Codes, Floats, Predictions, label_probability, mean_prediction
from .transition import NoiseModel, fit, for_ranking, posterior

LEARNED = 0.1  #: of the way from guessing to always right, on average over the classes: less is nothing
MOST_NOISE = 0.7  #: of the noise that would leave nothing to learn
FEW_ROWS = 10  #: of a class about which little can be said


class Scores(NamedTuple):
    """What an audit estimates of the labels."""

    score: NDArray[np.float32]
    is_issue: NDArray[np.bool_]
    suggested: Codes
    loss: NDArray[np.float32]
    loss_cut: float
    model: NoiseModel
    noise_per_class: Floats
    ratio: NoiseRatio
    accuracy: float
    warnings: list[str]
    ranking: NoiseModel  #: that of the scores
    instance_dependent: bool


def score_labels(
    dynamics: Dynamics,
    labels: Codes,
    classes: list[str],
    seed: int = 0,
    advice: str = "",
    noise: NoiseEstimate | None = None,
) -> Scores:
    """The noise model and the ratio come from held-out predictions; the score from both networks.

    Args:
        dynamics: what was recorded while training.
        labels: the observed labels.
        classes: their names.
        seed: of the rows that the noise model is fitted to, where there are very many.
        advice: added to the warning that nothing was learned.
        noise: the estimate of half-way, if the networks have trained on label posteriors since: they then agree on more
            than they know.
    """
    held_out, in_sample = Predictions(*dynamics.held_out.tables()), Predictions(*dynamics.in_sample.tables())
    predicted = held_out.predicted()
    found = estimate_noise(held_out, in_sample, labels, len(classes)) if noise is None else noise
    ratio = found.ratio.ratio
    model = fit(held_out, labels, len(classes), ratio, seed)
    noisy = 1 - posterior(held_out, labels, model).clean
    both = mean_prediction(held_out, in_sample)
    ranking = for_ranking(model, found.instance_dependent)
    score, best_other = posterior(both, labels, ranking)
    number = round(ratio * len(labels))
    is_issue = np.zeros(len(labels), bool)
    is_issue[np.argsort(score, kind="stable")[:number]] = True
    loss = -np.log(np.maximum(label_probability(both, labels), 1e-6)).astype(np.float32)
    threshold = float(np.quantile(loss, 1 - ratio)) if number else float("nan")
    counts = np.bincount(labels, minlength=len(classes))
    per_class = np.bincount(labels, noisy, len(classes)) / np.maximum(counts, 1)
    return Scores(
        score=score.astype(np.float32),
        is_issue=is_issue,
        suggested=np.where(is_issue, best_other, labels),
        loss=loss,
        loss_cut=threshold,
        model=model,
        noise_per_class=per_class,
        ratio=found.ratio,
        accuracy=float((predicted == labels).mean()),
        warnings=warnings(predicted, labels, classes, ratio, found.instance_dependent, advice),
        ranking=ranking,
        instance_dependent=found.instance_dependent,
    )


def warnings(
    predicted: Codes,
    labels: Codes,
    classes: list[str],
    ratio: float,
    instance_dependent: bool = False,
    advice: str = "",
) -> list[str]:
    """Why not to trust the audit; nothing if there is no reason."""
    counts = np.bincount(labels, minlength=len(classes))
    recall = np.bincount(labels, predicted == labels, len(classes)) / np.maximum(counts, 1)
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
        found.append("So many labels look noisy that the estimate may be far off.")
    if instance_dependent:
        found.append(
            "Hard rows seem to be mislabelled more often than easy ones, or classes overlap: of the noise ratio no "
            "more is known than its interval."
        )
    rare = [name for name, count in zip(classes, counts, strict=True) if count < FEW_ROWS]
    if rare:
        found.append(
            f"Little can be said about classes with fewer than {FEW_ROWS} rows: {', '.join(rare[:10])}"
            + (f" and {len(rare) - 10} more." if len(rare) > 10 else ".")
        )
    return found
