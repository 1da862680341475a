"""Several annotators: their labels together, and how often each of them errs (Dawid and Skene, 1979).

An annotator who sees a row of class k gives it label l with probability ``confusion[annotator, k, l]``, whatever the
others say. EM finds these matrices, the share of each class, and how likely each class is for each row. Annotators with
few labels would count for too much, so each matrix is drawn towards that of all annotators together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..support.labels import is_missing
from .labels import plain_label
from .noise_floor import NoiseRatio
from .predictions import Codes, Predictions

if TYPE_CHECKING:
    from .scoring import Scores

Floats = NDArray[np.float64]

PRIOR = 4.0  #: labels' worth, in each line of its matrix, by which an annotator is drawn towards all
ITERATIONS, CONVERGED = 200, 1e-6
LEAST = 1e-6  #: probability of a label that an annotator has never given
ASSUMPTION = (
    "The ratio is that of the labels on which annotators agree, by their votes and the model together; it assumes that "
    "they err independently of each other."
)
LEAST_CLASS = 1e-4  #: of a class that a network rules out: it may err


@dataclass(frozen=True)
class Votes:
    """One entry of each array for every label that was given."""

    item: Codes  #: (m,) what it is the label of: a place from 0
    annotator: Codes  #: (m,) code into names
    label: Codes  #: (m,) code into classes
    row: Codes  #: (m,) number of the row in the original data
    names: list[str]  #: of the annotators
    classes: list[Any]  #: numbers or texts, as they were given
    one_row_each: bool = False  #: whether each label has a row of its own

    def to_classes(self, classes: list[str]) -> Votes:
        """The same with codes into these classes; labels of any other class are left out."""
        code = {name: number for number, name in enumerate(classes)}
        known = np.array([code.get(str(name), -1) for name in self.classes], dtype=np.int64)[self.label]
        kept = known >= 0
        return replace(self._kept(kept), label=known[kept], classes=list(classes))

    def of(self, items: Codes) -> Votes:
        """The labels of these items, in their order."""
        place = np.full(int(max(self.item.max(initial=-1), items.max(initial=-1))) + 1, -1)
        place[items] = np.arange(len(items))
        kept = place[self.item] >= 0
        return replace(self._kept(kept), item=place[self.item[kept]])

    def _kept(self, kept: NDArray[np.bool_]) -> Votes:
        item, annotator, label, row = (each[kept] for each in (self.item, self.annotator, self.label, self.row))
        return replace(self, item=item, annotator=annotator, label=label, row=row)


class DawidSkene(NamedTuple):
    posterior: Floats  #: (items, K) how likely each class is
    confusion: Floats  #: (annotators, K, K) [true, given]
    share: Floats  #: (K,) of each class

    @property
    def error_rates(self) -> Floats:
        """(annotators,) how often each gives another label than the true one."""
        rates: Floats = 1 - np.einsum("akk,k->a", self.confusion, self.share)
        return rates


def read_votes(values: Sequence[Any], annotator: Sequence[Any], item: Codes, row: Codes) -> Votes:
    """Labels of any type, as they stand in a table; what is missing is no label."""
    plain = [None if is_missing(value) else plain_label(value) for value in values]
    given = np.array([value is not None for value in plain], dtype=bool)
    found = sorted({value for value in plain if value is not None}, key=lambda value: (isinstance(value, str), value))
    number = {value: code for code, value in enumerate(found)}
    names, who = np.unique(np.array([str(name) for name in annotator], dtype=object).astype(str), return_inverse=True)
    labels = np.array([number[value] for value in plain if value is not None], dtype=np.int64)
    return Votes(item[given], who[given], labels, row[given], names.tolist(), found)


def dawid_skene(votes: Votes, items: int, prior: float = PRIOR) -> DawidSkene:
    """EM from the shares of the votes. With ``prior`` 0 it is as it was published."""
    classes = len(votes.classes)
    posterior = np.zeros((items, classes))
    np.add.at(posterior, (votes.item, votes.label), 1.0)
    posterior = (
        posterior / np.maximum(posterior.sum(1, keepdims=True), 1) + (posterior.sum(1, keepdims=True) == 0) / classes
    )
    for _ in range(ITERATIONS):
        confusion, share = _maximised(votes, posterior, prior)
        before, posterior = (
            posterior,
            _normalised(np.log(np.maximum(share, 1e-300)) + log_likelihood(votes, confusion, items)),
        )
        if np.abs(posterior - before).max() < CONVERGED:
            break
    confusion, share = _maximised(votes, posterior, prior)
    return DawidSkene(posterior, confusion, share)


def _maximised(votes: Votes, posterior: Floats, prior: float) -> tuple[Floats, Floats]:
    """The matrices and the shares under which these posteriors are most likely."""
    classes = len(votes.classes)
    counts = np.zeros((len(votes.names), classes, classes))  # [annotator, given, true]
    np.add.at(counts, (votes.annotator, votes.label), posterior[votes.item])
    counts = counts.transpose(0, 2, 1)
    all_of_them = counts.sum(0)
    together = all_of_them / np.maximum(all_of_them.sum(1, keepdims=True), 1e-300)
    counts = counts + prior * together
    confusion = counts / np.maximum(counts.sum(2, keepdims=True), 1e-300)
    return confusion, posterior.mean(0)


def log_likelihood(votes: Votes, confusion: Floats, items: int) -> Floats:
    """(items, K) of the labels that each item was given, for each class it might be of."""
    total = np.zeros((items, confusion.shape[1]))
    np.add.at(total, votes.item, np.log(np.maximum(confusion, LEAST))[votes.annotator, :, votes.label])
    return total


def with_network(votes: Votes, confusion: Floats, held_out: Predictions, items: int) -> Floats:
    """(items, K) how likely each class is, from the annotators and from a network that has not seen the row."""
    classes = len(votes.classes)
    p = np.zeros((items, classes))
    if held_out.classes is None:
        p += held_out.p
    else:
        np.add.at(p, (np.arange(items)[:, None], held_out.classes), held_out.p)
    return _normalised(np.log(np.maximum(p, LEAST_CLASS)) + log_likelihood(votes, confusion, items))


def scores_with_votes(
    scores: Scores, labels: Codes, posterior: Floats, alone: Floats, trusted: NDArray[np.bool_] | None
) -> Scores:
    """Scores, flagged rows and ratio by what annotators and model say together.

    Args:
        scores: by the model.
        labels: what the annotators say together.
        posterior: (n, K) how likely each class is by annotators and model.
        alone: the same by the annotators alone.
        trusted: (n,) rows whose label is known to be clean.
    """
    from .scoring import transition

    places, classes = np.arange(len(labels)), posterior.shape[1]
    score, rest = posterior[places, labels], posterior.copy()
    rest[places, labels] = -1
    other, likely = rest.argmax(1), rest.max(1)
    doubt = 1 - alone[places, labels]
    if trusted is not None:
        score, likely, doubt = (np.where(trusted, value, of) for value, of in ((1, score), (0, likely), (0, doubt)))
    is_issue = likely > score
    suggested = np.where(is_issue, other, labels)
    both = [float(1 - score.mean()), float(doubt.mean())]
    error = 2 * (max(both) * (1 - max(both)) / len(labels)) ** 0.5
    return scores._replace(
        score=score.astype(np.float32),
        is_issue=is_issue,
        removed=is_issue,
        suggested=suggested,
        other=other,
        other_probability=likely.astype(np.float32),
        loss_cut=float(np.quantile(scores.loss, 1 - is_issue.mean())) if is_issue.any() else float("nan"),
        transition=transition(labels, suggested, classes),
        noise_per_class=np.bincount(labels, is_issue, classes) / np.maximum(np.bincount(labels, minlength=classes), 1),
        ratio=NoiseRatio(both[0], max(0.0, min(both) - error), min(1.0, max(both) + error)),
        notes=[ASSUMPTION],
    )


def _normalised(log_p: Floats) -> Floats:
    p = np.exp(log_p - log_p.max(1, keepdims=True))
    return np.asarray(p / p.sum(1, keepdims=True))
