"""The classifier as scikit-learn's own checks, and the people who use its tools, see it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_blobs
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import adaptivek
from adaptivek.integrations.sklearn import NoisyLabelClassifier
from adaptivek.method import outputs
from adaptivek.methods import METHODS

QUICK = {"hidden": (32,), "epochs": 10, "warmup_epochs": 5, "random_state": 0}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")  # of checks for other array libraries
@parametrize_with_checks([NoisyLabelClassifier(**QUICK)])
def test_the_public_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def noisy() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three clusters, a quarter of the labels noisy: rows, the observed labels, the true classes."""
    x, y = make_blobs(240, n_features=5, centers=3, cluster_std=2.0, random_state=1)
    rng = np.random.default_rng(0)
    observed = np.where(rng.random(240) < 0.25, (y + rng.integers(1, 3, 240)) % 3, y)
    return StandardScaler().fit_transform(x), observed, y


def test_label_quality_finds_the_noisy_labels_row_by_row(noisy):
    x, observed, y = noisy
    model = NoisyLabelClassifier(random_state=0).fit(x, observed)
    assert model.label_quality_.shape == (240,)
    assert model.label_quality_.min() >= 0
    assert model.label_quality_.max() <= 1
    assert roc_auc_score(observed == y, model.label_quality_) > 0.97
    assert abs(model.noise_ratio_ - (observed != y).mean()) < 0.05
    assert model.score(x, y) > 0.97
    order = np.random.default_rng(1).permutation(240)
    again = NoisyLabelClassifier(random_state=0).fit(x[order], observed[order])
    assert np.corrcoef(again.label_quality_, model.label_quality_[order])[0, 1] > 0.97  # quality follows its row


def test_two_stages_begin_with_predictions_of_rows_not_seen(noisy, monkeypatch):
    x, observed, y = noisy
    started: list[torch.Tensor | None] = []
    criterion = adaptivek.Selection

    def spy(*given, start=None, **options):
        started.append(start)
        return criterion(*given, start=start, **options)

    monkeypatch.setattr("adaptivek.integrations.sklearn.Selection", spy)
    model = NoisyLabelClassifier(random_state=0, stages=2, epochs=20).fit(x, observed)
    assert [start is None for start in started] == [True, True, False]
    assert (started[2].argmax(1).numpy() == y).mean() > 0.95
    assert model.score(x, y) > 0.97
    with pytest.raises(ValueError, match="must remember predictions for stages=2"):
        NoisyLabelClassifier("adaptive-k", stages=2).fit(x, observed)
    with pytest.raises(ValueError, match=r"stages must be a whole number in \[1, 2\]"):
        NoisyLabelClassifier(stages=3).fit(x, observed)


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if not method.privileged])
def test_every_method_that_needs_no_truth(method, noisy):
    x, observed, _ = noisy
    kind = METHODS[method]
    if outputs(kind) > 1 or kind.full_pass == "features" or kind.mixing or kind.freezes:
        with pytest.raises(ValueError, match="must do with one network, trained plainly on one view, and no features"):
            NoisyLabelClassifier(method).fit(x, observed)
        return
    model = NoisyLabelClassifier(method, hidden=(8,), epochs=3, warmup_epochs=1, random_state=0).fit(x, observed)
    assert model.predict_proba(x).shape == (240, 3)
    if method in (
        "label-agreement",
        "label-posterior",
    ):  # of a network that has much to learn three epochs tell nothing
        assert np.isnan(model.noise_ratio_)
    else:
        assert 0 <= model.noise_ratio_ < 1


def test_tables_with_names_in_pipelines_and_searches(noisy):
    x, observed, _ = noisy
    table = pd.DataFrame(x, columns=[f"column {i}" for i in range(5)])
    labels = pd.Series(np.array(["a", "b", "c"])[observed])
    quick = NoisyLabelClassifier(hidden=(8,), epochs=3, warmup_epochs=1, random_state=0)
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), quick).fit(table, labels)
    assert list(pipeline[-1].feature_names_in_) == list(table.columns)
    assert pipeline[-1].n_features_in_ == 5
    assert list(pipeline.classes_) == ["a", "b", "c"]
    assert set(pipeline.predict(table)) <= {"a", "b", "c"}
    np.testing.assert_allclose(pipeline.predict_proba(table).sum(1), 1)
    assert len(cross_val_score(pipeline, table, labels, cv=3)) == 3
    grid = {"noisylabelclassifier__method": ["vanilla", adaptivek.MKL(0.7)]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(table, labels)
    assert search.best_params_["noisylabelclassifier__method"] in ("vanilla", adaptivek.MKL(0.7))


def test_the_same_seed_gives_the_same_and_leaves_the_callers_randomness_alone(noisy):
    x, observed, _ = noisy
    torch.manual_seed(5)
    before = torch.get_rng_state()
    models = (NoisyLabelClassifier(**(QUICK | {"random_state": seed})) for seed in (0, 0, 1))
    one, other, third = (model.fit(x, observed) for model in models)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(one.label_quality_, other.label_quality_)
    assert (one.label_quality_ != third.label_quality_).any()


def test_a_network_of_ones_own(noisy):
    x, observed, _ = noisy

    def network(features: int, classes: int) -> nn.Module:
        return nn.Linear(features, classes)

    model = NoisyLabelClassifier(module=network, epochs=2, warmup_epochs=1).fit(x, observed)
    assert isinstance(model.module_, nn.Linear)
    narrow = NoisyLabelClassifier(module=lambda features, classes: nn.Linear(features, 2))
    with pytest.raises(ValueError, match="labels must be from 0 to 1, or -100 for what does not count; got 2"):
        narrow.fit(x, observed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "NoisyLabelClassifier: epochs must be a whole number of at least 1, got 0"),
        ({"warmup_epochs": -1}, "NoisyLabelClassifier: warmup_epochs must be a whole number of at least 0, got -1"),
        ({"batch_size": 2.5}, "NoisyLabelClassifier: batch_size must be a whole number of at least 1, got 2.5"),
        ({"learning_rate": 0}, "NoisyLabelClassifier: learning_rate must be a number above 0, got 0"),
        ({"dropout": 1}, r"NoisyLabelClassifier: dropout must be a number in \[0, 1\), got 1"),
        ({"hidden": (0,)}, "NoisyLabelClassifier: hidden must be a whole number of at least 1, got 0"),
        ({"method": "oracle"}, "method must be a method that needs no truth, or its name, got 'oracle'"),
        ({"method": "best"}, "method must be one of"),
    ],
)
def test_bad_parameters_are_named_in_fit(options, message, noisy):
    x, observed, _ = noisy
    model = NoisyLabelClassifier(**options)  # scikit-learn wants no check here
    with pytest.raises(ValueError, match=message):
        model.fit(x, observed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: (x[:-1], y), "inconsistent numbers of samples"),
        (lambda x, y: (x[:, 0], y), "Expected 2D array"),
        (lambda x, y: (x, y + 0.5), "Unknown label type: continuous"),
        (lambda x, y: (np.where(x > 1, np.nan, x), y), "Input X contains NaN"),
    ],
)
def test_bad_data_is_named_in_fit(change, message, noisy):
    x, observed, _ = noisy
    with pytest.raises(ValueError, match=message):
        NoisyLabelClassifier(**QUICK).fit(*change(x, observed))
