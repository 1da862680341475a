"""Tables of packed rows: what they keep, in how many bytes, and that methods work on them as on full ones."""

from __future__ import annotations

import functools
import io

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import adaptivek
from adaptivek import testing
from adaptivek.backend import compact, fitting, tables
from adaptivek.methods import METHODS

from .test_tables import slowly

BY_CLASS = ("elr", "label-agreement", "label-memory", "label-posterior", "lccn", "plc", "sat", "selc", "sop")


def kept_of(row: np.ndarray, kept: int) -> np.ndarray:
    """Slowly: the highest as they are, for each of the others their mean."""
    found = np.full(len(row), np.sort(row)[:-kept].mean())
    highest = np.argsort(row)[-kept:]
    found[highest] = row[highest]
    return found


@given(seed=st.integers(0, 1000), classes=st.integers(2, 300), sharp=st.floats(0.1, 10), data=st.data())
def test_the_highest_classes_are_kept_and_the_mean_of_the_rest(seed, classes, sharp, data):
    kept = data.draw(st.integers(1, classes - 1))
    p = (sharp * np.random.default_rng(seed).normal(size=(4, classes))).astype(np.float32)
    p = torch.from_numpy(p).softmax(-1)
    packed = compact.pack(p, kept)
    found = compact.unpack(packed, classes)
    expected = np.stack([kept_of(row, kept) for row in p.numpy()])
    np.testing.assert_allclose(found, expected, rtol=4e-4, atol=1e-9)
    assert (found.sum(-1) < 1 + 2e-5).all()
    assert torch.equal(compact.unpack(compact.pack(found, kept), classes), found)  # what stands still stays for ever
    assert compact.classes_of(packed) == classes
    assert packed.numel() * packed.element_size() == 4 * 4 * (1 + kept)


def test_an_average_that_moves_in_small_steps_gets_there():
    """Coarse numbers would stand still as soon as a step is less than half of their distance."""
    towards, memory = torch.tensor([[0.9, 0.07, 0.02, 0.007, 0.003]]), compact.pack(torch.zeros(1, 5), 3)
    for _ in range(1000):
        old = compact.unpack(memory, 5)
        memory = compact.pack(old + 0.02 * (towards - old), 3)
    np.testing.assert_allclose(compact.unpack(memory, 5), [kept_of(towards[0].numpy(), 3)], rtol=0.02)


@given(data=st.data(), size=st.integers(1, 12))
def test_a_row_that_comes_twice_is_written_once_with_the_mean(data, size):
    rows = data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))
    valid = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    table, entries = torch.rand(10, 6), torch.rand(size, 6)
    packed = compact.pack(table, 5)  # of 6: the one that is left out is its own mean
    tables.write(packed, torch.tensor(rows), entries, torch.tensor(valid))
    expected = slowly(table.numpy(), rows, entries.numpy(), valid)
    np.testing.assert_allclose(compact.unpack(packed, 6), expected, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(torch.cat([p for _, p in tables.parts(packed)]), expected, rtol=1e-3, atol=1e-6)


def test_large_tables_are_unpacked_part_by_part(monkeypatch):
    monkeypatch.setattr(tables, "PART_BYTES", 4 * 6 * 7 * 2)  # seven rows with a window of two
    table = torch.rand(20, 2, 6)
    found = list(tables.parts(compact.pack(table, 5)))
    assert [len(part) for _, part in found] == [7, 7, 6]
    for rows, part in found:
        torch.testing.assert_close(part, table[rows], rtol=1e-3, atol=1e-6)


@pytest.fixture
def packed(monkeypatch):
    """Every table by class is packed, with four of the five classes, so that little is lost."""
    usual = fitting.kept_classes
    monkeypatch.setattr(fitting, "kept_classes", lambda rows, classes, wanted: usual(rows, classes, wanted or 4))


def test_these_are_all_methods_with_such_tables(packed):
    def has(name):
        state = testing._make(METHODS[name](), warmup=0).memory.state
        return any(compact.is_packed(getattr(state, table)) for table in METHODS[name].tables)

    assert tuple(name for name in sorted(METHODS) if has(name)) == BY_CLASS


@pytest.mark.parametrize("name", BY_CLASS)
def test_a_method_does_on_packed_rows_what_it_does_on_full_ones(name, packed):
    method = METHODS[name]()
    for check in (testing.check_pure, testing.check_masking, testing.check_vmap, testing.check_resuming):
        check(method)
    small = testing._trained(method, steps=9)
    full = adaptivek.Selection(method, warmup=2, rows=testing.ROWS, classes=testing.CLASSES, table_classes=5)
    for seed in range(9):
        if seed % 2 == 0:
            testing._begin(full, seed // 2)
        testing._call(full, *testing._batch(seed))
    logits, labels, rows = testing._batch(3)  # rows that were visited
    a, b = testing._call(small, logits, labels, rows), testing._call(full, logits, labels, rows)
    torch.testing.assert_close(a, b, rtol=2e-3, atol=1e-4)
    torch.testing.assert_close(small.weights, full.weights, rtol=2e-3, atol=1e-3)
    assert sum(map(compact.is_packed, full.memory.state)) == 0


def test_packed_rows_are_the_same_on_two_ranks(packed):
    testing.check_ranks(adaptivek.LabelMemory())


def test_bytes_of_imagenet_and_of_ten_million_rows():
    """Without values: as many bytes as there would be."""
    for rows, most in ((1_281_167, 200e6), (10_000_000, 1e9)):
        kept = fitting.kept_classes(rows, 1000, None)
        with torch.device("meta"):
            table = adaptivek.Task(
                rows=rows, classes=1000, pack=functools.partial(compact.pack, kept=kept)
            ).per_row_and_class(0.0)
        assert kept == fitting.KEPT
        assert fitting.number_of_bytes([table]) <= min(most, rows * (16 + 3 * kept))


def test_what_is_saved_is_as_small_and_a_full_table_does_not_take_it():
    criterion = adaptivek.Selection(rows=2000, classes=100, table_classes=12)
    criterion(torch.randn(8, 100), torch.arange(8), torch.arange(8))
    file = io.BytesIO()
    torch.save(criterion.state_dict(), file)
    assert len(file.getvalue()) < 2000 * 56 + 4 * 100 * 100 + 20_000
    again = adaptivek.Selection(rows=2000, classes=100, table_classes=12)
    again.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    assert torch.equal(again.state_predictions, criterion.state_predictions)
    with pytest.raises(ValueError, match="must be of table_classes=20, got table_classes=12"):
        adaptivek.Selection(rows=2000, classes=100, table_classes=20).load_state_dict(criterion.state_dict())


def test_few_classes_and_small_tables_are_kept_in_full():
    assert fitting.kept_classes(10_000_000, 64, None) is None
    assert fitting.kept_classes(50_000, 1000, None) is None
    assert fitting.kept_classes(100_000, 1000, None) == fitting.KEPT
    assert fitting.kept_classes(100_000, 1000, 1000) is None
    assert fitting.kept_classes(10, 10, 3) == 3
    assert fitting.kept_classes(100_000, 70_000, None) is None  # more than can be packed
    with pytest.raises(ValueError, match="table_classes must be classes=70000 for more than 65536 classes, got 12"):
        fitting.kept_classes(10, 70_000, 12)


@pytest.mark.parametrize(
    ("method", "given", "told"),
    [
        (
            "label-memory",
            {"rows": 1_281_167, "classes": 1000, "table_classes": 1000},
            "needs 5.13 GB for rows=1281167 and classes=1000; 2 GB are free. With table_classes=12 it takes 70.6 MB",
        ),
        (
            "label-memory",
            {"rows": 50_000_000, "classes": 1000},
            "needs 2.6 GB for rows=50000000 and classes=1000; 2 GB are free. With table_classes=4 it takes 1 GB",
        ),
        (
            "label-memory",
            {"rows": 10**10, "classes": 10},
            "needs 400 GB for rows=10000000000 and classes=10; 2 GB are free. Without rows= it remembers no row",
        ),
        (
            "label-memory",
            {"rows": 10**10},
            "needs 80 GB for rows=10000000000 and classes=2",
        ),
        ("label-memory", {"rows": 10**20, "classes": 10}, "needs 4,000,000 PB for rows=1"),
        ("lccn", {"rows": 10, "classes": 50_000}, "needs 10 GB for rows=10 and classes=50000; 2 GB are free. Methods"),
        ("beta-mixture", {"rows": 10**9}, "needs 4 GB for rows=1000000000 and classes=0; 2 GB are free. Methods that"),
        ("itlm", {"rows": 10**10}, "needs 10 GB for rows=10000000000 and classes=0; 2 GB are free. Methods that rem"),
    ],
)
def test_what_does_not_fit_says_so_before_training(method, given, told, monkeypatch):
    monkeypatch.setattr(fitting, "available_bytes", lambda: 2 * 10**9)
    with pytest.raises(MemoryError, match=f"Selection: {method} {told}"):
        adaptivek.Selection(method, warmup=0, **given)


def test_what_is_advised_fits(monkeypatch):
    monkeypatch.setattr(fitting, "available_bytes", lambda: 10**6)
    monkeypatch.setattr(fitting, "CHECKED_BYTES", 10**6)
    with pytest.raises(MemoryError, match=r"With table_classes=2 it takes 0.8\d* MB"):
        adaptivek.Selection(rows=40_000, classes=20)
    criterion = adaptivek.Selection(rows=40_000, classes=20, table_classes=2)
    assert 0.8e6 < fitting.number_of_bytes(criterion.memory.state) < 1e6
    with pytest.raises(MemoryError, match="Without rows="):
        adaptivek.Selection(rows=400_000, classes=20)
    adaptivek.Selection(classes=20)


def test_what_does_not_fit_on_a_gpu_says_so():
    criterion = adaptivek.Selection(rows=100, classes=20)

    def full(tensor):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(MemoryError, match=r"for rows=100 and classes=20; less is free. With table_classes=12 it takes"):
        criterion._apply(full)


def test_a_table_of_ones_own_may_not_look_packed():
    class Short(adaptivek.Method):
        name, tables, needs_logits = "short", ("seen",), False

        def init(self, task):
            from collections import namedtuple

            return namedtuple("Seen", "seen")(torch.zeros(task.rows, dtype=torch.int16))

        def step(self, state, batch):
            return adaptivek.Decision(batch.valid)

    with pytest.raises(ValueError, match="Short: seen must be of another type than int16"):
        adaptivek.Selection(Short(), rows=3)


def test_a_method_that_reads_whole_tables_gets_full_ones():
    class Whole(adaptivek.ELR):
        def start_epoch(self, state, epoch, full_pass):
            return state

    assert Whole().start_epoch is not None
    with pytest.raises(ValueError, match="table_classes must be left out for elr, got 3"):
        adaptivek.Selection(Whole(), rows=3, classes=10, table_classes=3)
    assert adaptivek.Selection(Whole(), rows=3, classes=10).state_targets.shape == (3, 10)


@pytest.mark.parametrize("limit", ["max", "1000", None])
def test_free_memory_is_that_of_the_machine_or_of_the_container(limit, monkeypatch):
    files = {
        "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 3 kB\n",
        "/sys/fs/cgroup/memory.max": limit,
        "/sys/fs/cgroup/memory.current": "400",
    }

    def read(path):
        if files[str(path)] is None:
            raise FileNotFoundError
        return files[str(path)]

    monkeypatch.setattr(fitting.Path, "read_text", read)
    assert fitting.available_bytes() == (600 if limit == "1000" else 3072)
    files["/proc/meminfo"] = ""
    assert fitting.available_bytes() is None
