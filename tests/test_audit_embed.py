"""What the audit's page is made of, without a browser."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest

from adaptivek.auditing import embed as module
from adaptivek.auditing.embed import Shown, as_json, embed
from adaptivek.auditing.page import page, reading, write_page

from .made_audit import CLASSES, HOSTILE, SCRIPT, audit, hostile, picture


def rows(number: int, **fields: object):
    """Every other row is flagged, the later the lower its score."""
    scores = [0.4 - 0.3 * row / number if row % 2 else 0.9 for row in range(number)]
    return audit([0] * number, [row % 2 for row in range(number)], scores, ["no", "yes"], **fields)


def held(result, shown: Shown) -> dict:
    return json.loads(embed(result, shown).json)


def test_json_holds_what_was_put_in_and_cannot_end_its_element():
    text = as_json(list(HOSTILE))
    assert json.loads(text) == list(HOSTILE)
    assert not re.search("[<>&\u2028\u2029]", text)


def test_columns_say_what_the_result_says():
    result = rows(6, loss=np.array([0.123456, np.nan, np.inf, 2.0, 1e-9, 7]))
    data = held(result, Shown("features"))
    assert data["row"] == [5, 3, 1, 0, 2, 4]  # by score
    assert data["suggested"] == [1, 1, 1, 0, 0, 0]
    assert data["flagged"] == [1, 1, 1, 0, 0, 0]
    assert data["score"] == pytest.approx(1e4 * np.sort(result.score), abs=0.5)
    assert data["loss"] == [7, 2, None, 0.1235, None, 1e-9]


def test_rows_of_nearly_the_same_score_keep_their_order():
    scores = [3e-7, 1e-7, 0.9, 2e-7]
    data = held(audit([0] * 4, [1] * 4, scores, ["no", "yes"]), Shown("features"))
    assert data["score"] == [0, 0, 0, 9000]
    assert data["row"] == [1, 3, 0, 2]


def test_flagged_texts_are_whole_and_others_are_cut():
    texts = ["a" * 1_000_000, "b" * 1_000, None, "c" * 1_000_000]
    data = held(rows(4), Shown("text", texts))
    assert data["row"] == [3, 1, 0, 2]
    assert [len(text) for text in data["text"]] == [20_000, 1_000, 300, 0]
    assert data["missing"] == [980_000, 0, 999_700, 0]


def test_long_texts_are_cut_where_there_is_no_room(monkeypatch):
    monkeypatch.setattr(module, "TEXT_BUDGET", 2_500)
    embedded = embed(rows(10), Shown("text", ["d" * 1_000] * 10))
    lengths = [len(text) for text in json.loads(embedded.json)["text"]]
    assert lengths == [1_000] * 2 + [250] * 8  # the lowest scores first
    assert "cut to 250" in embedded.notes[0]


def test_only_flagged_rows_have_pictures_and_no_more_than_fit(monkeypatch):
    asked = []

    def look(row: int) -> bytes:
        asked.append(row)
        if row == 7:
            raise OSError("gone")
        return b"<svg onload=alert(1)>" if row == 5 else picture(row)

    embedded = embed(rows(10), Shown("image", look))
    pictures = json.loads(embedded.json)["pictures"]
    assert asked == [9, 7, 5, 3, 1]
    assert list(pictures) == ["0", "3", "4"]  # rows 9, 3 and 1
    assert base64.b64decode(pictures["3"].removeprefix("data:image/png;base64,")) == picture(3)
    assert embedded.notes == ("3 of 5 flagged rows have a picture here, the lowest score first.",)
    monkeypatch.setattr(module, "PICTURE_BUDGET", 2 * len(picture(9)) + 10)
    assert list(held(rows(10), Shown("image", picture))["pictures"]) == ["0", "1"]
    monkeypatch.setattr(module, "MOST_PICTURES", 1)
    assert list(held(rows(10), Shown("image", picture))["pictures"]) == ["0"]


def test_tables_keep_numbers_short_and_say_what_is_missing(monkeypatch):
    cells = [{"a": 1 / 3, "b": np.float32(2), "c": float("nan"), "d": "x" * 999, "e": True}, {"a": 10**400, "f": None}]
    data = held(rows(2), Shown("table", cells))
    values = {column["name"]: column["cells"] for column in data["columns"]}
    assert values == {
        "a": ["too large a number", 0.333333], "b": [None, 2], "c": [None, None], "d": [None, "x" * 200],
        "e": [None, "True"], "f": [None, None],
    }  # fmt: skip
    monkeypatch.setattr(module, "MOST_COLUMNS", 3)
    embedded = embed(rows(2), Shown("table", cells))
    assert [column["name"] for column in json.loads(embedded.json)["columns"]] == ["a", "b", "c"]
    assert embedded.notes == ("The first 3 of 6 columns are shown.",)


def test_of_too_many_rows_the_suspects_are_held(monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 6)
    embedded = embed(rows(10), Shown("text", [f"text {row}" for row in range(10)]))
    data = json.loads(embedded.json)
    assert {1, 3, 5, 7, 9} < set(data["row"])
    assert data["text"] == [f"text {row}" for row in data["row"]]
    assert "6 of 10 rows" in embedded.notes[0]
    data = held(rows(10), Shown("image", picture))
    assert [data["row"][int(place)] for place in data["pictures"]] == [9, 7, 5, 3, 1]


def test_decisions_belong_to_one_data_set():
    keys = [held(each, Shown("features"))["key"] for each in (rows(4), rows(4), rows(5), hostile())]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_no_tag_of_the_data_is_in_the_page(tmp_path):
    path = tmp_path / "report.html"
    write_page(path, hostile(), Shown("text", [*HOSTILE, *CLASSES][: len(CLASSES)]), SCRIPT)
    text = path.read_text(encoding="utf-8")
    assert SCRIPT not in text
    assert text.count("<script") == 2
    assert "\u202e" not in text.partition('<script type="application/json"')[0]
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match=r"Shown: kind must be one of .* got 'sound'"):
        Shown("sound")  # type: ignore[arg-type]


def test_the_page_says_the_numbers():
    text = page(rows(1_000, skipped=[(7, "not an image")] * 1_001), Shown("features"), "my data")
    parts = (
        "20.0 %", "between 15.0 % and 26.0 %", "<b>500</b> of 1,000", "3 min 20 s", "and 1 more",
        "<bdi>row 7</bdi>: not an image",
        "About one label in 5 looks noisy", "observed “no”, suggested “yes” (500 flagged)",
    )  # fmt: skip
    for part in parts:
        assert part in text
    assert 'class="banner" role="alert"' not in text
    assert "not to be trusted" in page(rows(10, warnings=["it learned nothing"]), Shown("features"), "x")


def test_clean_labels_read_as_clean():
    clean = rows(100, is_issue=np.zeros(100, bool), noise_ratio=0.0, noise_ratio_low=0.0, noise_ratio_high=0.012)
    (said,) = reading(clean)
    assert said.startswith("No row is flagged")
    assert "Up to 1.2 % noisy labels" in said
    assert "No flagged row has another label suggested." in page(clean, Shown("features"), "x")


def test_many_classes_are_listed_and_not_drawn():
    number = 300
    result = audit(list(range(number)), [(code + 1) % number for code in range(number)], [0.1] * number,
                   [f"class {code}" for code in range(number)], loss_cut=float("nan"))  # fmt: skip
    text = page(result, Shown("features"), "x")
    assert 'class="heat' not in text
    assert "300 classes are too many for a matrix" in text
    assert text.count("<li><button") == 20 + 20
    assert "the threshold" not in text
