"""Checks that every method must pass, for methods from outside too.

>>> adaptivek.testing.check_method(MyMethod)

An `AssertionError` says what does not hold. What is checked is what the rest of the library relies on: a run is the
same alone or beside others, compiled or not, resumed or not, on one process or on several.
"""

from __future__ import annotations

import copy
import io
import multiprocessing
from collections.abc import Callable
from contextlib import nullcontext
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.func import vmap

from .criterion import Selection
from .method import Method, describe, outputs
from .methods import METHODS, build, check_class
from .step import IGNORE, Inputs, Memory, Tally, remember, train_step

ROWS, CLASSES, SIZE = 200, 5, 12
SEEDS = range(8)

Batch = tuple[Tensor, Tensor, Tensor]


def check_method(method: type[Method[Any]] | Method[Any]) -> None:
    """Run all checks on a method, or on a class with its default parameters."""
    made = method() if isinstance(method, type) else method
    assert isinstance(made, Method), f"a method must be a subclass of adaptivek.Method, got {made!r}"
    for check in CHECKS:
        try:
            check(made)
        except Exception as error:
            raise AssertionError(f"{type(made).__name__} does not pass {check.__name__}: {error}") from error


def check_declared(method: Method[Any]) -> None:
    """It has a name, a line and a source, is a frozen dataclass, and can be written as text and read again."""
    kind = type(method)
    check_class(kind)
    assert hash(method) == hash(copy.copy(method)), "must be hashable: it is its own cache key"
    if METHODS.get(kind.name) is kind:
        assert build(describe(method)) == method, f"must come back from its text, {describe(method)!r}"


def check_pure(method: Method[Any]) -> None:
    """A step changes neither its inputs nor its state, and decides in the shapes and ranges that it must."""
    criterion = _trained(method)
    logits, labels, rows = _batch(9)
    inputs = Inputs(logits=_stacked(method, logits), labels=labels, rows=rows)
    memory = _each(criterion.memory, torch.clone)
    before = copy.deepcopy((memory, inputs))
    _, outcome = train_step(method, memory, inputs)
    _same_memory(memory, before[0], rtol=0, atol=0)
    for was, now in zip(before[1], inputs, strict=True):
        assert was is now or torch.equal(was, now), "a step must not change its inputs"  # type: ignore[arg-type]
    assert outcome.weights.shape == outcome.losses.shape, "weights must have the shape of the losses"
    assert bool(((outcome.weights >= 0) & (outcome.weights <= 1)).all()), "weights must be in [0, 1]"
    assert bool(((outcome.confidence >= 0) & (outcome.confidence <= 1)).all()), "confidence must be in [0, 1]"
    assert set(outcome.update) <= set(memory.state._fields), (
        f"update must name fields of the state, got {outcome.update}"
    )
    remember(method, memory, outcome)
    for old, new in zip((*before[0].tally, *before[0].state), (*memory.tally, *memory.state), strict=True):
        assert (old.dtype, old.shape) == (new.dtype, new.shape), "the state must keep its types and shapes"


def check_permutation(method: Method[Any]) -> None:
    """The order of a batch does not matter, be it that a row stands in it more than once."""
    for seed in SEEDS:
        for repeated in (False, True):
            logits, labels, rows = _batch(seed)
            if repeated:
                rows = rows[:4].repeat(3)
                labels = labels[:4].repeat(3)
            order = torch.randperm(SIZE, generator=torch.Generator().manual_seed(seed))
            one, other = _trained(method), _trained(method)
            loss = _call(one, logits, labels, rows)
            _close(_call(other, logits[order], labels[order], rows[order]), loss)
            assert one.weights is not None
            assert other.weights is not None
            _close(other.weights, one.weights[..., order])
            _same_memory(one.memory, other.memory)


def check_masking(method: Method[Any]) -> None:
    """A sample that is ignored is as if it were not there."""
    for seed in SEEDS:
        logits, labels, rows = _batch(seed)
        kept = torch.rand(SIZE, generator=torch.Generator().manual_seed(seed)) < 0.7
        one, other = _trained(method), _trained(method)
        a, b = logits.clone().requires_grad_(), logits[kept].clone().requires_grad_()
        masked = _call(one, a, labels.where(kept, IGNORE), rows)
        if not bool(kept.any()):
            assert masked.item() == 0, "a batch in which nothing counts must have a loss of 0"
            continue
        removed = _call(other, b, labels[kept], rows[kept])
        masked.backward()  # type: ignore[no-untyped-call]
        removed.backward()  # type: ignore[no-untyped-call]
        assert one.weights is not None
        assert other.weights is not None
        assert a.grad is not None
        assert b.grad is not None
        _close(masked, removed)
        _close(one.weights[..., kept], other.weights)
        _close(a.grad[kept], b.grad)
        assert not bool(a.grad[~kept].any()), "an ignored sample must have no gradient"
        _same_memory(one.memory, other.memory)


def check_vmap(method: Method[Any]) -> None:
    """Many runs at once are each run by itself."""
    runs, criterion = 3, _trained(method)
    logits, labels, rows = (torch.stack(column) for column in zip(*map(_batch, range(runs)), strict=True))
    memory = _each(criterion.memory, lambda t: t.expand(runs, *t.shape).clone())

    def step(memory: Memory, logits: Tensor, labels: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        inputs = Inputs(logits=_stacked(method, logits), labels=labels, rows=rows)
        loss, outcome = train_step(method, memory, inputs)
        remember(method, memory, outcome)
        return loss, outcome.weights

    losses, weights = vmap(step)(memory, logits, labels, rows)
    for run in range(runs):
        alone = copy.deepcopy(criterion)
        _close(losses[run], _call(alone, logits[run], labels[run], rows[run]))
        assert alone.weights is not None
        _close(weights[run], alone.weights)
        _same_memory(_each(memory, lambda t: t[run]), alone.memory)  # noqa: B023


def check_compiled(method: Method[Any], backend: str = "aot_eager") -> None:
    """Compiled as one graph it does the same, without being compiled again as training goes on.

    With no more rows than a batch has: there the backward pass would rather read a table again than keep its entries.
    """
    torch.compiler.reset()
    stance = getattr(torch.compiler, "set_stance", None)  # before PyTorch 2.6 nobody tells of a second compilation
    rows = 24
    eager, other = _make(method, rows), _make(method, rows)
    model = torch.nn.Linear(6, CLASSES)
    twin = copy.deepcopy(model)
    step = torch.compile(lambda x, y, i: _call(other, twin(x), y, i), backend=backend, fullgraph=True)
    for seed in SEEDS:  # over the end of warm-up, from a state that is not as it began
        if seed % 2 == 0:
            for one in (eager, other):
                _begin(one, seed // 2, rows)
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(rows, 6, generator=generator) * 3
        y, index = torch.randint(CLASSES, (rows,), generator=generator), torch.randperm(rows, generator=generator)
        expected = _call(eager, model(x), y, index)
        with stance("fail_on_recompile") if seed and stance else nullcontext():
            found = step(x, y, index)
        for loss, network in ((expected, model), (found, twin)):
            network.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
        _close(found, expected)
        assert eager.weights is not None
        assert other.weights is not None
        _close(other.weights, eager.weights)
        _close(twin.weight.grad, model.weight.grad)
        _same_memory(eager.memory, other.memory)


def check_resuming(method: Method[Any]) -> None:
    """Stopped, saved, loaded and gone on with, during warm-up and after it, it comes to the same bits."""
    for stop in (1, 4):
        whole, first, second = _make(method), _make(method), _make(method)
        for seed in range(10):
            if seed == stop:
                file = io.BytesIO()
                torch.save(first.state_dict(), file)
                file.seek(0)
                second.load_state_dict(torch.load(file, weights_only=True))
            other = first if seed < stop else second
            if seed % 3 == 0:
                for one in (whole, other):
                    _begin(one, seed // 3)
            loss, again = _call(whole, *_batch(seed)), _call(other, *_batch(seed))
            assert torch.equal(loss, again), f"step {seed} differs after a stop at step {stop}"
        _same_memory(whole.memory, second.memory, rtol=0, atol=0)


def check_ranks(method: Method[Any]) -> None:
    """Two processes with parts of a batch do what one does with all of it. Left out where nothing can be forked."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return
    context = multiprocessing.get_context("fork")  # a class from a notebook cannot be sent to a new process
    with TemporaryDirectory() as folder:
        queue = context.SimpleQueue()
        ranks = [context.Process(target=_rank, args=(method, rank, f"{folder}/store", queue)) for rank in range(2)]
        for process in ranks:
            process.start()
        found = [queue.get() for _ in ranks]
        for process in ranks:
            process.join(5)
            process.kill()  # both have said what they found; PyTorch 2.4 may hang in taking its group down
            process.join()
    assert not any(found), next(filter(None, found))


def _rank(method: Method[Any], rank: int, store: str, queue: Any) -> None:
    """One of two processes: says what differs from the whole batch in one, or nothing."""
    torch.set_num_threads(1)
    problem = ""
    try:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
        whole, ours = _make(method, distributed=False), _make(method)
        for seed, sizes in enumerate([(6, 6), (6, 6), (9, 3), (12, 0), (5, 7), (6, 6)]):
            if seed % 2 == 0:
                for one in (whole, ours):
                    _begin(one, seed // 2)
            logits, labels, rows = _batch(seed)
            mine = slice(0, sizes[0]) if rank == 0 else slice(sizes[0], SIZE)
            everything, own = logits.clone().requires_grad_(), logits[mine].clone().requires_grad_()
            expected, found = _call(whole, everything, labels, rows), _call(ours, own, labels[mine], rows[mine])
            _close(found, expected, name="loss")
            gradient = torch.autograd.grad(expected, everything)[0][mine]
            # as many times as large as there are ranks, for the averaging to come
            _close(torch.autograd.grad(found, own)[0] / 2, gradient, name="gradient")
            _same_memory(ours.memory, whole.memory)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    queue.put(problem)
    if dist.is_initialized():
        dist.destroy_process_group()


def check_warmup(method: Method[Any]) -> None:
    """While it warms up it is plain training, and its state is as it began."""
    criterion, fresh = _make(method, warmup=3), _make(method)
    _begin(criterion, 0)
    for seed in range(3):
        logits, labels, rows = _batch(seed)
        each = _stacked(method, logits).reshape(-1, *logits.shape)
        expected = sum(torch.nn.functional.cross_entropy(one, labels) for one in each)
        _close(_call(criterion, logits, labels, rows), expected)
        assert criterion.kept is not None
        assert bool(criterion.kept.all()), "nothing may be left out while warming up"
    for now, was in zip(criterion.memory.state, fresh.memory.state, strict=True):
        assert torch.equal(now, was), "the state must not move while warming up"


CHECKS: tuple[Callable[[Method[Any]], None], ...] = (
    check_declared,
    check_pure,
    check_permutation,
    check_masking,
    check_vmap,
    check_compiled,
    check_resuming,
    check_ranks,
    check_warmup,
)


def _make(method: Method[Any], rows: int = ROWS, warmup: int = 2, distributed: bool = True) -> Selection:
    clean = torch.rand(rows, generator=torch.Generator().manual_seed(5)) < 0.6 if method.privileged else None
    return Selection(method, warmup=warmup, rows=rows, classes=CLASSES, clean=clean, distributed=distributed)


def _begin(criterion: Selection, epoch: int, rows: int = ROWS) -> None:
    wanted, generator = criterion.method.full_pass, torch.Generator().manual_seed(epoch)
    shape = {"features": (rows, 3), "logits": (rows, CLASSES)}.get(wanted, (rows,))
    criterion.start_epoch(epoch, torch.rand(shape, generator=generator) * 4 if wanted else None)


def _trained(method: Method[Any], steps: int = 5) -> Selection:
    """A criterion past its warm-up, in its second epoch of selection, its state no longer as it began."""
    criterion = _make(method)
    for seed in range(steps):
        if seed % 2 == 0:
            _begin(criterion, seed // 2)
        _call(criterion, *_batch(seed))
    return criterion


def _batch(seed: int) -> Batch:
    """Logits with distinct losses around the thresholds, labels, and distinct rows."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(SIZE, CLASSES, generator=generator) * 2
    labels = torch.randint(CLASSES, (SIZE,), generator=generator)
    return logits, labels, torch.randperm(ROWS, generator=generator)[:SIZE]


def _stacked(method: Method[Any], logits: Tensor) -> Tensor:
    """Logits as a method wants them: beside them those of further networks or views, if it has several."""
    number = outputs(method)
    return logits if number == 1 else torch.stack([logits.roll(k, -1) * 0.9**k for k in range(number)])


def _call(criterion: Selection, logits: Tensor, labels: Tensor, rows: Tensor) -> Tensor:
    loss: Tensor = criterion(_stacked(criterion.method, logits), labels, rows)
    return loss


def _each(memory: Memory, function: Callable[[Tensor], Tensor]) -> Memory:
    return Memory(*(type(part)(*map(function, part)) for part in memory))


def _close(found: Any, expected: Any, rtol: float = 1e-5, atol: float = 1e-6, name: str = "found") -> None:
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, msg=lambda text: f"{name}: {text}")


def _same_memory(one: Memory, other: Memory, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    names = (*Tally._fields, *one.state._fields)
    for name, a, b in zip(names, (*one.tally, *one.state), (*other.tally, *other.state), strict=True):
        _close(a, b, rtol, atol, name)
