"""Each method, step by step, against its slow transcription; and against answers known in advance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import adaptivek
from adaptivek.method import outputs
from adaptivek.methods import METHODS, build

from .reference import REFERENCES
from .reference.adaptive_k import AdaptiveK
from .reference.rule import cross_entropy


def test_every_method_has_a_reference_with_its_defaults_too():
    """What most people use is compared as well, not only parameters that show more in a short test."""
    assert set(METHODS) <= set(REFERENCES)
    assert {text.partition(":")[0] for text in REFERENCES} == set(METHODS)


@pytest.mark.parametrize("text", REFERENCES)
@pytest.mark.parametrize("warmup", [0, 3])
def test_does_what_the_reference_does(text, warmup):
    """Loss, weights and gradient, step by step over several epochs, on logits that grow surer as training goes on."""
    rng = np.random.default_rng(7)
    epochs, steps, size, rows, classes = 12, 8, 16, 128, 5  # some methods begin to select in the ninth epoch
    rule, options = REFERENCES[text]
    clean, labels = rng.random(rows) < rule.clean_share, rng.integers(0, classes, rows)
    reference = rule(rows, classes, clean, **options)
    privileged = {"clean": torch.from_numpy(clean)} if text == "oracle" else {}
    criterion = adaptivek.Selection(text, warmup=warmup, rows=rows, classes=classes, **privileged)
    partial, several = 0, outputs(criterion.method) > 1
    for epoch in range(epochs):
        networks = np.stack([_logits(rng, labels, clean, epoch) for _ in range(outputs(criterion.method))])
        everywhere = networks if several else networks[0]
        swept = cross_entropy(networks[0].astype(np.float64), labels)
        if criterion.method.full_pass in ("features", "logits"):
            swept = networks[0].astype(np.float64)
        criterion.start_epoch(reference.first_epoch + epoch, torch.from_numpy(swept))
        if epoch * steps >= warmup:
            reference.start_epoch(reference.first_epoch + epoch, swept)
        order = rng.permutation(rows).reshape(steps, size)
        for step, batch in enumerate(order):
            given = everywhere[..., batch, :]
            logits = torch.from_numpy(given).requires_grad_()
            loss = criterion(logits, torch.from_numpy(labels[batch]), torch.from_numpy(batch))
            loss.backward()
            if epoch * steps + step < warmup:
                loss_of, weights = (lambda x, y=labels[batch]: _plain(x, y)), np.ones(given.shape[:-1])
            else:
                loss_of, weights = reference.step(given.astype(np.float64), labels[batch], batch)
            weights = np.asarray(weights, dtype=np.float64)
            if reference.confidence is not None:
                np.testing.assert_allclose(criterion.confidence, reference.confidence, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(criterion.weights, weights, rtol=1e-4, atol=1e-5)
            value, gradient = _mean(loss_of, given.astype(np.float64), weights)
            np.testing.assert_allclose(loss.item(), value, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(logits.grad, gradient, rtol=1e-3, atol=1e-5)
            believed = weights if reference.confidence is None else reference.confidence
            partial += 0 < believed.reshape(-1, size)[-1].sum() < size
    if METHODS[text.partition(":")[0]].leaves_out:  # a reference that keeps all or nothing would prove little
        assert partial > epochs * steps / 4


def _plain(logits, labels):
    return cross_entropy(logits, labels) if logits.ndim == 2 else np.stack([_plain(each, labels) for each in logits])


def _logits(rng, labels, clean, epoch):
    """Of all rows: towards the label, more so as epochs go by; for wrong labels towards another class."""
    classes = labels.max() + 1
    towards = np.where(clean, labels, (labels + 1) % classes)
    logits = rng.normal(size=(len(labels), classes)) * 1.5
    logits[np.arange(len(labels)), towards] += 0.7 * epoch
    return logits.astype(np.float32)


def _mean(loss_of, logits, weights, step=1e-5):
    """The weighted mean of the losses (of several networks or views, the sum of theirs) and its gradient.

    By differences, of all samples at once: all else being held fixed, the loss of one hangs on its own logits alone.
    """
    shares = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300)

    def parts(x):
        return (loss_of(x) * shares).reshape(-1, logits.shape[-2]).sum(0)

    gradient = np.zeros_like(logits)
    for place in np.ndindex(*logits.shape[:-2], logits.shape[-1]):
        column = (*place[:-1], slice(None), place[-1])
        moved = [logits.copy(), logits.copy()]
        moved[0][column] += step
        moved[1][column] -= step
        gradient[column] = (parts(moved[0]) - parts(moved[1])) / (2 * step)
    return parts(logits).sum(), gradient


@pytest.mark.parametrize("threshold", ["paper", "mean"])
def test_threshold_follows_the_reference(threshold):
    rng = np.random.default_rng(1)
    batches = [rng.exponential(1 + 5 / (t + 1), 10) for t in range(300)]
    criterion = adaptivek.Selection(adaptivek.AdaptiveK(threshold=threshold), warmup=0)
    reference = AdaptiveK(0, 0, threshold=threshold)
    for batch in batches:
        criterion.reduce(torch.tensor(batch))
        np.testing.assert_allclose(criterion.threshold, reference.cut(batch), rtol=2e-5)


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
        (lambda: adaptivek.GCE(q=0), "GCE: q must be a number in (0, 1], got 0"),
        (lambda: adaptivek.GCE(truncate=1.0), "GCE: truncate must be a number in [0, 1), got 1.0"),
        (lambda: adaptivek.SCE(log_zero=0.0), "SCE: log_zero must be a number in (-inf, 0), got 0.0"),
        (lambda: adaptivek.SCE(beta=-1.0), "SCE: beta must be a number of at least 0, got -1.0"),
        (lambda: adaptivek.LabelSmoothing(1.0), "LabelSmoothing: smoothing must be a number in [0, 1), got 1.0"),
        (
            lambda: build("bootstrapping:kind=firm"),
            "Bootstrapping: kind must be one of hard, soft; got 'firm'",
        ),
        (lambda: adaptivek.BARE(-1), "BARE: deviations must be a number of at least 0, got -1"),
        (lambda: adaptivek.ELR(beta=1.0), "ELR: beta must be a number in [0, 1), got 1.0"),
        (lambda: adaptivek.ELR(strength=-3), "ELR: strength must be a number of at least 0, got -3"),
        (lambda: adaptivek.SELC(alpha=1), "SELC: alpha must be a number in [0, 1), got 1"),
        (lambda: adaptivek.LabelNoisedTrim(flip=2), "LabelNoisedTrim: flip must be a number in [0, 1], got 2"),
        (
            lambda: adaptivek.LabelNoisedTrim(largest=0.75, smallest=0.25),
            "LabelNoisedTrim: smallest must be a number in [0, 0.25), got 0.25",
        ),
        (
            lambda: adaptivek.Selection("elr", classes=10),
            "ELR: rows must be given: Selection(..., rows=len(train_set)), got None",
        ),
        (lambda: adaptivek.Bootstrapping(beta=1.1), "Bootstrapping: beta must be a number in [0, 1], got 1.1"),
        (
            lambda: build("adaptive"),
            f"method must be one of {', '.join(METHODS)}; got 'adaptive'",
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
    assert criterion.tally_empty == 1


def test_labels_that_the_network_finds_impossible_have_finite_gradients():
    """Their probability is 0 in float32, where the power and the logarithm have none."""
    for text in (
        "bootstrapping",
        "bootstrapping:kind=soft",
        "elr",
        "gce",
        "gce:q=0.1",
        "label-smoothing",
        "sat",
        "sce",
        "selc",
        "sop",
    ):
        criterion = adaptivek.Selection(text, warmup=0, rows=2, classes=3)
        logits = torch.tensor([[400.0, 0.0, 0.0], [0.0, 1.0, 2.0]], requires_grad=True)
        criterion(logits, torch.tensor([1, 2]), torch.tensor([0, 1])).backward()
        assert torch.isfinite(logits.grad).all(), text


def test_bare_keeps_all_where_none_stands_out():
    criterion = adaptivek.Selection("bare")
    criterion(torch.tensor([[9.0, 0.0], [9.0, 0.0], [9.0, 0.0], [0.0, 9.0]]), torch.tensor([1, 1, 1, 0]))
    assert criterion.kept.all()
    criterion(torch.tensor([[9.0, 0.0], [9.0, 0.0], [9.0, 0.0], [0.0, 9.0]]), torch.tensor([1, 1, 1, 1]))
    assert criterion.kept.tolist() == [False, False, False, True]


def test_replaced_labels_are_the_asked_share_spread_over_all_classes():
    """From losses alone: all classes of a row differ in probability, so a loss tells which label it belongs to."""
    rows, classes, steps = 1000, 4, 20
    method = adaptivek.LabelNoisedTrim(flip=0.4)
    memory = adaptivek.start(method)
    logits, labels = torch.arange(4.0).expand(rows, classes), torch.zeros(rows, dtype=torch.int64)
    inputs, seen = adaptivek.Inputs(logits=logits, labels=labels, rows=torch.arange(rows)), []
    for _ in range(steps):
        _, outcome = adaptivek.train_step(method, memory, inputs)
        adaptivek.remember(method, memory, outcome)
        seen.append((outcome.losses[:, None] + logits.log_softmax(1)).abs().argmin(1))
    found = torch.stack(seen)
    shares = torch.bincount(found.flatten(), minlength=classes) / found.numel()
    torch.testing.assert_close(shares, torch.tensor([0.7, 0.1, 0.1, 0.1]), rtol=0, atol=0.01)
    assert 0.5 < (found[0] == found[1]).float().mean() < 0.58  # 0.7^2 + 3 * 0.1^2: drawn anew at each step
    assert 0.5 < (found[:, :-1] == found[:, 1:]).float().mean() < 0.54  # and for each row


@pytest.mark.parametrize("text", REFERENCES)
def test_equal_text_makes_equal_methods(text):
    """A method is its own cache key."""
    assert build(text) == build(text)
    assert hash(build(text)) == hash(build(text))
    assert len({build(other) for other in REFERENCES}) == len(REFERENCES)


def test_the_noise_ratio_reaches_the_parameter_that_is_declared_for_it_unless_the_text_sets_it():
    assert build("mkl", noise_ratio=0.25).keep == 0.75
    assert build("mkl:keep=0.5", noise_ratio=0.25).keep == 0.5
    assert build("vanilla", noise_ratio=0.25) == adaptivek.Vanilla()
