"""A step under torch.compile, and many runs at once under vmap of the gradient: what every method must satisfy."""

from __future__ import annotations

import copy
import shutil

import pytest
import torch
from torch.func import grad_and_value, vmap
from torch.utils._pytree import tree_map

from adaptivek import Inputs, remember, train_step
from adaptivek.backend import fitting
from adaptivek.methods import build
from adaptivek.step import Outcome
from adaptivek.testing import check_compiled

from .reference import ONE_EACH
from .test_conformance import ONE_EACH_AND_DEFAULT, ROWS, assert_same_memory, call, trained
from .tiny import answered

# the default backend needs a C++ compiler, without which its front half is still checked, and takes long
COMPILER = shutil.which("g++") or shutil.which("clang++")
# one of each kind: by rank, by moments, by logits, with tables, with hashes, with a loss of its own, with two networks
KINDS = [
    "mkl",
    "adaptive-k",
    "bare",
    "elr",
    "label-memory:beta=0.2",
    "label-noised-trim",
    "beta-mixture",
    "gce",
    "co-teaching",
]
COMPILED = [(text, "inductor") for text in KINDS if COMPILER]


@pytest.mark.parametrize("text", ONE_EACH_AND_DEFAULT)
def test_a_training_step_of_many_runs_at_once(text):
    """vmap over the gradient, for one of each kind as one compiled graph, equals each run's own backward."""
    torch.compiler.reset()
    criterion, runs = trained(text), 3
    generator = torch.Generator().manual_seed(0)
    w, x = torch.randn(runs, 4, 5, generator=generator), torch.randn(runs, 12, 4, generator=generator) * 2
    y = torch.randint(5, (runs, 12), generator=generator)
    index = torch.stack([torch.randperm(ROWS, generator=generator)[:12] for _ in range(runs)])
    memory = tree_map(lambda t: t.expand(runs, *t.shape).clone(), criterion.memory)

    def loss(w, memory, x, y, index):
        inputs = Inputs(logits=answered(criterion.method, x @ w), labels=y, rows=index)
        value, outcome = train_step(criterion.method, memory, inputs)
        losses, *rest = outcome
        return value, Outcome(losses.detach(), *rest)

    step = vmap(grad_and_value(loss, has_aux=True))
    if text in KINDS and torch.__version__ >= "2.6":  # before, the compiler refuses vmap of a gradient
        step = torch.compile(step, backend="aot_eager", fullgraph=True)
    gradients, (values, outcome) = step(w, memory, x, y, index)
    vmap(lambda *parts: remember(criterion.method, *parts) or torch.zeros(()))(memory, outcome)
    for r in range(runs):
        alone, weight = copy.deepcopy(criterion), w[r].clone().requires_grad_()
        value = call(alone, x[r] @ weight, y[r], index[r])
        value.backward()
        torch.testing.assert_close(values[r], value.detach())
        torch.testing.assert_close(gradients[r], weight.grad)
        assert_same_memory(tree_map(lambda t: t[r], memory), alone.memory, rtol=1e-5, atol=1e-6)  # noqa: B023


@pytest.mark.parametrize(("text", "backend"), [*((text, "aot_eager") for text in ONE_EACH), *COMPILED])
def test_compiled_equals_eager_as_one_graph_without_recompiling(text, backend):
    check_compiled(build(text), backend)


def test_packed_rows_compile(monkeypatch):
    monkeypatch.setattr(fitting, "kept_classes", lambda rows, classes, wanted: 4)
    check_compiled(build("label-memory"))
