"""In place of nn.CrossEntropyLoss(): its options, its kinds of labels, and errors of our own for what does not fit."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import adaptivek
from adaptivek.method import outputs
from adaptivek.methods import DEFAULT, METHODS

from .tiny import swept

ROWS, CLASSES = 24, 5
#: as yet it has replaced nothing, so that it must be plain training to the last digit
WITHOUT_OWN_LOSS = [name for name, m in METHODS.items() if not m.own_loss and outputs(m) == 1 and not m.privileged]
SOFT = [name for name, m in METHODS.items() if m.soft_targets and outputs(m) == 1 and not m.privileged]


def make(text: str, **options: object) -> adaptivek.Selection:
    return adaptivek.Selection(text, warmup=options.pop("warmup", 0), rows=ROWS, **options)


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(8, CLASSES, generator=generator),
        torch.randint(CLASSES, (8,), generator=generator),
        torch.randperm(ROWS, generator=generator)[:8],
    )


@pytest.mark.parametrize("text", ["vanilla", DEFAULT])
@given(
    seed=st.integers(0, 1000),
    weighted=st.booleans(),
    smoothing=st.sampled_from([0.0, 0.1]),
    ignored=st.sampled_from([None, -100, 2, -1]),
    soft=st.booleans(),
)
def test_the_options_of_cross_entropy_are_those_of_torch(text, seed, weighted, smoothing, ignored, soft):
    logits, labels, index = batch(seed)
    weight = torch.rand(CLASSES, generator=torch.Generator().manual_seed(seed)) + 0.1 if weighted else None
    options = {"weight": weight, "label_smoothing": smoothing}
    if soft:
        target = torch.rand(8, CLASSES, generator=torch.Generator().manual_seed(seed)).softmax(1)
    else:
        target = labels
        if ignored is not None:
            options["ignore_index"] = ignored
            target = labels.clone()
            target[:2] = ignored
            if (target == ignored).all():
                return
    theirs, ours = nn.CrossEntropyLoss(**options), make(text, **options)
    a, b = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    for training in (True, False):
        ours.train(training)
        a.grad = b.grad = None
        found, expected = ours(a, target, index), theirs(b, target)
        found.backward()
        expected.backward()
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("text", WITHOUT_OWN_LOSS)
def test_class_weights_and_smoothing_change_what_is_learned_and_not_what_is_judged(text):
    weight = torch.tensor([5.0, 1.0, 0.2, 1.0, 3.0])
    plain, other = make(text, classes=CLASSES), make(text, classes=CLASSES, weight=weight, label_smoothing=0.2)
    differ = 0
    for step in range(6):
        for criterion in (plain, other):
            if criterion.method.needs_epochs and step % 3 == 0:
                criterion.start_epoch(step // 3, swept(criterion.method, ROWS, step, CLASSES))
        differ += not torch.allclose(plain(*batch(step)), other(*batch(step)))
        torch.testing.assert_close(plain.confidence, other.confidence)
        torch.testing.assert_close(plain.weights, other.weights)
    assert differ


@pytest.mark.parametrize("text", SOFT)
def test_probabilities_that_are_labels_are_labels(text):
    hard, soft = make(text, classes=CLASSES), make(text, classes=CLASSES)
    for step in range(6):
        logits, labels, index = batch(step)
        for criterion in (hard, soft):
            if criterion.method.needs_epochs and step % 3 == 0:
                criterion.start_epoch(step // 3, swept(criterion.method, ROWS, step, CLASSES))
        found = soft(logits, F.one_hot(labels, CLASSES).float(), index)
        torch.testing.assert_close(found, hard(logits, labels, index))
        torch.testing.assert_close(soft.confidence, hard.confidence)


@pytest.mark.parametrize("text", [name for name, m in METHODS.items() if not m.soft_targets])
def test_methods_that_need_one_label_a_sample_say_so(text):
    criterion = make(text)
    with pytest.raises(ValueError, match=rf"Selection: {text} needs one label a sample, got class probabilities"):
        criterion(torch.randn(8, CLASSES), torch.rand(8, CLASSES).softmax(1), torch.arange(8))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
@pytest.mark.parametrize("text", ["vanilla", DEFAULT])
def test_whole_numbers_of_any_width_are_labels_and_row_numbers(text, dtype):
    logits, labels, index = batch(0)
    expected = make(text)(logits, labels, index)
    torch.testing.assert_close(make(text)(logits, labels.to(dtype), index.int()), expected)
    torch.testing.assert_close(make(text).eval()(logits, labels.to(dtype)), F.cross_entropy(logits, labels))


def test_the_default_needs_no_number_of_classes():
    criterion = adaptivek.Selection()
    assert criterion.classes is None
    logits, labels, _ = batch(0)
    torch.testing.assert_close(criterion(logits, labels), F.cross_entropy(logits, labels))
    assert criterion.classes == CLASSES
    assert adaptivek.Selection().noise_ratio != adaptivek.Selection().noise_ratio  # NaN before there is anything


def test_classes_that_a_logit_of_minus_infinity_rules_out():
    logits, labels = torch.tensor([[0.0, 1.0, -torch.inf], [2.0, -torch.inf, 0.0]]), torch.tensor([1, 0])
    criterion = adaptivek.Selection()
    for _ in range(3):
        torch.testing.assert_close(criterion(logits, labels), F.cross_entropy(logits, labels))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda c, x, y, i: c(x[:, :3], y.clamp(max=2), i), "logits must be of 5 classes, got 3"),
        (lambda c, x, y, i: c(x, y, i + 100), "index must be row numbers from 0 to 23, as rows=24 says; got 1"),
        (lambda c, x, y, i: c(x, y, i - 100), "index must be row numbers from 0 to 23, as rows=24 says; got -"),
        (lambda c, x, y, i: c(x, F.one_hot(y, CLASSES), i), r"got \(8, 5\): one-hot labels go in as class probab"),
        (lambda c, x, y, i: c(x, y.float(), i), r"or class probabilities of shape \(8, 5\); got torch.float32 of sh"),
        (lambda c, x, y, i: c(x, y > 2, i), "labels must be whole numbers, got torch.bool"),
        (lambda c, x, y, i: c(x, y, i.float()), "index must be whole numbers, got torch.float32"),
        (
            lambda c, x, y, i: c(x, y),
            r"label-agreement needs row numbers, as rows=24 has promised: criterion",
        ),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_spoilt(use, message):
    criterion = make(DEFAULT, classes=CLASSES)
    with pytest.raises(ValueError, match=message):
        use(criterion, *batch(0))
    assert criterion.tally_step == 0
    assert torch.isfinite(criterion(*batch(0)))
    if "row numbers from" in message:  # on a processor at any step, not just the first
        with pytest.raises(ValueError, match=message):
            use(criterion, *batch(0))


@pytest.mark.parametrize("text", ["label-memory", "elr", "dlt", "itlm", "moit", "oracle"])
def test_where_a_step_must_not_look_rows_that_are_not_there_are_left_out_and_heard_of_later(text, monkeypatch):
    """As on a GPU, where a row beyond a table would end the process."""
    truth = {"clean": torch.ones(ROWS, dtype=torch.bool)} if text == "oracle" else {"rows": ROWS, "classes": CLASSES}
    ours, other = (adaptivek.Selection(text, warmup=0, **truth) for _ in range(2))
    full_pass = swept(ours.method, ROWS, classes=CLASSES)
    for criterion in (ours, other):
        criterion.start_epoch(0, full_pass)
        criterion.eval().train()
    monkeypatch.setattr(adaptivek.criterion, "has_values", lambda x: False)
    logits, labels, index = batch(0)
    beyond = index.clone()
    beyond[3], beyond[5] = ROWS, -1
    rest = [0, 1, 2, 4, 6, 7]
    torch.testing.assert_close(ours(logits, labels, beyond), other(logits[rest], labels[rest], index[rest]))
    assert ours.weights[[3, 5]].tolist() == [0, 0]
    for a, b in zip(ours.memory.state, other.memory.state, strict=True):
        torch.testing.assert_close(a, b)
    for look in (lambda: ours.start_epoch(1, full_pass), ours.state_dict, lambda: ours.noise_ratio):
        ours._reported = False
        with pytest.raises(ValueError, match=r"row numbers below rows=24, got 2 that are not; left out"):
            look()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_smoothing": 1.0}, r"label_smoothing must be a number in \[0, 1\), got 1.0"),
        ({"method": "gce", "label_smoothing": 0.1}, "label_smoothing must be 0 for gce, got 0.1"),
        ({"weight": torch.ones(2, 2)}, "weight must be one number for each class"),
        ({"method": "vanilla", "weight": torch.ones(2), "loss": F.mse_loss}, "loss must be left as it is with weight"),
        ({"loss": F.mse_loss}, "loss must be left as it is for label-agreement"),
    ],
)
def test_bad_options_are_named_at_construction(options, message):
    with pytest.raises(ValueError, match=message):
        adaptivek.Selection(**options)


def test_as_many_class_weights_as_classes():
    with pytest.raises(ValueError, match="logits must be of 3 classes, got 5"):
        adaptivek.Selection("vanilla", weight=torch.ones(3))(*batch(0)[:2])


def test_compiled_it_must_know_the_number_of_classes():
    torch._dynamo.reset()
    criterion = adaptivek.Selection()
    step = torch.compile(lambda x, y: criterion(x, y), backend="eager", fullgraph=True)
    with pytest.raises(Exception, match=r"classes must be given before compiling|Observed exception"):
        step(*batch(0)[:2])


@pytest.mark.parametrize("text", ["co-teaching", "jocor", "augdesc"])
def test_a_validation_loss_takes_what_a_model_gives(text):
    """The output of one network where a model in eval() gives that, or of both."""
    logits, labels, _ = batch(0)
    networks = adaptivek.Networks([nn.Identity(), nn.Identity()])
    criterion = adaptivek.Selection(text).eval()
    torch.testing.assert_close(criterion(networks.eval()(logits), labels), F.cross_entropy(logits, labels))
    torch.testing.assert_close(criterion(networks.train()(logits), labels), F.cross_entropy(logits, labels))
    two = torch.stack([logits[:2], logits[:2]])  # as many samples as networks
    torch.testing.assert_close(criterion(two, labels[:2]), F.cross_entropy(logits[:2], labels[:2]))
