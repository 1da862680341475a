"""What every method must satisfy, run over all of them."""

from __future__ import annotations

import copy
import io
import shutil

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounterWithBackend
from torch.func import functional_call, grad_and_value, vmap
from torch.utils._pytree import tree_map

import adaptivek

from .reference import REFERENCES

ROWS = 200
CLEAN = torch.rand(ROWS, generator=torch.Generator().manual_seed(5)) < 0.6
TEXTS = list(REFERENCES)
SEEDS = st.integers(0, 2**31)

# the default backend needs a C++ compiler; without one its front half is still checked
BACKENDS = ["aot_eager"] + (["inductor"] if shutil.which("g++") or shutil.which("clang++") else [])


def make(text: str, warmup: int = 2) -> adaptivek.Selection:
    return adaptivek.Selection(text, warmup=warmup, **({"clean": CLEAN} if text == "oracle" else {}))


def batch(seed: int, size: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    """Distinct losses around the thresholds, and distinct rows."""
    generator = torch.Generator().manual_seed(seed)
    losses = torch.rand(size, generator=generator).exp() ** 3 / 4
    return losses, torch.randperm(ROWS, generator=generator)[:size]


def trained(text: str, steps: int = 5) -> adaptivek.Selection:
    """A criterion past its warm-up, its state no longer zero."""
    criterion = make(text)
    for seed in range(steps):
        losses, index = batch(seed)
        criterion.reduce(losses, index=index)
    return criterion


def assert_same_memory(one: adaptivek.Memory, other: adaptivek.Memory, **tolerance: float) -> None:
    for a, b in zip((*one.tally, *one.state), (*other.tally, *other.state), strict=True):
        torch.testing.assert_close(a, b, **(tolerance or {"rtol": 0, "atol": 0}))


@pytest.mark.parametrize("text", TEXTS)
@given(seed=SEEDS)
def test_permuting_the_batch_permutes_the_choice(text, seed):
    losses, index = batch(seed)
    order = torch.randperm(len(losses), generator=torch.Generator().manual_seed(seed))
    one, other = trained(text), trained(text)
    loss = one.reduce(losses, index=index)
    permuted = other.reduce(losses[order], index=index[order])
    assert torch.equal(one.kept[order], other.kept)
    torch.testing.assert_close(loss, permuted)
    assert_same_memory(one.memory, other.memory, rtol=1e-6, atol=0)


@pytest.mark.parametrize("text", TEXTS)
@given(seed=SEEDS)
def test_what_does_not_count_is_as_if_removed(text, seed):
    losses, index = batch(seed)
    mask = torch.rand(len(losses), generator=torch.Generator().manual_seed(seed)) < 0.7
    one, other = trained(text), trained(text)
    a, b = losses.clone().requires_grad_(), losses[mask].clone().requires_grad_()
    masked = one.reduce(a, mask=mask, index=index)
    if not mask.any():
        assert masked.item() == 0
        return
    removed = other.reduce(b, index=index[mask])
    masked.backward()
    removed.backward()
    assert torch.equal(one.kept[mask], other.kept)
    assert not one.kept[~mask].any()
    torch.testing.assert_close(masked, removed)
    torch.testing.assert_close(a.grad[mask], b.grad)
    assert (a.grad[~mask] == 0).all()
    assert_same_memory(one.memory, other.memory, rtol=1e-6, atol=0)


@pytest.mark.parametrize("text", TEXTS)
@given(seed=SEEDS)
def test_weight_zero_equals_removing_the_sample(text, seed):
    """The loss and its gradient are those of a plain mean over the kept samples alone."""
    losses, index = batch(seed)
    criterion = trained(text)
    a, b = losses.clone().requires_grad_(), losses.clone().requires_grad_()
    loss = criterion.reduce(a, index=index)
    loss.backward()
    if criterion.kept.any():
        expected = b[criterion.kept].mean()
        expected.backward()
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(a.grad, b.grad)
    else:
        assert loss == 0
        assert (a.grad == 0).all()


@pytest.mark.parametrize("text", TEXTS)
@given(seed=SEEDS, runs=st.integers(1, 4))
def test_leading_axes_are_vmap_is_a_loop(text, seed, runs):
    criterion = trained(text)
    batches = [batch(seed + r) for r in range(runs)]
    losses, index = (torch.stack(column) for column in zip(*batches, strict=True))
    stacked = tree_map(lambda t: t.expand(runs, *t.shape).clone(), criterion.memory)

    def step(memory, losses, index):
        return adaptivek.objective(criterion.method, memory, losses, None, index, warmup=2)

    for loss, outcome in (step(stacked, losses, index), vmap(step)(stacked, losses, index)):
        for r in range(runs):
            alone = copy.deepcopy(criterion)
            torch.testing.assert_close(loss[r], alone.reduce(losses[r], index=index[r]))
            assert torch.equal(outcome.weights[r] > 0, alone.kept)
            assert_same_memory(tree_map(lambda t: t[r], outcome.memory), alone.memory, rtol=1e-6, atol=0)  # noqa: B023


@pytest.mark.parametrize("text", TEXTS)
def test_the_module_itself_runs_under_vmap(text):
    """Stacked buffers through functional_call: each run keeps its own memory."""
    criterion = trained(text)

    class Reduce(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.criterion = criterion

        def forward(self, losses, index):
            return self.criterion.reduce(losses, index=index)

    module = Reduce()
    buffers = {name: value.expand(3, *value.shape).clone() for name, value in module.named_buffers()}
    losses, index = (torch.stack(column) for column in zip(*map(batch, range(3)), strict=True))
    alone = [copy.deepcopy(criterion) for _ in range(3)]
    found = vmap(lambda b, x, i: functional_call(module, b, (x, i)))(buffers, losses, index)
    for r, one in enumerate(alone):
        torch.testing.assert_close(found[r], one.reduce(losses[r], index=index[r]))
        for name, value in one.named_buffers():
            torch.testing.assert_close(buffers[f"criterion.{name}"][r], value)


@pytest.mark.parametrize("text", TEXTS)
def test_a_training_step_of_many_runs_at_once(text):
    """vmap over the gradient, as one compiled graph, equals each run's own backward."""
    torch._dynamo.reset()
    criterion, runs = trained(text), 3
    generator = torch.Generator().manual_seed(0)
    w, x = torch.randn(runs, 4, 5, generator=generator), torch.randn(runs, 12, 4, generator=generator) * 2
    y, index = (torch.randint(n, (runs, 12), generator=generator) for n in (5, ROWS))
    stacked = tree_map(lambda t: t.expand(runs, *t.shape).clone(), criterion.memory)

    def loss(w, memory, x, y, index):
        losses = F.cross_entropy(x @ w, y, reduction="none")
        value, outcome = adaptivek.objective(criterion.method, memory, losses, None, index, warmup=2)
        return value, outcome.memory

    step = torch.compile(vmap(grad_and_value(loss, has_aux=True)), backend="aot_eager", fullgraph=True)
    gradients, (values, memories) = step(w, stacked, x, y, index)
    for r in range(runs):
        alone, weight = copy.deepcopy(criterion), w[r].clone().requires_grad_()
        value = alone(x[r] @ weight, y[r], index[r])
        value.backward()
        torch.testing.assert_close(values[r], value.detach())
        torch.testing.assert_close(gradients[r], weight.grad)
        assert_same_memory(tree_map(lambda t: t[r], memories), alone.memory, rtol=1e-5, atol=1e-6)  # noqa: B023


@pytest.mark.parametrize("text", TEXTS)
def test_inputs_and_memory_are_left_untouched(text):
    criterion = trained(text)
    losses, index = batch(9)
    memory = tree_map(torch.clone, criterion.memory)
    before = copy.deepcopy((memory, losses, index))
    _, outcome = adaptivek.objective(criterion.method, memory, losses, None, index)
    assert_same_memory(memory, before[0])
    assert torch.equal(losses, before[1])
    assert torch.equal(index, before[2])
    assert outcome.weights.shape == losses.shape
    assert ((outcome.weights >= 0) & (outcome.weights <= 1)).all()
    for old, new in zip((*memory.tally, *memory.state), (*outcome.memory.tally, *outcome.memory.state), strict=True):
        assert (old.dtype, old.shape) == (new.dtype, new.shape)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", TEXTS)
def test_compiled_equals_eager_as_one_graph_without_recompiling(text, backend):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    eager, other = make(text), make(text)
    model = torch.nn.Linear(6, 5)
    twin = copy.deepcopy(model)

    @torch.compile(backend=counter, fullgraph=True)
    def step(x, y, index):
        return other(twin(x), y, index)

    partial = 0
    for seed in range(8):  # over the end of warm-up, from a state that is not zero, with partial choices
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(24, 6, generator=generator) * 3
        y = torch.randint(5, (24,), generator=generator)
        index = torch.randperm(ROWS, generator=generator)[:24]
        expected, found = eager(model(x), y, index), step(x, y, index)
        model.zero_grad()
        twin.zero_grad()
        expected.backward()
        found.backward()
        assert torch.equal(eager.kept, other.kept)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(twin.weight.grad, model.weight.grad)
        assert_same_memory(eager.memory, other.memory, rtol=1e-5, atol=1e-6)
        partial += 0 < eager.kept.sum() < 24
    assert counter.frame_count == 1
    assert partial > 0 or text == "vanilla"


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("stop", [1, 4])
def test_save_load_continue_is_bit_equal(text, stop):
    """Stopped during warm-up and after it."""
    whole = make(text)
    first, second = make(text), make(text)
    for seed in range(stop):
        losses, index = batch(seed)
        whole.reduce(losses, index=index)
        first.reduce(losses, index=index)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    for seed in range(stop, 10):
        losses, index = batch(seed)
        assert torch.equal(whole.reduce(losses, index=index), second.reduce(losses, index=index))
        assert torch.equal(whole.kept, second.kept)
    assert_same_memory(whole.memory, second.memory)


def test_a_checkpoint_of_another_method_is_refused():
    with pytest.raises(RuntimeError, match="Unexpected key"):
        make("mkl").load_state_dict(make("adaptive-k").state_dict())
    with pytest.raises(RuntimeError, match="Missing key"):
        make("adaptive-k").load_state_dict(make("mkl").state_dict())


@pytest.mark.parametrize("text", TEXTS)
def test_warmup_is_plain_training_with_the_state_at_rest(text):
    criterion = make(text, warmup=3)
    fresh = make(text)
    for seed in range(3):
        losses, index = batch(seed)
        torch.testing.assert_close(criterion.reduce(losses, index=index), losses.mean())
        assert criterion.kept.all()
    for a, b in zip(criterion.memory.state, fresh.memory.state, strict=True):
        assert torch.equal(a, b)
