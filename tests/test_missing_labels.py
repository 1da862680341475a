"""One rule for what is no label."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import adaptivek
from adaptivek.support.labels import is_missing


@pytest.mark.parametrize("value", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, "", "  ", "\n"])
def test_nothing_and_blank_text_are_no_label(value):
    assert is_missing(value)
    assert is_missing(value, class_codes=True)


@pytest.mark.parametrize("value", [0, 1, "a", " a", "nan", "<NA>", False, 0.0, np.int64(3)])
def test_whatever_has_a_value_is_a_label(value):
    assert not is_missing(value)
    assert not is_missing(value, class_codes=True)


def test_minus_one_is_no_label_among_class_codes():
    assert is_missing(-1, class_codes=True)
    assert not is_missing(-1)


def test_the_audit_skips_labels_that_pandas_marks_as_missing():
    labels = pd.array([0] * 20 + [1] * 19 + [None], dtype="Int64")
    found = adaptivek.audit(pd.DataFrame({"x": np.arange(40.0), "y": labels}), "y", epochs=2)
    assert found.skipped == [(39, "no label")]
