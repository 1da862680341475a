"""Which flagged rows the cleaned data leaves out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

import adaptivek
from adaptivek.auditing.predictions import Predictions
from adaptivek.auditing.scoring import speaks_against


def slowly(p: np.ndarray, labels: np.ndarray) -> list[bool]:
    """Row by row: the odds of some other class over the label, beside the same odds among all labels."""
    found = []
    for row, label in enumerate(labels):
        raised = []
        for other in range(p.shape[1]):
            if other != label:
                among_all = max(1, (labels == other).sum()) / (labels == label).sum()
                raised.append(p[row, other] / p[row, label] / among_all)
        found.append(max(raised) >= 2)
    return found


def test_the_input_must_speak_against_a_label_whatever_the_frequency_of_classes():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([4, 1, 0.3, 0.1], 300) + 1e-6
    labels = rng.choice(4, 300, p=[0.7, 0.2, 0.09, 0.01])
    found = speaks_against(Predictions(p, None), labels, 4)
    assert found.tolist() == slowly(p, labels)
    assert 0 < found.sum() < 300
    order = rng.permuted(np.tile(np.arange(4), (300, 1)), axis=1)  # the same by classes in any order
    few = Predictions(np.take_along_axis(p, order, 1), order)
    np.testing.assert_array_equal(speaks_against(few, labels, 4), found)
    even = np.arange(300) % 4  # of equally frequent classes it is the odds alone
    rest = np.where(np.eye(4)[even] > 0, 0, p).max(1)
    np.testing.assert_array_equal(speaks_against(Predictions(p, None), even, 4), rest >= 2 * p[np.arange(300), even])


@pytest.mark.parametrize("seed", range(2))
def test_hard_rows_of_a_rare_class_stay_and_a_model_learns_it_as_well_as_before(seed):
    rng = np.random.default_rng(seed)

    def drawn(rows: int) -> tuple[np.ndarray, np.ndarray]:
        y = (rng.random(rows) < 0.12).astype(np.int64)
        return rng.standard_normal((rows, 5)) + 1.2 * y[:, None] * [1, 1, 0, 0, 0], y

    x, y = drawn(1_500)
    result = adaptivek.audit(x, y)
    assert result.removed[y == 1].sum() < result.is_issue[y == 1].sum()
    assert not (result.removed & ~result.is_issue).any()
    assert any("of the flagged rows stay in the cleaned data" in note for note in result.notes)
    test_x, test_y = drawn(5_000)
    reached = [
        balanced_accuracy_score(test_y, LogisticRegression().fit(x[kept], y[kept]).predict(test_x))
        for kept in (np.ones(1_500, bool), ~result.removed)
    ]
    assert reached[1] > reached[0] - 0.01
