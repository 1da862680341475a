"""What the audit reads: columns of a table, JSON lines, images inside Parquet; and how it is written again."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import adaptivek
from adaptivek.auditing.columns import as_dates, column_words, sort_columns
from adaptivek.auditing.data import AuditData
from adaptivek.auditing.names import used_as
from adaptivek.auditing.sources import Use, load
from adaptivek.auditing.table_features import encode_table
from adaptivek.auditing.tables import unique_names
from adaptivek.auditing.text_embeddings import tokenised
from adaptivek.support.text import words

NONE = np.zeros(0, np.int64)
ROWS = 120


def shop() -> pd.DataFrame:
    """A column of every kind."""
    rng = np.random.default_rng(0)
    price = rng.normal(20, 5, ROWS).round(2)
    return pd.DataFrame(
        {
            "order_id": rng.permutation(10_000)[:ROWS],
            "row": range(ROWS),
            "code": [f"x{number:05d}" for number in rng.permutation(ROWS)],
            "review": [
                " ".join(rng.choice(["good", "bad", "late", "fine", "torn"], 6)) + f" n{row}" for row in range(ROWS)
            ],
            "title": [f"about order {row} again" for row in range(ROWS)],
            "price": [*price[:-2], np.nan, np.nan],
            "stars": rng.integers(1, 6, ROWS),
            "city": rng.choice(["Paris", "Rome", "Bonn"], ROWS),
            "bought": [f"2024-0{1 + row % 9}-{1 + row % 28:02d}" for row in range(ROWS)],
            "shop": "web",
            "label": rng.choice(["yes", "no"], ROWS),
        }
    )


def test_columns_are_told_apart():
    found = sort_columns(shop().drop(columns="label"))
    assert found.used == {
        "review": "text", "title": "text", "price": "number", "stars": "number", "city": "category", "bought": "date",
    }  # fmt: skip
    assert found.left_out == {
        "order_id": "a name for each row", "row": "a name for each row", "code": "a name for each row",
        "shop": "always the same",
    }  # fmt: skip
    as_text = sort_columns(shop().drop(columns="label").astype(str))  # as in a CSV
    assert as_text.used == found.used
    assert used_as(found.used) == ("review, title as texts; price, stars as numbers; city as category; bought as date")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["这家酒店很好我们下次还来", "房间太小了服务也不好", "早餐不错位置方便"] * 40, "category"),
        ([f"这家酒店很好我们下次还来{number}" for number in range(120)], "text"),
        ([1, 2, 3] * 40, "number"),
        ([f"{1 + number % 28}.3.2024" for number in range(120)], "date"),
        (["n/a", "", "3.5"] * 40, "number"),
        ([None, "a", "b"] * 40, "category"),
        ([b"bytes"] * 120, None),
        ([""] * 120, None),
        ([[1, 2], [3]] * 60, "category"),
    ],
)
def test_kinds_of_a_column(values, kind):
    assert sort_columns(pd.DataFrame({"it": values})).used == ({"it": kind} if kind else {})


def test_dates_are_as_pandas_reads_them():
    texts = pd.Series(["2024-02-29", "2023-12-31T23:15:00", "", "1999-01-01"])
    found = as_dates(texts)
    assert found is not None
    assert [str(day)[:16] for day in found] == ["2024-02-29 00:00", "2023-12-31 23:15", "NaT", "1999-01-01 00:00"]
    features = encode_table(pd.DataFrame({"day": texts}))
    assert torch.isfinite(features).all()
    assert as_dates(pd.Series(["1.5", "2.5"])) is None


def test_every_column_that_is_no_text_becomes_a_word_of_its_own():
    frame = shop()
    columns = sort_columns(frame.drop(columns="label"))
    said = column_words(frame, columns)
    for line, (_, row) in zip(said, frame.iterrows(), strict=True):
        parts = words(line)  # as the networks' tokens are made
        assert len(parts) == 2 + 1 + 4
        assert f"city__{row['city'].lower()}" in parts
        assert ("price__missing" in parts) == bool(np.isnan(row["price"]))
    # a number becomes its tenth of the column
    tenth = np.array([int(words(line)[0].removeprefix("price__q")) for line in said[:-2]])
    expected = pd.qcut(frame["price"][:-2], 10, labels=False)
    assert (np.abs(tenth - expected) <= 1).all()
    assert (tenth == expected).mean() > 0.9


def test_a_table_with_texts_uses_all_columns(tmp_path):
    frame = shop()
    data = load(frame, "label")
    assert data.kind == "text"
    assert data.about["used_as"]["city"] == "category"
    assert data.content[0].startswith(f"{frame['review'][0]}\n{frame['title'][0]}\n")
    assert f"city__{frame['city'][0].lower()}" in data.content[0]
    kind, cells = data.shown
    assert kind == "table"
    assert cells[3]["review"] == frame["review"][3]
    texts, features = data.beside
    assert texts[0] == f"{frame['review'][0]}\n{frame['title'][0]}"
    assert features.shape == (ROWS, encode_table(frame.drop(columns=["label"])).shape[1])
    alone = load(frame, "label", Use(text="title"))
    assert list(alone.content) == frame["title"].tolist()
    assert alone.shown[0] == "text"
    fewer = load(frame, "label", Use(ignore=["review", "title"]))
    assert fewer.kind == "table"
    assert fewer.about["left_out"]["title"] == "to be ignored"


def test_columns_beside_the_text_help():
    """The text says nothing of the label, a number beside it does."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 2, 400)
    noisy = rng.random(400) < 0.15
    texts = [" ".join(rng.choice(["a", "film", "in", "town", "it", "was"], 6)) + f" n{row}" for row in range(400)]
    frame = pd.DataFrame({"review": texts, "price": true + 0.2 * rng.standard_normal(400)})
    found = adaptivek.audit(frame, np.where(noisy, 1 - true, true), device="cpu")
    assert (found.score[noisy] < np.quantile(found.score, 0.2)).mean() > 0.9


@pytest.mark.parametrize(("suffix", "separator"), [("csv", ","), ("csv", ";"), ("tsv", "\t")])
def test_a_text_file_comes_back_as_it_was(tmp_path, suffix, separator):
    lines = [separator.join(["", "text", "label", "text"])]
    lines += [
        separator.join([str(row), f'"it was {row}{separator} ""well"""', "ab"[row % 2], "007"]) for row in range(60)
    ]
    path = tmp_path / f"data.{suffix}"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = load(path, "label")
    assert data.about["used_as"] == {"text": "text"}
    assert data.write_clean(tmp_path, NONE, {}) == f"clean.{suffix}"
    assert (tmp_path / f"clean.{suffix}").read_text(encoding="utf-8").splitlines() == lines
    # fixed labels are written, and rows left out
    data.write_clean(tmp_path, np.array([0, 3]), {1: 2})
    with (tmp_path / f"clean.{suffix}").open(encoding="utf-8", newline="") as file:
        cells = pd.read_csv(file, sep=separator, dtype=str, header=None, keep_default_na=False)
    assert cells.iloc[0].tolist() == ["", "text", "label", "text"]
    assert cells[0].tolist()[1:4] == ["1", "2", "4"]
    assert cells[2].tolist()[1:4] == ["a", "a", "a"]


def test_columns_without_a_name_are_called_by_their_place():
    assert unique_names(["", "a", "a", " ", "a.2"]) == ["column 1", "a", "a.2", "column 4", "a.2.2"]


@pytest.mark.parametrize("as_list", [False, True])
def test_json_is_read_and_written_again(tmp_path, as_list):
    records = [{"text": f"it was {row} é", "label": row % 2, "tags": ["x", row]} for row in range(20)]
    records[4]["label"] = None
    del records[5]["text"]
    if as_list:
        path = tmp_path / "data.json"
        path.write_text(json.dumps(records), encoding="utf-8")
    else:
        path = tmp_path / "data.jsonl"
        path.write_text("\n".join(json.dumps(each) for each in records) + "\n\n", encoding="utf-8")
    data = load(path, "label", Use(text="text"))
    assert data.classes == ["0", "1"]
    assert data.skipped == [(4, "no label"), (5, "empty text")]
    name = data.write_clean(tmp_path, np.array([0]), {2: 1})
    text = (tmp_path / name).read_text(encoding="utf-8")
    left = json.loads(text) if as_list else [json.loads(line) for line in text.splitlines()]
    assert left == [records[1], records[2] | {"label": 1}, *records[3:]]
    if not as_list:
        assert text.splitlines()[0] == json.dumps(records[1])  # letter by letter


@pytest.mark.parametrize(
    ("text", "message"),
    [("{}\nno", "line 2 of"), ("[1, 2]", "must hold JSON objects"), ("3", "got int"), ("", "got nothing")],
)
def test_what_is_no_json_is_said(tmp_path, text, message):
    path = tmp_path / "data.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load(path, "label")


def picture(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (30, 30), (shade, shade, shade)).save(file, "PNG")
    return file.getvalue()


def test_images_inside_parquet_as_the_hub_has_them(tmp_path):
    pictures = [picture(10 * row) for row in range(20)]
    cells = [{"bytes": each, "path": f"{row}.png"} for row, each in enumerate(pictures)]
    cells[3] = {"bytes": b"no image", "path": "3.png"}
    features = {"info": {"features": {"label": {"_type": "ClassLabel", "names": ["cat", "dog"]}}}}
    table = pa.table({"image": cells, "label": [row % 2 for row in range(20)], "n": list(range(20))})
    table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
    pq.write_table(table, tmp_path / "data.parquet")
    data = load(tmp_path / "data.parquet", "label")
    assert data.kind == "image"
    assert data.classes == ["cat", "dog"]
    assert data.about["used_as"] == {"image": "image"}
    assert data.files[2] == "2.png"
    assert data.skipped == [(3, "not an image that can be read")]
    assert data.unreadable.tolist() == [3]
    shade = np.asarray(Image.open(io.BytesIO(data.content(4))))  # row 5, since 3 is skipped
    assert shade.min() == shade.max() == 50
    data.write_clean(tmp_path, np.array([0, 3]), {1: 2})
    left = pq.read_table(tmp_path / "clean.parquet")
    assert left["n"].to_pylist() == [1, 2, *range(4, 20)]
    assert left["label"].to_pylist()[:2] == [0, 0]
    assert left.schema.equals(table.schema)
    pq.write_table(pa.table({"img": pictures, "label": [row % 2 for row in range(20)]}), tmp_path / "bytes.parquet")
    assert load(tmp_path / "bytes.parquet", "label").kind == "image"
    hub = pytest.importorskip("datasets")
    kinds = hub.Features({"image": hub.Image(), "label": hub.ClassLabel(names=["cat", "dog"])})
    loaded = hub.Dataset.from_dict({"image": cells[4:], "label": [0, 1] * 8}, features=kinds)
    data = load(loaded, "label")
    assert data.kind == "image"
    data.write_clean(tmp_path, np.array([0]), {1: 2})
    again = hub.Dataset.from_parquet(str(tmp_path / "clean.parquet"), cache_dir=str(tmp_path / "cache"))
    assert again.features == loaded.features
    assert again["label"][:3] == [0, 0, 1]


def test_what_names_no_column_is_an_error():
    frame = shop()
    for use, message in (
        (Use(trusted="checked"), "trusted must be a column"),
        (Use(ignore=["x"]), "ignore must be a column"),
        (Use(annotator="who"), "annotator must be a column"),
        (Use(item="city"), "annotator must be given with item"),
        (Use(trusted=[True]), "one truth value for each of the 120 rows"),
    ):
        with pytest.raises(ValueError, match=message):
            load(frame, "label", use)
    with pytest.raises(ValueError, match="where the data has no columns"):
        load(np.zeros((6, 2)), [0, 1] * 3, Use(text="a"))


def test_rows_can_be_picked_from_any_kind(tmp_path):
    def same(data: AuditData, places: list[int]) -> None:
        data = tokenised(data)
        few = data.of(np.array(places))
        assert torch.equal(few.fetch(np.arange(len(places))), data.fetch(np.array(places)))
        assert few.row.tolist() == data.row[places].tolist()
        whole, part = data.shown[1], few.shown[1]
        for place, old in enumerate(places):
            if whole is not None:
                assert (part(place) == whole(old)) if callable(whole) else (part[place] == whole[old])

    frame = shop()
    for data in (load(frame, "label"), load(frame[["price", "city", "label"]], "label"), load(np.eye(8), [0, 1] * 4)):
        same(data, [5, 1, 2])
    same(load(torch.rand(6, 1, 8, 8), [0, 1] * 3), [4, 0])
