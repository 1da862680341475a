"""Rows that stand in a batch more than once, for every table and method."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import vmap

import adaptivek
from adaptivek.backend import compact, tables
from adaptivek.methods import METHODS

from .tiny import swept

ROWS, CLASSES = 10, 4


def slowly(table: np.ndarray, rows: list[int], entries: np.ndarray, valid: list[bool]) -> np.ndarray:
    """Row by row: the mean of what is written into it; of whole numbers the first."""
    table = table.copy()
    for row in set(rows):
        new = [entry for entry, at, counts in zip(entries, rows, valid, strict=True) if at == row and counts]
        if new:
            table[row] = np.mean(new, 0) if table.dtype == np.float32 else new[0]
    return table


@given(data=st.data(), size=st.integers(1, 12), shape=st.sampled_from([(), (3,)]), whole=st.booleans())
def test_a_row_is_written_once_with_the_mean(data, size, shape, whole):
    rows = data.draw(st.lists(st.integers(0, ROWS - 1), min_size=size, max_size=size))
    valid = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    rng = np.random.default_rng(size)
    kind = np.int64 if whole else np.float32
    table, entries = (rng.normal(size=(n, *shape)) * 10 for n in (ROWS, size))
    table, entries = table.astype(kind), entries.astype(kind)
    found = torch.from_numpy(table.copy())
    spoilt = torch.from_numpy(entries.copy())
    if not whole:
        spoilt[~torch.tensor(valid)] = torch.nan  # what is not valid may be anything
    tables.write(found, torch.tensor(rows), spoilt, torch.tensor(valid))
    np.testing.assert_allclose(found, slowly(table, rows, entries, valid), rtol=1e-5, atol=1e-6)
    stacked = torch.from_numpy(np.stack([table, table]))
    vmap(lambda t: tables.write(t, torch.tensor(rows), spoilt, torch.tensor(valid)) or t.sum())(stacked)
    assert torch.equal(stacked[0], found)
    assert torch.equal(stacked[1], found)


def test_a_row_that_is_alone_is_written_to_the_last_bit():
    table, entries = torch.rand(ROWS, 3), torch.rand(ROWS, 3)
    tables.write(table, torch.randperm(ROWS), entries, torch.ones(ROWS, dtype=torch.bool))
    assert sorted(table.flatten().tolist()) == sorted(entries.flatten().tolist())


@pytest.mark.parametrize("table", [torch.rand(ROWS, 40), torch.arange(ROWS), compact.pack(torch.rand(ROWS, 40), 3)])
def test_rows_that_are_seen_to_be_distinct_are_written_as_others_are(table, monkeypatch):
    entries = torch.rand(6, 40) if table.dim() == 2 else torch.arange(6) + 100
    rows, valid = torch.tensor([7, 2, 9, 0, 4, 1]), torch.tensor([True, True, False, True, False, True])
    seen, unseen = table.clone(), table.clone()
    tables.write(seen, rows, entries, valid)
    monkeypatch.setattr(tables, "_surely_distinct", lambda rows: False)
    tables.write(unseen, rows, entries, valid)
    assert torch.equal(seen, unseen)
    assert not torch.equal(seen, table)


@pytest.mark.parametrize("name", [name for name, m in METHODS.items() if m.tables and not m.privileged])
def test_the_order_of_a_batch_with_repeated_rows_does_not_matter(name):
    """As a weighted sampler draws them. Written one after the other, the last, or one by chance, would win."""
    one, other = (adaptivek.Selection(name, warmup=0, rows=ROWS, classes=CLASSES) for _ in range(2))
    full_pass = swept(one.method, ROWS, classes=CLASSES)
    generator = torch.Generator().manual_seed(0)
    observed = torch.randint(CLASSES, (ROWS,), generator=generator)
    for step in range(12):
        rows = torch.randint(ROWS, (16,), generator=generator)
        logits, order = torch.randn(16, CLASSES, generator=generator) * 2, torch.randperm(16, generator=generator)
        if step % 3 == 0 and one.method.needs_epochs:
            one.start_epoch(step // 3, full_pass)
            other.start_epoch(step // 3, full_pass)
        loss = one(logits, observed[rows], rows)
        torch.testing.assert_close(other(logits[order], observed[rows][order], rows[order]), loss)
        for a, b in zip(one.memory.state, other.memory.state, strict=True):
            torch.testing.assert_close(a, b)


def test_tokens_of_one_row_move_its_entry_once():
    criterion = adaptivek.Selection("elr:beta=0.5", rows=2, classes=CLASSES)
    logits = torch.randn(1, CLASSES, 6)
    criterion(logits, torch.zeros(1, 6, dtype=torch.int64), torch.ones(1, 6, dtype=torch.int64))
    p = logits[0].t().softmax(1).clamp(1e-4, 1 - 1e-4)
    torch.testing.assert_close(criterion.state_targets[1], 0.5 * (p / p.sum(1, keepdim=True)).mean(0))
    assert (criterion.state_targets[0] == 0).all()
