"""Many small GPU operations as one launch.

What a criterion adds to a step is arithmetic on a handful of numbers: dozens of launches that do next to
nothing, which on a GPU would take longer than the loss itself. A CUDA graph replays them as one.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .values import has_values

#: of a tensor to differentiate by, and of others: a scalar, and a vector to keep with it
Function = Callable[..., tuple[Tensor, Tensor]]

EAGER_CALLS = 2  # before capture: it may record only kernels that are loaded
MOST_GRAPHS = 8  # at a time; the one that was not used for longest makes room
BUDGET = 256 * 2**20  # bytes that all graphs of a criterion may hold; one alone a quarter of it
SHAPES = 64  # whose calls are counted


class _Graph(NamedTuple):
    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor | None, ...]
    row: Tensor  #: scalar, vector and gradient, one after the other: copied out in one go
    split: int  #: where the gradient starts
    bytes: int


class Replay:
    """Runs a function and its gradient as a CUDA graph, one per key and shapes, after a few plain calls.

    The function may change tensors in place: such as are not among its inputs, and those of them that come last, so
    many as ``changing`` says. Whatever else it depends on must be in the key. What is too large for a graph takes so
    long that launches do not matter, and runs as it is.
    """

    def __init__(self) -> None:
        self._calls: OrderedDict[Hashable, int] = OrderedDict()
        self._graphs: OrderedDict[Hashable, _Graph] = OrderedDict()
        self._evicted = 0

    def __reduce__(self) -> tuple[type[Replay], tuple[()]]:
        return Replay, ()  # a copy, or what comes out of a file, captures anew

    def __call__(
        self, function: Function, key: Hashable, x: Tensor, *others: Tensor | None, changing: int = 0
    ) -> tuple[Tensor, Tensor]:
        key = (function.__name__, key, *(None if t is None else (t.shape, t.dtype) for t in (x, *others)))
        graph = self._graphs.get(key)
        if graph is None:
            size = _bytes(x, others)
            if size > BUDGET // 4 or not self._settled(key):
                return function(x, *others)
            self._make_room(size)
            graph = self._graphs[key] = _capture(function, x, others)
        self._graphs.move_to_end(key)
        for held, given in zip(graph.inputs, (x.detach(), *others), strict=True):
            if held is not None and given is not None:
                held.copy_(given)
        graph.graph.replay()
        first = len(others) - changing
        for held, given in zip(graph.inputs[1 + first :], others[first:], strict=True):
            if held is not None and given is not None:
                given.copy_(held)
        row = graph.row.clone()  # the next replay writes over it, perhaps before backward
        return _Known.apply(x, row, graph.split), row[1 : graph.split]  # type: ignore[no-untyped-call]

    def _settled(self, key: Hashable) -> bool:
        """Whether it has been called often enough; each time a graph had to go, twice as often."""
        calls = self._calls[key] = self._calls.pop(key, 0) + 1
        if len(self._calls) > SHAPES:
            self._calls.popitem(last=False)
        return calls > EAGER_CALLS << self._evicted

    def _make_room(self, size: int) -> None:
        while self._graphs and (
            len(self._graphs) >= MOST_GRAPHS or sum(graph.bytes for graph in self._graphs.values()) + size > BUDGET
        ):
            key, _ = self._graphs.popitem(last=False)
            self._calls.pop(key, None)
            self._evicted += 1


def replayable(x: Tensor) -> bool:
    """Whether work on ``x`` is plain eager GPU training: not compiled, transformed, or captured by the user."""
    return x.is_cuda and x.requires_grad and torch.is_grad_enabled() and has_values(x)


def _bytes(x: Tensor, others: tuple[Tensor | None, ...]) -> int:
    """What a graph holds: a copy of the inputs, and the gradient."""
    return 8 * x.numel() + sum(t.numel() * t.element_size() for t in others if t is not None)


class _Known(torch.autograd.Function):
    """A scalar whose gradient has been computed along with it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, row: Tensor, split: int) -> Tensor:
        ctx.save_for_backward(row)
        ctx.split, ctx.shape = split, x.shape
        return row[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        if torch.is_grad_enabled():
            raise RuntimeError("second derivatives of the criterion on a GPU need Selection(..., cuda_graph=False)")
        (row,) = ctx.saved_tensors
        return gradients[0] * row[ctx.split :].view(ctx.shape), None, None


def _capture(function: Function, x: Tensor, others: tuple[Tensor | None, ...]) -> _Graph:
    # in full precision: a gradient kept in half would vanish before a loss scaler gets to multiply it
    held = torch.empty_like(x, dtype=torch.promote_types(x.dtype, torch.float32)).requires_grad_()
    held_others = tuple(None if t is None else t.clone() for t in others)

    def run() -> Tensor:
        value, vector = function(held, *held_others)
        (gradient,) = torch.autograd.grad(value, held)
        return torch.cat([value.detach().view(1), vector.flatten(), gradient.flatten()])

    graph, row = _record(run)
    return _Graph(graph, (held.detach(), *held_others), row, len(row) - x.numel(), _bytes(x, others))


def _record(run: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    graph = torch.cuda.CUDAGraph()
    # thread_local: other threads, such as a data loader's, go on allocating
    with torch.cuda.graph(graph, pool=_pool(torch.cuda.current_device()), capture_error_mode="thread_local"):
        row = run()
    return graph, row


@functools.cache
def _pool(device: int) -> Any:
    """Memory that all graphs of a device share: they run one after the other."""
    return torch.cuda.graph_pool_handle()
