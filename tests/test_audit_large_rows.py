"""Rows of many Parquet files: how they are read, sampled, encoded and predicted, and what is said of bad files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adaptivek
from adaptivek.auditing.columns import learn_edges, sort_columns
from adaptivek.auditing.large import load
from adaptivek.auditing.large.load import Encoder, draw
from adaptivek.auditing.large.pool import fit
from adaptivek.auditing.large.ranks import Ranks
from adaptivek.auditing.large.rows import open_rows, parquet_files
from adaptivek.auditing.second_fit import contradicted
from adaptivek.auditing.sources import Use, from_files
from adaptivek.auditing.sources import load as in_memory
from adaptivek.auditing.table_features import learn_table

from .made_parquet import ROWS, small_batches, split, table


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_batches(monkeypatch)


def bad(folder: Path, **changes: object) -> Path:
    frame = table(60)
    split(frame, folder, [30])
    for name, made in changes.items():
        if isinstance(made, bytes):
            (folder / f"{name}.parquet").write_bytes(made)
        else:
            made.to_parquet(folder / f"{name}.parquet", index=False)
    return folder


def test_rows_come_in_order_from_any_row_on(tmp_path, small):
    frame = pd.DataFrame({"n": np.arange(1_000)})
    source = open_rows(parquet_files(split(frame, tmp_path / "data", [1, 0, 333, 166])))
    for start in (0, 100, 300, 400, 990, 1_000):
        parts = list(source.batches(["n"], start))
        assert [first for first, _ in parts] == list(range(start, 1_000, 100))
        assert all(len(part) == 100 for _, part in parts[:-1])
        assert [n for _, part in parts for n in part["n"].to_pylist()] == list(range(start, 1_000))
    some = np.array([0, 1, 334, 335, 999])
    assert source.take(some, ["n"])["n"].to_pylist() == some.tolist()
    assert source.file_of(some).tolist() == [0, 2, 3, 3 + 0, 4]


def test_arrow_holds_as_much_of_a_file_however_long_it_is(tmp_path):
    """Be it one row group."""

    def most_held(number: int, batch: int) -> int:
        path = tmp_path / f"{number}.parquet"
        columns = {name: np.random.default_rng(0).normal(size=number) for name in "abc"}
        pq.write_table(pa.table(columns), path, row_group_size=number)
        del columns
        source = replace(open_rows([path]), batch=batch)
        most, seen, before = 0, 0, pa.total_allocated_bytes()
        for start, part in source.batches(["c", "a"]):
            assert start == seen
            assert part.column_names == ["c", "a"]
            seen += len(part)
            most = max(most, pa.total_allocated_bytes() - before)
        assert seen == number
        return most

    for batch in (10_000, 9_999):  # the latter never ends where a file's own pages do
        assert most_held(1_200_000, batch) < 1.3 * most_held(300_000, batch)


def test_the_sample_has_rows_of_every_class(monkeypatch):
    monkeypatch.setattr(load, "SAMPLE", 1_000)
    labels = np.zeros(100_000, np.int64)
    labels[[5, 70_000]] = 1  # fewer than are wanted
    labels[1_000:1_300] = 2
    places, drawn = draw(labels, 3)
    counts = np.bincount(labels[places])
    assert drawn.sum() == 1_000
    assert len(np.unique(places)) == len(places) < 1_050
    assert (np.diff(places) > 0).all()
    assert counts[1] == 2
    assert counts[2] >= 20
    assert np.bincount(labels[places[~drawn]])[0] == 0  # of the frequent class none is added


def test_the_pools_predict_unseen_rows_as_their_models_do_together(tmp_path, small):
    """Against the same models, fitted and multiplied by hand."""
    from sklearn.linear_model import LogisticRegression

    data = from_files(parquet_files(split(table(), tmp_path / "data", [])), "label", Use())
    streamed = data.streamed
    x = streamed.encoder.numbers(streamed.sample)
    labels = data.labels[np.searchsorted(data.row, streamed.row)]
    others = streamed.encoder.numbers(
        streamed.frame(streamed.rows.take(np.arange(40, 60), streamed.encoder.columns.used))
    )
    found = fit("linear", None, x, labels, 3, 0, Ranks())
    taught = ~contradicted(found.held_out.first, labels, 3)
    assert 0 < (~taught).sum() < 150

    def product(weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
        p = np.exp(weights[3:])[None]
        for c, weight in zip((0.001, 0.01, 0.1), weights, strict=False):
            model = LogisticRegression(C=c, max_iter=200).fit(x[rows], labels[rows])
            p = p * np.maximum(model.predict_proba(others), 1e-3) ** weight
        return p / p.sum(1, keepdims=True)

    first = product(found.pools.first.weights, np.ones(len(x), bool))
    second = product(found.pools.second.weights, taught)
    both = np.sqrt(np.maximum(first, 1e-4) * np.maximum(second, 1e-4))
    predicted = found.pools.predict(None, others)
    np.testing.assert_allclose(predicted.first, first, rtol=1e-4)
    np.testing.assert_allclose(predicted.both, both / both.sum(1, keepdims=True), rtol=1e-4)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2, None, 10, 2, 1, 10]),
        pa.array([1.0, 2.0, float("nan"), 2.0, None, 1.0, 1.0]),
        pa.array([True, False, None, True, False, True, True]),
        pa.array(["b", "a", " ", "b", "a", None, "a"]),
        pa.array(["b", "a", None, "b", "a", "b", "a"]).dictionary_encode(),
    ],
    ids=["whole", "float", "truth", "text", "dictionary"],
)
def test_labels_of_every_type_are_read_as_in_memory(values, tmp_path):
    parts = pa.table({"x": np.arange(7.0) ** 2, "y": values})
    pq.write_table(parts, tmp_path / "one.parquet")
    (tmp_path / "many").mkdir()
    pq.write_table(parts.slice(0, 3), tmp_path / "many" / "0.parquet")
    pq.write_table(parts.slice(3), tmp_path / "many" / "1.parquet")
    one, many = in_memory(tmp_path / "one.parquet", "y"), from_files(parquet_files(tmp_path / "many"), "y", Use())
    assert (many.classes, many.labels.tolist()) == (one.classes, one.labels.tolist())
    assert (many.row.tolist(), many.skipped) == (one.row.tolist(), one.skipped)


def test_names_of_classes_come_from_the_file(tmp_path):
    features = {"y": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    about = {"huggingface": json.dumps({"info": {"features": features}})}
    parts = pa.table({"x": np.arange(8.0) ** 2, "y": [0, 1, -1, 1, 0, 1, 0, 1]}).replace_schema_metadata(about)
    pq.write_table(parts, tmp_path / "0.parquet")
    data = from_files([tmp_path / "0.parquet"], "y", Use())
    assert data.classes == ["cat", "dog"]
    assert data.skipped == [(2, "no label")]


def test_a_row_is_encoded_alone_as_among_others(tmp_path):
    """Also where a cell is missing, or is not what its column is."""
    frame = table(200).drop(columns="label")
    frame["sold"] = frame["sold"].astype(object).where(np.arange(200) % 7 > 0, None)
    frame["written"] = [str(number / 8) if number % 11 else "?" for number in range(200)]
    frame["when"] = [f"2024-0{1 + number % 9}-11" if number % 40 else "soon" for number in range(200)]
    frame["note"] = [f"it is the {number} one of these" for number in range(200)]
    whole = pa.Table.from_pandas(frame, preserve_index=False)
    columns = sort_columns(load.to_frame(whole))
    kinds = {"sold": "number", "written": "number", "when": "date", "day": "date", "city": "category", "note": "text"}
    assert kinds.items() <= columns.used.items()
    sample = load.to_frame(whole)
    encoder = Encoder(columns, learn_table(sample, columns), learn_edges(sample, columns))
    together, texts = encoder.numbers(sample), encoder.texts(sample)
    for row in range(0, 200, 9):
        alone = load.to_frame(whole.slice(row, 1))
        np.testing.assert_array_equal(encoder.numbers(alone)[0], together[row])
        assert encoder.texts(alone) == [texts[row]]


def test_bad_files_are_told_early(tmp_path):
    frame = table(30)
    cases: list[tuple[dict[str, object], str]] = [
        ({"part1": frame.drop(columns="label")}, "part1.parquet has no 'label', .*part0.parquet has it"),
        ({"part2": frame.assign(more=1)}, "part0.parquet has no 'more', .*part2.parquet has it"),
        ({"part1": frame.assign(b="x")}, "'b' is double in .*part0.parquet and .*string in .*part1.parquet"),
        ({"part1": b"PAR1 no more of it"}, "part1.parquet must be a Parquet file that is whole"),
    ]
    for number, (changes, message) in enumerate(cases):
        with pytest.raises(ValueError, match=message):
            adaptivek.audit(bad(tmp_path / str(number), **changes), "label")
    one = split(frame.assign(label="low"), tmp_path / "one", [10])
    with pytest.raises(ValueError, match="label must have at least two classes, got 'low'"):
        adaptivek.audit(one, "label")
    with pytest.raises(ValueError, match="a must be classes, not fractions"):
        adaptivek.audit(one, "a")
    none = split(frame.iloc[:0], tmp_path / "none", [])
    with pytest.raises(ValueError, match="must have rows, got none in 1"):
        adaptivek.audit(none, "label")
    whole = bad(tmp_path / "whole")
    with pytest.raises(ValueError, match=r"label must be a column, one of a, b, c.*got 'lable'"):
        adaptivek.audit(whole, "lable")
    with pytest.raises(ValueError, match="label must be given: the name of a column"):
        adaptivek.audit(whole)
    with pytest.raises(ValueError, match="epochs must be left out for many Parquet files"):
        adaptivek.audit(whole, "label", epochs=3)
    with pytest.raises(ValueError, match="model must be trees or linear for large data of this kind, got 'words'"):
        adaptivek.audit(whole, "label", model="words")
    with pytest.raises(FileNotFoundError, match="not found"):
        adaptivek.audit(str(tmp_path / "whole" / "*.parquets"), "label")


def test_a_page_that_is_broken_inside_a_file(tmp_path, small):
    """The footer is whole, so it is seen only when the rows are read."""
    folder = split(table(), tmp_path / "data", [700])
    path = folder / "part1.parquet"
    content = bytearray(path.read_bytes())
    content[200:5_000] = bytes(4_800)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"part1.parquet must be a Parquet file that is whole"):
        adaptivek.audit(folder, "label")


def test_a_column_without_values_in_one_file(tmp_path, small):
    frame = table().drop(columns="sold")
    folder = split(frame, tmp_path / "data", [700])
    emptied = pd.read_parquet(folder / "part0.parquet").assign(city=None)
    pq.write_table(pa.Table.from_pandas(emptied, preserve_index=False), folder / "part0.parquet")
    result = adaptivek.audit(folder, "label", "linear")
    assert result.settings["used_as"]["city"] == "category"
    assert len(result.row) == ROWS - 3


def test_which_files_are_meant(tmp_path):
    for name in ("b.parquet", "a/c.parquet", "_temporary/d.parquet", ".hidden.parquet", "e.csv", "a/f.pq"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    def found(source: object) -> list[str]:
        return [path.relative_to(tmp_path).as_posix() for path in parquet_files(source)]

    assert found(tmp_path) == ["a/c.parquet", "a/f.pq", "b.parquet"]
    for number in range(4):
        (tmp_path / "a" / f"{number}.png").touch()
    assert found(tmp_path) == []  # images with a table beside them
    assert found(f"{tmp_path}/*.parquet") == ["b.parquet"]
    assert found(f"{tmp_path}/[ab]/*.parquet") == ["a/c.parquet"]
    assert found(tmp_path / "b.parquet") == []
    assert found(f"{tmp_path}/*.csv") == []
