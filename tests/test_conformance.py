"""What every method must satisfy, run over all of them."""

from __future__ import annotations

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call, vmap
from torch.utils._pytree import tree_map

import adaptivek
from adaptivek import Inputs, remember, train_step

from .reference import ONE_EACH, REFERENCES
from .tiny import answered, swept

ROWS, CLASSES = 200, 5
CLEAN = torch.rand(ROWS, generator=torch.Generator().manual_seed(5)) < 0.6
TEXTS = list(REFERENCES)
ONE_EACH_AND_DEFAULT = [*ONE_EACH, "label-memory"]  # what `Selection()` uses, beside the parameters that show more
SEEDS = st.integers(0, 2**31)
FEW = settings(max_examples=8)  # of many methods, each with a step or two


def make(text: str, warmup: int = 2, rows: int = ROWS) -> adaptivek.Selection:
    privileged = {"clean": CLEAN[:rows]} if text == "oracle" else {}
    return adaptivek.Selection(text, warmup=warmup, rows=rows, classes=CLASSES, **privileged)


def batch(seed: int, size: int = 12) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits with distinct losses around the thresholds, labels, and distinct rows."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, CLASSES, generator=generator) * 2
    labels = torch.randint(CLASSES, (size,), generator=generator)
    return logits, labels, torch.randperm(ROWS, generator=generator)[:size]


def begin(criterion: adaptivek.Selection, epoch: int, rows: int = ROWS) -> None:
    criterion.start_epoch(epoch, swept(criterion.method, rows, epoch))


def call(criterion: adaptivek.Selection, logits, labels, index) -> torch.Tensor:
    return criterion(answered(criterion.method, logits), labels, index)


def trained(text: str, steps: int = 5) -> adaptivek.Selection:
    """A criterion past its warm-up, in its second epoch of selection, its state no longer zero."""
    criterion = make(text)
    for seed in range(steps):
        if seed % 2 == 0:
            begin(criterion, seed // 2)
        call(criterion, *batch(seed))
    return criterion


def own(criterion: adaptivek.Selection, logits, labels, index) -> torch.Tensor:
    """The losses of the samples as they are minimised, before the step."""
    inputs = Inputs(logits=answered(criterion.method, logits), labels=labels, rows=index)
    return train_step(criterion.method, criterion.memory, inputs)[1].losses


def assert_same_memory(one: adaptivek.Memory, other: adaptivek.Memory, **tolerance: float) -> None:
    for a, b in zip((*one.tally, *one.state), (*other.tally, *other.state), strict=True):
        torch.testing.assert_close(a, b, **(tolerance or {"rtol": 0, "atol": 0}))


@pytest.mark.parametrize("text", TEXTS)
@FEW
@given(seed=SEEDS)
def test_permuting_the_batch_permutes_the_choice(text, seed):
    parts = batch(seed)
    order = torch.randperm(len(parts[0]), generator=torch.Generator().manual_seed(seed))
    one, other = trained(text), trained(text)
    loss, permuted = call(one, *parts), call(other, *(part[order] for part in parts))
    torch.testing.assert_close(one.weights[..., order], other.weights)
    torch.testing.assert_close(loss, permuted)
    assert_same_memory(one.memory, other.memory, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("text", TEXTS)
@FEW
@given(seed=SEEDS)
def test_what_does_not_count_is_as_if_removed(text, seed):
    logits, labels, index = batch(seed)
    mask = torch.rand(len(labels), generator=torch.Generator().manual_seed(seed)) < 0.7
    one, other = trained(text), trained(text)
    a, b = logits.clone().requires_grad_(), logits[mask].clone().requires_grad_()
    masked = call(one, a, labels.where(mask, -100), index)
    if not mask.any():
        assert masked.item() == 0
        return
    removed = call(other, b, labels[mask], index[mask])
    masked.backward()
    removed.backward()
    torch.testing.assert_close(one.weights[..., mask], other.weights)
    assert not one.kept[..., ~mask].any()
    torch.testing.assert_close(masked, removed)
    torch.testing.assert_close(a.grad[mask], b.grad)
    assert (a.grad[~mask] == 0).all()
    assert_same_memory(one.memory, other.memory, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("text", TEXTS)
@FEW
@given(seed=SEEDS)
def test_weight_zero_equals_removing_the_sample(text, seed):
    """The loss and its gradient are those of a plain weighted mean over the kept samples alone."""
    logits, labels, index = batch(seed)
    criterion = trained(text)
    a, b = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    expected = own(criterion, b, labels, index)
    loss = call(criterion, a, labels, index)
    loss.backward()
    if criterion.kept.any():
        expected = (expected * criterion.weights)[criterion.kept].sum() / criterion.memory.tally.last_kept
        expected.backward()
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(a.grad, b.grad)
    else:
        assert loss == 0
        assert (a.grad == 0).all()


@pytest.mark.parametrize("text", TEXTS)
@FEW
@given(seed=SEEDS, runs=st.integers(1, 4))
def test_vmap_is_a_loop(text, seed, runs):
    criterion = trained(text)
    logits, labels, index = (
        torch.stack(column) for column in zip(*(batch(seed + r) for r in range(runs)), strict=True)
    )
    memory = tree_map(lambda t: t.expand(runs, *t.shape).clone(), criterion.memory)

    def step(memory, logits, labels, index):
        inputs = Inputs(logits=answered(criterion.method, logits), labels=labels, rows=index)
        loss, outcome = train_step(criterion.method, memory, inputs)
        remember(criterion.method, memory, outcome)
        return loss, outcome.weights

    loss, weights = vmap(step)(memory, logits, labels, index)
    for r in range(runs):
        alone = copy.deepcopy(criterion)
        torch.testing.assert_close(loss[r], call(alone, logits[r], labels[r], index[r]))
        torch.testing.assert_close(weights[r], alone.weights)
        assert_same_memory(tree_map(lambda t: t[r], memory), alone.memory, rtol=1e-5, atol=1e-6)  # noqa: B023


@pytest.mark.parametrize("text", ONE_EACH_AND_DEFAULT)
def test_the_module_itself_runs_under_vmap(text):
    """Stacked buffers through functional_call: each run keeps its own memory."""
    criterion = trained(text)
    buffers = {name: value.expand(3, *value.shape).clone() for name, value in criterion.named_buffers()}
    parts = [torch.stack(column) for column in zip(*map(batch, range(3)), strict=True)]
    alone = [copy.deepcopy(criterion) for _ in range(3)]
    parts[0] = answered(criterion.method, parts[0])
    found = vmap(lambda b, *parts: functional_call(criterion, b, parts))(buffers, *parts)
    for r, one in enumerate(alone):
        torch.testing.assert_close(found[r], one(*(part[r] for part in parts)))
        for name, value in one.named_buffers():
            torch.testing.assert_close(buffers[name][r], value)


@pytest.mark.parametrize("text", TEXTS)
def test_inputs_and_memory_are_left_untouched(text):
    criterion = trained(text)
    parts = batch(9)
    parts = (answered(criterion.method, parts[0]), *parts[1:])
    memory = tree_map(torch.clone, criterion.memory)
    before = copy.deepcopy((memory, *parts))
    inputs = Inputs(logits=parts[0], labels=parts[1], rows=parts[2])
    _, outcome = train_step(criterion.method, memory, inputs)
    assert_same_memory(memory, before[0])
    assert all(torch.equal(a, b) for a, b in zip(parts, before[1:], strict=True))
    assert outcome.weights.shape == outcome.losses.shape
    assert ((outcome.weights >= 0) & (outcome.weights <= 1)).all()
    remember(criterion.method, memory, outcome)
    for old, new in zip((*before[0].tally, *before[0].state), (*memory.tally, *memory.state), strict=True):
        assert (old.dtype, old.shape) == (new.dtype, new.shape)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("stop", [1, 4])
def test_save_load_continue_is_bit_equal(text, stop):
    """Stopped during warm-up and after it."""
    whole = make(text)
    first, second = make(text), make(text)
    for seed in range(stop):
        for one in (whole, first):
            if seed % 3 == 0:
                begin(one, seed // 3)
            call(one, *batch(seed))
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    for seed in range(stop, 10):
        if seed % 3 == 0:
            begin(whole, seed // 3)
            begin(second, seed // 3)
        assert torch.equal(call(whole, *batch(seed)), call(second, *batch(seed)))
        assert torch.equal(whole.weights, second.weights)
    assert_same_memory(whole.memory, second.memory)


@pytest.mark.parametrize("text", TEXTS)
def test_warmup_is_plain_training_with_the_state_at_rest(text):
    criterion = make(text, warmup=3)
    fresh = make(text)
    begin(criterion, 0)
    for seed in range(3):
        logits, labels, index = batch(seed)
        parts = answered(criterion.method, logits).view(-1, *logits.shape)
        expected = sum(F.cross_entropy(part, labels) for part in parts)
        torch.testing.assert_close(call(criterion, logits, labels, index), expected)
        assert criterion.kept.all()
    for a, b in zip(criterion.memory.state, fresh.memory.state, strict=True):
        assert torch.equal(a, b)
