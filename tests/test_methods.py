"""Each method, step by step, against its slow transcription; and against answers known in advance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import adaptivek
from adaptivek.methods import METHODS, build

from .reference import REFERENCES, after
from .reference.adaptive_k import adaptive_k_thresholds


def test_every_method_has_a_reference():
    assert {text.partition(":")[0] for text in REFERENCES} == set(METHODS)


@pytest.mark.parametrize("text", REFERENCES)
@pytest.mark.parametrize("warmup", [0, 3])
def test_selects_what_the_reference_selects(text, warmup):
    rng = np.random.default_rng(7)
    steps, size, rows = 60, 16, 400
    # losses that fall, spread widely, and straddle the threshold: 0.6 to 6 for "paper"
    batches = [rng.gamma(1.0, 4.0 / (1 + t / 10), size).astype(np.float32) for t in range(steps)]
    index = [rng.choice(rows, size, replace=False) for _ in range(steps)]
    clean = rng.random(rows) < 0.6
    rule, options = REFERENCES[text]
    if text == "oracle":
        options = {"clean": [clean[i] for i in index[warmup:]]}
    expected = after(warmup, rule, batches, **options)

    privileged = {"clean": torch.from_numpy(clean)} if text == "oracle" else {}
    criterion = adaptivek.Selection(text, warmup=warmup, **privileged)
    partial = 0
    for batch, rows_of_batch, keep in zip(batches, index, expected, strict=True):
        losses = torch.from_numpy(batch).requires_grad_()
        loss = criterion.reduce(losses, index=torch.from_numpy(rows_of_batch))
        loss.backward()
        assert criterion.kept.tolist() == keep
        kept = batch[keep].astype(np.float64)
        np.testing.assert_allclose(loss.item(), kept.mean() if len(kept) else 0.0, rtol=1e-6)
        np.testing.assert_allclose(losses.grad, np.array(keep) / max(sum(keep), 1), rtol=1e-6)
        partial += 0 < sum(keep) < size
    if text != "vanilla":  # a reference that keeps all or nothing would prove little
        assert partial > steps / 4


@pytest.mark.parametrize("threshold", ["paper", "mean"])
def test_threshold_follows_the_reference(threshold):
    rng = np.random.default_rng(1)
    batches = [rng.exponential(1 + 5 / (t + 1), 10) for t in range(300)]
    criterion = adaptivek.Selection(adaptivek.AdaptiveK(threshold=threshold), warmup=0)
    found = []
    for batch in batches:
        criterion.reduce(torch.tensor(batch))
        found.append(criterion.threshold)
    np.testing.assert_allclose(found, adaptive_k_thresholds(batches, threshold), rtol=2e-5)


@pytest.mark.parametrize(("step", "value"), [(1, 3.16), (12, 6.57), (500, 1.59), (1000, 1.26)])
def test_published_threshold_is_a_pure_number(step, value):
    """With a constant batch mean it is (1 - b1^t) / sqrt(1 - b2^t), whatever the unit of the loss."""
    for scale in (0.1, 1.0, 50.0):
        criterion = adaptivek.Selection(adaptivek.AdaptiveK(), warmup=0)
        for _ in range(step):
            criterion.reduce(torch.tensor([0.5, 1.5]) * scale)
        assert criterion.threshold == pytest.approx((1 - 0.9**step) / (1 - 0.999**step) ** 0.5, rel=1e-4)
        assert criterion.threshold == pytest.approx(value, abs=0.005)


def test_mean_threshold_is_in_the_unit_of_the_loss():
    for scale in (0.1, 50.0):
        criterion = adaptivek.Selection(adaptivek.AdaptiveK(threshold="mean"), warmup=0)
        for _ in range(5):
            criterion.reduce(torch.tensor([0.5, 1.0, 3.0]) * scale)
        assert criterion.threshold == pytest.approx(1.5 * scale, rel=1e-5)
        assert criterion.kept.tolist() == [True, True, False]


def test_a_loss_equal_to_the_threshold_is_kept():
    criterion = adaptivek.Selection(adaptivek.AdaptiveK(threshold="mean"), warmup=0)
    criterion.reduce(torch.tensor([2.0, 2.0]))
    assert criterion.kept.all()


@given(st.integers(1, 40), st.floats(0.01, 1.0))
def test_mkl_keeps_exactly_the_rounded_share(size, keep):
    criterion = adaptivek.Selection(adaptivek.MKL(keep), warmup=0)
    criterion.reduce(torch.rand(size))
    assert int(criterion.kept.sum()) == max(1, int(torch.tensor(keep * size).round()))


def test_mkl_counts_only_what_counts():
    criterion = adaptivek.Selection(adaptivek.MKL(0.5))
    losses = torch.tensor([5.0, 0.1, 4.0, 0.2, 3.0, torch.nan])
    mask = torch.tensor([True, False, True, False, True, True])
    with pytest.warns(UserWarning, match="NaN"):
        criterion.reduce(losses, mask=mask)
    assert criterion.kept.tolist() == [False, False, True, False, True, False]  # 2 of 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: adaptivek.AdaptiveK(beta1=1.5), "AdaptiveK: beta1 must be a number in (0, 1], got 1.5"),
        (lambda: adaptivek.AdaptiveK(beta1=0), "AdaptiveK: beta1 must be a number in (0, 1], got 0"),
        (lambda: adaptivek.AdaptiveK(beta2=-0.1), "AdaptiveK: beta2 must be a number in (0, 1], got -0.1"),
        (lambda: adaptivek.AdaptiveK(beta2="x"), "AdaptiveK: beta2 must be a number in (0, 1], got 'x'"),
        (lambda: adaptivek.AdaptiveK(eps=0), "AdaptiveK: eps must be a number above 0, got 0"),
        (lambda: adaptivek.AdaptiveK(eps=float("nan")), "AdaptiveK: eps must be a number above 0, got nan"),
        (
            lambda: adaptivek.AdaptiveK(threshold="median"),
            "AdaptiveK: threshold must be one of mean, paper; got 'median'",
        ),
        (
            lambda: adaptivek.AdaptiveK(threshold="mean", beta1=1.0),
            "AdaptiveK: beta1 must be a number in (0, 1), got 1.0",
        ),
        (lambda: adaptivek.MKL(0), "MKL: keep must be a number in (0, 1], got 0"),
        (lambda: adaptivek.MKL(True), "MKL: keep must be a number in (0, 1], got True"),
        (lambda: adaptivek.VanillaMKL(1.1), "VanillaMKL: keep must be a number in (0, 1], got 1.1"),
        (
            lambda: build("adaptive"),
            "method must be one of oracle, vanilla, mkl, vanilla+mkl, adaptive-k; got 'adaptive'",
        ),
        (
            lambda: build("mkl:k=3"),
            "mkl: 'k=3' is not a parameter of this method, which takes keep=0.6",
        ),
        (lambda: build("mkl:keep=most"), "mkl: keep must be a float, got 'most'"),
        (lambda: build("mkl:keep"), "mkl: 'keep' is not a parameter of this method, which takes keep=0.6"),
    ],
)
def test_bad_parameters_are_named_at_construction(make, message):
    with pytest.raises(ValueError, match=r"must be|not a parameter") as error:
        make()
    assert str(error.value) == message


def test_beta_of_one_is_allowed_as_in_the_paper_and_keeps_nothing():
    criterion = adaptivek.Selection(adaptivek.AdaptiveK(beta1=1.0), warmup=0)
    assert criterion.reduce(torch.tensor([0.5, 1.0])).item() == 0
    assert criterion.empty == 1


@pytest.mark.parametrize("text", REFERENCES)
def test_equal_text_makes_equal_methods(text):
    """A method is its own cache key."""
    assert build(text) == build(text)
    assert hash(build(text)) == hash(build(text))
    assert len({build(other) for other in REFERENCES}) == len(REFERENCES)


def test_preferred_values_fill_only_what_the_text_leaves_open():
    assert build("mkl", keep=0.7).keep == 0.7
    assert build("mkl:keep=0.5", keep=0.7).keep == 0.5
    assert build("vanilla", keep=0.7) == adaptivek.Vanilla()
