"""Replaying a step, without a GPU: the graph is played by a stand-in that runs the recorded step again."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import adaptivek
from adaptivek.backend import cuda_graph as replay

from .reference import ONE_EACH
from .tiny import answered, swept

ROWS = 200


class StandIn:
    """Like a CUDA graph: recording changes nothing, replaying runs on the same tensors and fills the same row."""

    def __init__(self, run, row):
        self.run, self.row, self.replays = run, row, 0

    def replay(self):
        self.replays += 1
        self.row.copy_(self.run())


def make(text: str, **options: object) -> adaptivek.Selection:
    clean = torch.arange(ROWS) % 3 > 0
    truth = {"clean": clean} if text == "oracle" else {}
    criterion = adaptivek.Selection(text, warmup=2, rows=ROWS, classes=5, **truth, **options)
    if criterion.method.needs_epochs:
        criterion.start_epoch(0, swept(criterion.method, ROWS))
    return criterion


def batch(seed: int, size: int = 24):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, 5, generator=generator) * 3
    target = torch.randint(5, (size,), generator=generator)
    target[0] = -100
    return logits, target, torch.randperm(ROWS, generator=generator)[:size]


@pytest.fixture
def criterion_that_replays(monkeypatch):
    def make_one(text: str, **options: object) -> adaptivek.Selection:
        criterion = make(text, **options)

        def record(run):
            before = [buffer.clone() for buffer in criterion.buffers()]
            row = torch.full_like(run(), torch.nan)  # only a replay may fill it
            for buffer, value in zip(criterion.buffers(), before, strict=True):
                buffer.copy_(value)
            return StandIn(run, row), row

        monkeypatch.setattr(replay, "_record", record)
        monkeypatch.setattr(
            adaptivek.criterion, "replayable", lambda x: x.requires_grad and x.device.type == "cpu" and _on[0]
        )
        return criterion

    _on = [True]
    make_one.on = _on
    return make_one


@pytest.mark.parametrize("text", ONE_EACH)
@pytest.mark.parametrize("half", [False, True])
def test_replayed_equals_eager(text, half, criterion_that_replays):
    """With two calls before one backward, a shape that comes and goes, and buffers that are replaced."""
    replayed, eager = criterion_that_replays(text), make(text)
    for number in range(30):
        logits, target, index = batch(number, 16 if number % 5 == 4 else 24)
        if number == 15:
            replayed.load_state_dict({k: v.clone() for k, v in replayed.state_dict().items()}, assign=True)
        grads = []
        for criterion, on in ((replayed, True), (eager, False)):
            criterion_that_replays.on[0] = on
            x = (logits.half() if half else logits).clone().requires_grad_()
            scale = 1024 if half else 1
            first = criterion(answered(criterion.method, x), target, index)
            second = criterion(answered(criterion.method, x * 2), target, index)
            total = first + 3 * second
            if not criterion.takes_logits:
                total = total + criterion.reduce((x.float() ** 2).mean(1), index=index)
            (scale * total).backward()
            grads.append(x.grad)
        # in half the gradients of both calls are rounded before they are added, and may nearly cancel
        torch.testing.assert_close(*grads, **({"rtol": 1e-3, "atol": 1e-4} if half else {}))
        assert grads[0].dtype == x.dtype
        assert torch.equal(replayed.kept, eager.kept)
        assert replayed.kept.shape == answered(replayed.method, logits).shape[:-1]
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(replayed.state_dict()[name], value)
    graphs = replayed._replay._graphs.values()
    # logits, and losses unless they are not enough, in two shapes, before and after the buffers were replaced
    assert len(graphs) == (4 if eager.takes_logits else 8)
    assert all(graph.graph.replays > 0 for graph in graphs)


@pytest.mark.parametrize("options", [{}, {"table_classes": 3}])
@pytest.mark.parametrize("text", ["elr", "label-agreement", "label-memory", "label-posterior", "plc", "sat"])
def test_tables_on_the_host_are_lent_to_a_replay(text, options, criterion_that_replays):
    """With rows that come twice in a batch, and a shape that comes and goes."""
    replayed, eager = criterion_that_replays(text, table_device="cpu", **options), make(text, **options)
    for number in range(24):
        if number % 6 == 0:
            for criterion in (replayed, eager):
                criterion.start_epoch(number // 6)
        logits, target, index = batch(number, 16 if number % 5 == 4 else 24)
        index[3:6] = index[0]
        gradients = []
        for criterion, on in ((replayed, True), (eager, False)):
            criterion_that_replays.on[0] = on
            x = logits.clone().requires_grad_()
            criterion(x, target, index).backward()
            gradients.append(x.grad)
        torch.testing.assert_close(*gradients)
        torch.testing.assert_close(replayed.confidence, eager.confidence)
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(replayed.state_dict()[name], value)
    start = make(text, **options)
    assert not torch.equal(
        eager.get_buffer(f"state_{eager.method.tables[0]}"), start.get_buffer(f"state_{eager.method.tables[0]}")
    )
    assert sorted(graph.graph.replays for graph in replayed._replay._graphs.values()) == [2, 18]


def test_small_gradients_survive_half_precision(criterion_that_replays):
    """Scaled by 2^16, as a loss scaler does; kept in half before that, they would be 0."""
    criterion = criterion_that_replays("vanilla")
    criterion.classes = 2
    x = torch.tensor([[0.0, 17.0]], dtype=torch.float16, requires_grad=True)
    for _ in range(4):
        x.grad = None
        (2**16 * criterion(x, torch.tensor([1]))).backward()
    expected = 2**16 / (1 + torch.tensor(17.0).exp())
    torch.testing.assert_close(x.grad[0, 0].float(), expected, rtol=1e-3, atol=0)


def shapes(criterion: adaptivek.Selection) -> list[int]:
    """Of the losses whose graphs there are, the one that was used longest ago first."""
    return [graph.inputs[0].numel() for graph in criterion._replay._graphs.values()]


def reduce_often(criterion: adaptivek.Selection, size: int, times: int) -> None:
    for _ in range(times):
        losses = torch.rand(size, requires_grad=True)
        torch.testing.assert_close(criterion.reduce(losses), losses.mean())


def test_where_shapes_keep_changing_few_graphs_are_made(criterion_that_replays, monkeypatch):
    """Making one takes long: a shape must come up twice as often after each that had to go."""
    made = []
    criterion = criterion_that_replays("vanilla")
    record = replay._record
    monkeypatch.setattr(replay, "_record", lambda run: made.append(1) or record(run))
    for size in range(1, 200):
        reduce_often(criterion, size, times=4)
    assert shapes(criterion) == list(range(2, replay.MOST_GRAPHS + 2))
    assert len(made) == replay.MOST_GRAPHS + 1
    assert len(criterion._replay._calls) <= replay.SHAPES


def test_the_graph_that_was_not_used_for_longest_makes_room(criterion_that_replays):
    criterion = criterion_that_replays("vanilla")
    for size in range(1, replay.MOST_GRAPHS + 1):
        reduce_often(criterion, size, times=3)
    reduce_often(criterion, 1, times=1)
    reduce_often(criterion, 100, times=3)
    assert shapes(criterion) == [*range(3, replay.MOST_GRAPHS + 1), 1, 100]


def test_graphs_hold_no_more_bytes_than_they_may(criterion_that_replays, monkeypatch):
    """A large vocabulary takes so long that launches do not matter: it runs as it is."""
    monkeypatch.setattr(replay, "BUDGET", 8 * 1000)
    criterion = criterion_that_replays("vanilla")
    reduce_often(criterion, 251, times=9)
    assert shapes(criterion) == []
    for size in (250, 249, 248, 247):
        reduce_often(criterion, size, times=9)
    assert shapes(criterion) == [250, 249, 248, 247]
    reduce_often(criterion, 246, times=9)
    assert shapes(criterion) == [249, 248, 247, 246]
    assert sum(graph.bytes for graph in criterion._replay._graphs.values()) <= replay.BUDGET


def test_plain_training_for_a_while_needs_no_graph_of_its_own(criterion_that_replays):
    """As `ClassMonitor` asks for it, again and again."""
    criterion = criterion_that_replays("mkl:keep=0.5")
    losses = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    for _ in range(12):
        for _ in range(2):
            criterion.reduce(losses)
        criterion.train_plainly(1)
        criterion.reduce(losses)
        assert criterion.kept.all()
        criterion.reduce(losses)
        assert criterion.kept.sum() == 2
    assert len(criterion._replay._graphs) == 1


def test_a_changed_method_is_not_replayed_from_the_old_one(criterion_that_replays):
    criterion = criterion_that_replays("mkl:keep=0.5")
    losses = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    for _ in range(5):
        criterion.reduce(losses)
    assert criterion.kept.sum() == 2
    criterion.method = adaptivek.MKL(keep=0.25)
    for _ in range(5):
        criterion.reduce(losses)
        assert criterion.kept.sum() == 1


def test_second_derivatives_are_refused_not_wrong(criterion_that_replays):
    criterion = criterion_that_replays("vanilla")
    x, y, _ = batch(0)
    x.requires_grad_()
    for _ in range(4):
        loss = criterion(x, y)
    with pytest.raises(RuntimeError, match="cuda_graph=False"):
        torch.autograd.grad(loss, x, create_graph=True)


def test_copies_and_pickles_leave_the_graphs_behind(criterion_that_replays):
    criterion = criterion_that_replays("adaptive-k")
    x, y, _ = batch(0)
    for _ in range(4):
        criterion(x.requires_grad_(), y)
    assert criterion._replay._graphs
    for other in (copy.deepcopy(criterion), pickle.loads(pickle.dumps(criterion))):
        assert not other._replay._graphs
        assert torch.equal(other.state_m, criterion.state_m)


def test_nothing_is_replayed_on_the_host():
    assert not replay.replayable(torch.zeros(2, requires_grad=True))


def test_nothing_is_replayed_with_other_ranks(criterion_that_replays, monkeypatch):
    """Collectives wait for each other: they are no part of a graph."""
    monkeypatch.setattr(adaptivek.criterion, "process_group", lambda distributed: "group")
    monkeypatch.setattr(adaptivek.criterion, "gather", lambda group, inputs: (inputs, slice(0, 24)))
    monkeypatch.setattr(adaptivek.criterion, "for_averaging", lambda loss, group: loss)
    criterion = criterion_that_replays("adaptive-k")
    x, y, _ = batch(0)
    for _ in range(5):
        criterion(x.requires_grad_(), y)
    assert criterion.tally_step == 5
    assert not criterion._replay._graphs
