"""Extremely randomised trees that say what they think of rows they have not seen, and can be told anew.

Each tree is grown on at most half of the rows, so that of every row about half of the trees or more know nothing. A
tree is two things: the questions it asks, and what the rows that end in a leaf say. A fit without some of the labels
keeps the questions, which are random but for the choice among a few, and counts the leaves anew: that is two products
of matrices, where growing all trees a second time would take as long as the first time.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..support.streams import stream
from ..support.threads import in_threads
from .predictions import Codes

Mask = NDArray[np.bool_]
Shares = NDArray[np.float32]
Leaves = NDArray[np.int32]

LEAST_ROWS = 3  #: of a leaf
BLOCK = 10_000  #: rows that are asked for at once


class Forest:
    """A forest of ``trees``, each grown on at most ``rows`` rows, with the methods of a model of scikit-learn."""

    def __init__(self, trees: int = 150, rows: int = 5_000, seed: int = 0) -> None:
        self.trees, self.rows, self.seed = trees, rows, seed

    def __sklearn_clone__(self) -> Forest:
        return Forest(self.trees, self.rows, self.seed)

    def fit(self, x: NDArray[Any], y: Codes) -> Forest:
        from sklearn.tree import ExtraTreeClassifier

        self.x_, self.y_ = x, y
        self.classes_, self.codes_ = np.unique(y, return_inverse=True)
        numbers = np.ascontiguousarray(x, np.float32)
        each, rng = max(1, min(self.rows, len(y) // 2)), stream(self.seed, "audit forest")
        self.seen_ = [rng.choice(len(y), each, replace=False, shuffle=False) for _ in range(self.trees)]

        def grow(tree: int) -> Any:
            drawn = (self.seed + tree) % 2**32
            model = ExtraTreeClassifier(max_features="sqrt", min_samples_leaf=LEAST_ROWS, random_state=drawn)
            rows = self.seen_[tree]
            return model.fit(numbers[rows], self.codes_[rows], check_input=False).tree_

        self.grown_ = list(in_threads(grow, range(self.trees)))
        self.first_ = np.cumsum([0, *(tree.node_count for tree in self.grown_)])  # the number of a tree's first node
        self.leaves_ = self._leaves(numbers)
        self.shares_ = self._shares(np.ones(len(y), bool))
        return self

    def is_of(self, x: NDArray[Any], y: Codes) -> bool:
        """Whether it was grown on just these rows."""
        return getattr(self, "x_", None) is x and np.array_equal(self.y_, y)

    def held_out(self, taught: Mask) -> Shares:
        """(rows, classes) by trees that were grown without the row; leaves count only labels that are taught."""
        unseen = np.ones((len(self.y_), self.trees), np.float32)
        for tree, rows in enumerate(self.seen_):
            unseen[rows, tree] = 0
        return self._mean(self.leaves_, self.shares_ if taught.all() else self._shares(taught), unseen)

    def predict_proba(self, x: NDArray[Any]) -> Shares:
        leaves = self._leaves(np.ascontiguousarray(x, np.float32))
        return self._mean(leaves, self.shares_, np.ones((len(x), self.trees), np.float32))

    def _leaves(self, x: NDArray[np.float32]) -> Leaves:
        """(rows, trees) numbers of nodes, over all trees."""
        found = np.empty((len(x), self.trees), np.int32)

        def end(tree: int) -> None:
            found[:, tree] = self.grown_[tree].apply(x) + self.first_[tree]

        deque(in_threads(end, range(self.trees)), maxlen=0)
        return found

    def _shares(self, taught: Mask) -> Shares:
        """(nodes, classes) of the rows that grew the tree; zeros where no label is left."""
        classes, nodes = len(self.classes_), int(self.first_[-1])
        counts = np.zeros((nodes, classes), np.float32)
        for tree, rows in enumerate(self.seen_):
            left, first, end = rows[taught[rows]], self.first_[tree], self.first_[tree + 1]
            place = (self.leaves_[left, tree] - first) * classes + self.codes_[left]
            counts[first:end] = np.bincount(place, minlength=(end - first) * classes).reshape(-1, classes)
        counts /= np.maximum(counts.sum(1, keepdims=True), 1)
        return counts

    def _mean(self, leaves: Leaves, shares: Shares, asked: Shares) -> Shares:
        """Over the trees that are asked, with a weight for each row and tree."""
        from scipy.sparse import csr_matrix

        found = np.empty((len(leaves), shares.shape[1]), np.float32)
        for start in range(0, len(leaves), BLOCK):
            part = slice(start, start + BLOCK)
            ends = np.arange(leaves[part].size + 1, step=self.trees)
            found[part] = (
                csr_matrix((asked[part].ravel(), leaves[part].ravel(), ends), (len(ends) - 1, len(shares))) @ shares
            )
        return np.asarray(found / np.maximum(found.sum(1, keepdims=True), 1e-9))
