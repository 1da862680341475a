"""Whether a few words settle the labels, as where keyword rules have made them.

A model learns a rule with its errors, and then agrees with noisy labels as surely as with clean ones: no held-out
prediction can tell. What can be seen is that there is a rule. A small tree of yes or no questions about single words
then predicts the labels nearly as well as a model of all words. Topics and opinions that people told are not like this.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..support.streams import stream
from .held_out import folds
from .predictions import Codes

WORDS, LEAVES = 1_000, 100  #: the most frequent words that the tree may ask about; how many answers it may have
ROWS = 5_000  #: more would hardly change it
NEARLY = 0.8  #: of what a model of all words learns beyond guessing
FAR = 0.6  #: less after one fold, and the others are not fitted
LEARNED = 0.1  #: a model must predict so many labels more than by guessing; else there is nothing to compare


def follows_few_words(x: Any, labels: Codes, wrong: float, seed: int = 0) -> bool:
    """Whether a small tree predicts the labels nearly as well.

    Args:
        x: (rows, words) sparse, more than 0 where a text has the word.
        labels: the observed labels.
        wrong: share of them that the model of all words does not predict.
        seed: of the rows that are taken, where there are many.
    """
    from sklearn.tree import DecisionTreeClassifier

    some = np.sort(stream(seed, "audit rules").permutation(len(labels))[:ROWS])
    labels = labels[some]
    guessing = 1 - np.bincount(labels).max() / len(labels)
    if guessing - wrong < LEARNED or x.shape[1] < 3 * LEAVES:  # of few words all models are
        return False
    frequent = np.argsort(-x.getnnz(0), kind="stable")[:WORDS]
    asked = (x[some][:, frequent] > 0).astype(np.float32).tocsr()
    missed = rows = 0
    for held_out in folds(labels, 3, seed):
        rest = np.setdiff1d(np.arange(len(labels)), held_out)
        tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES, min_samples_leaf=3, random_state=seed)
        missed += int((tree.fit(asked[rest], labels[rest]).predict(asked[held_out]) != labels[held_out]).sum())
        rows += len(held_out)
        if guessing - missed / rows < FAR * (guessing - wrong):  # the other folds will hardly mend that
            return False
    return bool(guessing - missed / rows >= NEARLY * (guessing - wrong))
