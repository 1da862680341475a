"""Tables that stay on the host: to the last bit what they are where the criterion is."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
import torch.distributed as dist

import adaptivek
from adaptivek.backend import host
from adaptivek.methods import METHODS
from adaptivek.step import IGNORE, Inputs, Loss

from .tiny import answered, swept

ROWS, CLASSES, SIZE = 30, 6, 16
WITH_TABLES = [name for name, method in METHODS.items() if method.tables]
PACKED = ("elr", "label-agreement", "label-memory", "label-posterior", "plc", "sat")


def make(method: str, **options: object) -> adaptivek.Selection:
    truth = {"clean": torch.arange(ROWS) % 3 > 0} if method == "oracle" else {}
    return adaptivek.Selection(method, warmup=2, **({"rows": ROWS, "classes": CLASSES} | options), **truth)


def pair(method: str, **options: object) -> tuple[adaptivek.Selection, adaptivek.Selection]:
    return make(method, table_device="cpu", **options), make(method, **options)


def batch(seed: int, repeated: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits, labels of which some are ignored, and row numbers, of which some may come twice or more."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(ROWS, generator=generator)[:SIZE]
    if repeated:
        rows = rows[torch.randint(SIZE, (SIZE,), generator=generator)]
    labels = torch.randint(CLASSES, (ROWS,), generator=torch.Generator().manual_seed(99))[rows]
    labels[torch.rand(SIZE, generator=generator) < 0.2] = IGNORE
    return torch.randn(SIZE, CLASSES, generator=generator) * 2, labels, rows


def step(criterion: adaptivek.Selection, seed: int, mine: slice = slice(None)) -> list[torch.Tensor]:
    """Loss, gradient and decisions of a batch, or of a rank's part of it; an epoch has three."""
    if seed % 3 == 0 and criterion.method.needs_epochs:
        method = criterion.method
        criterion.start_epoch(seed // 3, swept(method, ROWS, seed, CLASSES) if method.full_pass else None)
    logits, labels, rows = (part[mine] for part in batch(seed, repeated=seed % 2 == 1))
    logits.requires_grad_()
    loss = criterion(answered(criterion.method, logits), labels, rows)
    return [loss.detach(), *torch.autograd.grad(loss, logits), criterion.weights, criterion.confidence]


def same(found: adaptivek.Selection, expected: adaptivek.Selection) -> None:
    for one, other in zip(
        (*found.memory.tally, *found.memory.state), (*expected.memory.tally, *expected.memory.state), strict=True
    ):
        assert torch.equal(one, other)


def same_steps(
    found: adaptivek.Selection, expected: adaptivek.Selection, seeds: range, mine: slice = slice(None)
) -> None:
    for seed in seeds:
        for one, other in zip(step(found, seed, mine), step(expected, seed, mine), strict=True):
            assert torch.equal(one, other)
    same(found, expected)


@pytest.mark.parametrize("name", WITH_TABLES)
def test_every_method_does_the_same_to_the_last_bit(name):
    found, expected = pair(name)
    same_steps(found, expected, range(30))
    start = make(name)
    assert name == "oracle" or any(
        not torch.equal(getattr(found.memory.state, table), getattr(start.memory.state, table))
        for table in found.method.tables
    ), "nothing was ever written"


@pytest.mark.parametrize("name", PACKED)
def test_packed_rows_too(name):
    found, expected = pair(name, table_classes=3)
    same_steps(found, expected, range(30))
    assert any(value.dtype == torch.int16 for value in found.memory.state)


@pytest.mark.parametrize("name", ["label-memory", "elr"])
def test_rows_that_the_training_set_does_not_have_are_left_out_and_counted(name):
    found, expected = pair(name)
    for seed in range(6):
        logits, labels, rows = batch(seed, repeated=True)
        rows[::5], rows[1::5] = -3, ROWS + seed
        results = [
            criterion._advance(Inputs(logits=logits, labels=labels, rows=rows), Loss())
            for criterion in (found, expected)
        ]
        for (loss, outcome, _), (other, otherwise, _) in [results]:
            assert torch.equal(loss, other)
            assert torch.equal(outcome.weights, otherwise.weights)
    same(found, expected)
    assert found.tally.unknown_rows == 6 * 7


def test_a_method_sees_row_numbers_not_places():
    seen = []

    class Seeing(adaptivek.ELR):
        def step(self, state, batch):
            seen.append(batch.rows)
            return super().step(state, batch)

    criterion = adaptivek.Selection(Seeing(), rows=ROWS, classes=CLASSES, table_device="cpu")
    logits, labels, rows = batch(1, repeated=True)
    criterion(logits, labels, rows)
    assert torch.equal(seen[0], rows)


@pytest.mark.parametrize("method", ["label-memory", "label-posterior", "adaptive-k", "label-noised-trim"])
def test_where_there_are_no_tables_nothing_changes(method):
    """Since no rows were promised, or the method keeps none."""
    found, expected = pair(method, rows=None)
    for seed in range(5):
        logits, labels, rows = batch(seed)
        index = rows if expected.method.needs_rows else None
        assert torch.equal(found(logits, labels, index), expected(logits, labels, index))
    same(found, expected)


def test_an_empty_batch_and_one_of_which_all_is_ignored():
    found, expected = pair("elr")
    for criterion in (found, expected):
        for seed in range(4):
            step(criterion, seed)
        logits, labels, rows = batch(7)
        assert criterion(logits[:0], labels[:0], rows[:0]) == 0
        assert criterion(logits, torch.full_like(labels, IGNORE), rows) == 0
    same(found, expected)


def test_what_a_step_wrote_is_there_for_whoever_reads_it():
    """It is on its way until then; from the memory, a checkpoint and a copy nobody may get what was there before."""
    ways = {
        "memory": lambda c: c.memory.state.targets,
        "state_dict": lambda c: c.state_dict()["state_targets"],
        "of a model": lambda c: torch.nn.ModuleDict({"c": c}).state_dict()["c.state_targets"],
        "deepcopy": lambda c: copy.deepcopy(c).state_targets,
        "pickle": lambda c: pickle.loads(pickle.dumps(c)).state_targets,
    }
    for read in ways.values():
        found, expected = pair("elr")
        for seed in range(4):
            step(found, seed)
            step(expected, seed)
        assert not torch.equal(found.state_targets, expected.state_targets), "nothing is on its way"
        assert torch.equal(read(found), expected.state_targets)
        assert torch.equal(found.state_targets, expected.state_targets)


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("options", [{}, {"table_classes": 3}])
@pytest.mark.parametrize("name", ["label-memory", "label-posterior", "elr", "sat"])
def test_checkpoints_go_from_the_one_to_the_other(name, options, assign):
    """Stopped in mid-run and gone on with, whichever of them saved and whichever loads."""
    whole = make(name, **options)
    same_steps(make(name, **options), whole, range(12))
    for first, second in (("cpu", None), (None, "cpu"), ("cpu", "cpu")):
        saving, loading = make(name, table_device=first, **options), make(name, table_device=second, **options)
        for seed in range(5):
            step(saving, seed)
            step(loading, seed + 50)  # what is loaded must not be spoilt by what is on its way
        file = io.BytesIO()
        torch.save(saving.state_dict(), file)
        loading.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True), assign=assign)
        for seed in range(5, 12):
            step(loading, seed)
        same(loading, whole)


def test_it_may_begin_with_predictions_and_learn_how_many_classes_there_are():
    predictions = torch.randn(ROWS, CLASSES, generator=torch.Generator().manual_seed(0)).softmax(1)
    for name in ("label-memory", "label-posterior"):
        begun, expected = pair(name, start=predictions)
        torch.testing.assert_close(begun.state_predictions, predictions)
        same_steps(begun, expected, range(6))
        assert not torch.allclose(begun.memory.state.predictions, predictions), "nothing was ever written"
        learning, expected = pair(name, classes=None)
        same_steps(learning, expected, range(6))
        assert learning.memory.state.predictions.shape == (ROWS, CLASSES)


def test_judging_one_view_for_another_is_the_same():
    found, expected = pair("label-posterior")
    for seed in range(6):
        for one, other in zip(found.judge(*batch(seed)), expected.judge(*batch(seed)), strict=True):
            assert torch.equal(one, other)
    same(found, expected)


def test_all_but_the_tables_moves():
    """To a device without memory, since a GPU may not be at hand."""
    criterion = make("label-posterior", table_device=torch.device("cpu")).to("meta").half()
    kept = {name for name, value in criterion.named_buffers() if not value.is_meta}
    assert kept == {"state_predictions", "state_visits"}
    assert criterion.state_predictions.dtype == torch.float32
    with torch.device("meta"):
        assert not make("elr", table_device="cpu").state_targets.is_meta


def test_what_does_not_fit_on_a_gpu_is_told_of_the_host():
    def full(tensor):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(MemoryError, match=r'With table_classes=4 it .*\. With table_device="cpu" the tables stay in'):
        make("elr")._apply(full)
    with pytest.raises(MemoryError, match=r"for rows=30 and classes=6; less is free") as told:
        make("label-memory", table_device="cpu")._apply(full)  # they are there already
    assert "table_device" not in str(told.value)
    assert "needs 0.000" in str(told.value)


@pytest.mark.parametrize("device", ["cuda", "gpu", torch.device("meta"), 0])
def test_other_devices_are_refused(device):
    with pytest.raises(ValueError, match='Selection: table_device must be None or "cpu", got'):
        make("elr", table_device=device)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_compiled_it_is_refused_before_anything_is_remembered(fullgraph):
    torch.compiler.reset()
    found, expected = pair("label-memory")
    with pytest.raises(
        Exception, match="table_device must be None for a step that is compiled, transformed or captured"
    ):
        torch.compile(found, backend="eager", fullgraph=fullgraph)(*batch(0))
    logits, *others = batch(0)
    with pytest.raises(RuntimeError, match="table_device must be None for a step that is compiled, transformed or"):
        torch.func.grad(lambda x: found(x, *others))(logits)
    same_steps(found, expected, range(4))


def tables_on_the_host() -> None:
    """The same on two ranks, of which one may have nothing; run by `ranks`."""
    for name in PACKED:
        for options in ({}, {"table_classes": 3}):
            found, expected = pair(name, **options)
            for turn, cut in enumerate((8, 5, SIZE)):
                mine = slice(cut) if dist.get_rank() == 0 else slice(cut, None)
                same_steps(found, expected, range(4 * turn, 4 * turn + 4), mine)
            assert found.tally.last_seen > SIZE / 2, "the other rank's samples are missing"


def on_gpu(seed: int) -> tuple[torch.Tensor, ...]:
    return tuple(part.cuda() for part in batch(seed, repeated=seed % 2 == 1))


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{}, {"table_classes": 3}])
@pytest.mark.parametrize("name", PACKED)
def test_on_a_gpu_it_is_as_with_the_tables_there(name, options):
    found, expected = make(name, table_device="cpu", **options).cuda(), make(name, cuda_graph=False, **options).cuda()
    for seed in range(30):
        if seed % 3 == 0:
            for criterion in (found, expected):
                criterion.start_epoch(seed // 3)
        logits, labels, rows = on_gpu(seed)
        logits.requires_grad_()
        loss, other = found(logits, labels, rows.cpu() if seed < 20 else rows), expected(logits, labels, rows)
        torch.testing.assert_close(loss, other, rtol=1e-3, atol=1e-4)
        (one,), (another,) = torch.autograd.grad(loss, logits), torch.autograd.grad(other, logits)
        torch.testing.assert_close(one, another, rtol=1e-3, atol=1e-4)
    assert len(found._replay._graphs) == 1, "no step was recorded"
    table = found.method.tables[-1]
    assert not getattr(found.memory.state, table).is_cuda
    if not options:
        torch.testing.assert_close(
            getattr(found.memory.state, table), getattr(expected.memory.state, table).cpu(), rtol=1e-3, atol=1e-4
        )
    again = make(name, table_device="cpu", **options)
    again.load_state_dict(expected.state_dict(), assign=True)
    assert not getattr(again.memory.state, table).is_cuda


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")  # that it does not see everything
def test_on_a_gpu_no_step_waits_for_what_the_device_has_to_do():
    """But for the step before, which no debug mode calls waiting; and for row numbers that are on the device."""
    criterion = make("label-posterior", table_device="cpu").cuda()
    given = [on_gpu(seed) for seed in range(9)]
    given = [(logits.requires_grad_(), labels, rows.cpu()) for logits, labels, rows in given]
    for number, one in enumerate(given):
        torch.cuda.set_sync_debug_mode("error" if number > 2 else "default")  # the first looks at values
        try:
            criterion(*one).backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert criterion.tally.step == 9


def test_each_row_is_lent_once():
    """In blocks of the size of the batch, whatever rows it has: a recorded step is replayed on them."""
    criterion = make("elr", table_device="cpu")
    rows = torch.tensor([7, 2, 7, -1, 2, 29, ROWS])
    lent = host.lend(criterion._tables(), rows, torch.device("cpu"))
    assert lent.rows.tolist() == [0, 2, 7, 29]
    assert [block.shape for block in lent.blocks] == [(7, CLASSES)]
    assert lent.places.tolist() == [2, 1, 2, -1, 1, 3, -1]
    assert lent.asked.tolist() == [7, 2, 7, 0, 2, 29, 29]
