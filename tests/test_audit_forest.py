"""The forest of the audit: predictions of rows that a tree has not seen, and leaves that are counted anew."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import log_loss

from adaptivek.auditing.forest import Forest


def wine() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_wine(return_X_y=True)
    return x.astype(np.float32), y


def slowly_held_out(forest: Forest, x: np.ndarray, y: np.ndarray, taught: np.ndarray) -> np.ndarray:
    """Row by row and tree by tree, from the words of the rule."""
    found = np.zeros((len(y), 3))
    for row in range(len(y)):
        for tree, seen in zip(forest.grown_, forest.seen_, strict=True):
            if row in seen:
                continue
            leaves = tree.apply(x)
            left = [other for other in seen if taught[other] and leaves[other] == leaves[row]]
            for other in left:
                found[row, y[other]] += 1 / len(left)
    return found / found.sum(1, keepdims=True)


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_leaves_count_the_labels_that_are_taught_and_rows_are_judged_by_trees_without_them(share):
    x, y = wine()
    forest = Forest(trees=12, rows=60, seed=3).fit(x, y)
    taught = np.random.default_rng(0).random(len(y)) < share
    np.testing.assert_allclose(forest.held_out(taught), slowly_held_out(forest, x, y, taught), atol=1e-6)
    assert all(len(seen) == len(set(seen)) == 60 for seen in forest.seen_)


def test_the_label_of_a_row_has_no_say_in_its_own_prediction():
    x, y = wine()
    before = Forest(trees=30, rows=1_000).fit(x, y).held_out(np.ones(len(y), bool))
    for row in (0, 80, 177):
        other = y.copy()
        other[row] = (y[row] + 1) % 3
        after = Forest(trees=30, rows=1_000).fit(x, other).held_out(np.ones(len(y), bool))
        np.testing.assert_array_equal(after[row], before[row])
        assert not np.array_equal(after, before)


def test_it_predicts_about_as_well_as_the_forest_of_scikit_learn():
    x, y = wine()
    given = {"min_samples_leaf": 3, "bootstrap": True, "oob_score": True, "random_state": 0}
    theirs = ExtraTreesClassifier(200, **given).fit(x, y).oob_decision_function_
    ours = Forest(200).fit(x, y).held_out(np.ones(len(y), bool))
    assert log_loss(y, ours) == pytest.approx(log_loss(y, theirs), abs=0.05)
    assert (ours.argmax(1) == theirs.argmax(1)).mean() > 0.97


def test_other_rows_are_judged_by_all_trees_and_a_clone_knows_nothing():
    x, y = wine()
    forest = Forest(50).fit(x[::2], np.array([0, 2, 5])[y[::2]])
    assert forest.classes_.tolist() == [0, 2, 5]
    assert (forest.predict_proba(x[1::2]).argmax(1) == y[1::2]).mean() > 0.9
    assert forest.is_of(forest.x_, forest.y_.copy())
    assert not forest.is_of(forest.x_, forest.y_[::-1])
    again = clone(forest)
    assert not hasattr(again, "x_")
    np.testing.assert_array_equal(again.fit(x[::2], y[::2]).predict_proba(x), forest.predict_proba(x))
