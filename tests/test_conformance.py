"""What every method must satisfy, run over all of them: the public checks, and what they do not see."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call, vmap

import adaptivek
from adaptivek import Inputs, testing, train_step
from adaptivek.methods import DEFAULT, build

from .reference import ONE_EACH, REFERENCES
from .tiny import answered, swept

ROWS, CLASSES = 200, 5
CLEAN = torch.rand(ROWS, generator=torch.Generator().manual_seed(5)) < 0.6
TEXTS = list(REFERENCES)
ONE_EACH_AND_DEFAULT = [*ONE_EACH, DEFAULT]  # what `Selection()` uses, beside the parameters that show more
SEEDS = st.integers(0, 2**31)
FEW = settings(max_examples=8)  # of many methods, each with a step or two


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("check", [check for check in testing.CHECKS if check is not testing.check_compiled])
def test_every_method_passes_the_public_checks(check, text):
    check(build(text))


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


def assert_same_memory(one: adaptivek.Memory, other: adaptivek.Memory, **tolerance: float) -> None:
    for a, b in zip((*one.tally, *one.state), (*other.tally, *other.state), strict=True):
        torch.testing.assert_close(a, b, **(tolerance or {"rtol": 0, "atol": 0}))


@pytest.mark.parametrize("text", TEXTS)
@FEW
@given(seed=SEEDS)
def test_weight_zero_equals_removing_the_sample(text, seed):
    """The loss and its gradient are those of a plain weighted mean over the kept samples alone."""
    logits, labels, index = batch(seed)
    criterion = trained(text)
    a, b = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    inputs = Inputs(logits=answered(criterion.method, b), labels=labels, rows=index)
    expected = train_step(criterion.method, criterion.memory, inputs)[1].losses
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
