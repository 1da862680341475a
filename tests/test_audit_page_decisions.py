"""Decisions on the audit's page, in a real browser: made, stored, written out, gone on with."""

from __future__ import annotations

import dataclasses
import re

import pytest
import torch

from adaptivek.auditing.decisions import Decision, read_decisions, with_decisions
from adaptivek.auditing.page import Shown, write_page
from adaptivek.auditing.sources import load

from .audit_page import ANIMALS, ROWS, SET, SHOWN, download, first_day, press, search, select, tick, write_animals
from .browser import find
from .made_audit import CLASSES, audit, hostile

pytestmark = pytest.mark.skipif(find() is None, reason="no browser found")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_animals(tmp_path_factory.mktemp("audit") / "report.html")


@pytest.fixture
def opened(browser, path):
    """The page as on its first day."""
    return first_day(browser, path)


def as_label(cell: str) -> str:
    """The label again, as the page says how."""
    return re.sub(r"(^|(?<=[;\t\r\n]))'(?=[\"']*[=+\-@\t])", "", cell)


def test_decisions_by_click_and_key_are_written_and_remembered(opened, path):
    opened.evaluate("document.querySelectorAll('.row')[0].querySelector('.fix').click()")  # row 7
    opened.evaluate("list.focus()")
    press(opened, "ArrowDown", "d", "k", "f")  # 1, 3, 0, and on to 6
    press(opened, "f", "z")  # undone
    assert opened.evaluate("document.activeElement.id") == "list"
    assert opened.evaluate("field('progress').textContent").startswith(
        "4 of 5 flagged rows decided: 1 to keep, 2 to fix, 1"
    )
    press(opened, "Home", "End", "Enter")
    assert opened.evaluate("document.activeElement.id") == "another"
    opened.evaluate(SET.format("another", "value", "1", "change"))  # a dog after all
    fates = {7: ("emu", "fix"), 1: ("", "drop"), 3: ("cat", "keep"), 0: ("dog", "fix"), 6: ("dog", "fix")}
    expected = []
    for row, (observed, *_) in enumerate(ROWS):
        corrected, decision = fates.get(row, (ANIMALS[observed], "undecided"))
        expected.append(
            {"row": str(row), "label": ANIMALS[observed], "corrected_label": corrected, "decision": decision}
        )
    assert download(opened) == expected
    opened.evaluate("save(true)")
    opened.open(path)
    assert download(opened) == expected
    assert select(opened, "decision", "fix") == [7, 0, 6]
    # a second click takes it back, and all that are shown can be decided at once
    opened.evaluate("document.querySelectorAll('.row')[0].querySelector('.fix').click()")
    assert opened.evaluate("decisionOf(data.row.indexOf(7))") == "none"
    opened.evaluate("document.querySelector('[data-all=drop]').click()")
    assert [line["row"] for line in download(opened) if line["decision"] == "drop"] == ["0", "1", "6", "7"]
    opened.evaluate("document.getElementById('undo').click()")
    assert [line["row"] for line in download(opened) if line["decision"] == "drop"] == ["1"]
    assert opened.complaints == []


@pytest.mark.parametrize("stored", ["not JSON", "[[0, 99], [77, 0], [1, 0.5], [2, -7], 3]", '{"a": 1}', "null"])
def test_what_is_stored_is_not_trusted(opened, path, stored):
    opened.evaluate(f"localStorage.setItem(storeName, {stored!r})")
    opened.open(path)
    assert {line["decision"] for line in download(opened)} == {"undecided"}
    assert opened.complaints == []


def test_it_works_where_nothing_can_be_stored(opened):
    opened.evaluate("Storage.prototype.setItem = () => { throw new DOMException('full') }")
    opened.evaluate("document.querySelectorAll('.row')[0].querySelector('.drop').click(); save(true); progress()")
    assert download(opened)[7]["decision"] == "drop"
    assert "does not remember" in opened.evaluate("field('remembered').textContent")
    assert opened.complaints == []


def test_labels_come_back_from_the_csv_and_run_in_no_spreadsheet(browser, tmp_path):
    path = tmp_path / "report.html"
    write_page(path, hostile(), Shown("features"), "labels")
    browser.open(path)
    browser.evaluate("document.querySelector('[data-all=fix]').click()")
    lines = download(browser)
    assert [as_label(line["label"]) for line in lines] == CLASSES
    assert [as_label(line["corrected_label"]) for line in lines] == [*CLASSES[1:], CLASSES[0]]
    assert [line["label"] for line in lines[:2]] == ["-1", "+1"]
    for line in lines[2:]:
        for part in re.split(r"[;\t\n]", line["label"]):  # as a spreadsheet of another country would
            assert not part.startswith(("=", "+", "-", "@", "\t"))


def test_skip_leaves_a_row_and_any_row_can_be_fixed(opened):
    opened.evaluate("list.focus()")
    press(opened, "k", "s", "f")  # 7 kept, 1 skipped, 3 fixed
    assert opened.evaluate("data.row.map((row, i) => [row, decisionOf(i)]).filter(([, how]) => how !== 'none')") == [
        [7, "keep"], [3, "fix"],
    ]  # fmt: skip
    press(opened, "Home", "s")  # to the first that is undecided
    assert opened.evaluate("data.row[shown[chosen]]") == 1
    opened.evaluate("detail.querySelector('.skip').click()")
    assert opened.evaluate("data.row[shown[chosen]]") == 0
    # a row that is not flagged is fixed to the most likely class besides its label
    tick(opened, False)
    opened.evaluate("pick(shown.indexOf(data.row.indexOf(4)))")
    assert "most likely besides" in opened.evaluate("detail.innerText")
    opened.evaluate("list.focus()")
    press(opened, "f")
    assert download(opened)[4] == {"row": "4", "label": "cat", "corrected_label": "dog", "decision": "fix"}
    # but not by the button for all that are shown
    opened.evaluate("document.querySelector('[data-all=clear]').click()")
    opened.evaluate("document.querySelector('[data-all=fix]').click()")
    assert [line["row"] for line in download(opened) if line["decision"] == "fix"] == ["0", "1", "3", "6", "7"]
    assert opened.complaints == []


def test_the_page_says_what_to_look_at_next(opened):
    text = "field('next-text').textContent"
    assert opened.evaluate(text) == (
        "5 flagged rows are undecided. Most is to be found among observed “cat”, suggested “dog”: 2 left."
    )
    opened.evaluate("list.focus()")
    press(opened, "s", "s", "k")  # 3, a cat that is one
    assert "4 flagged rows are undecided" in opened.evaluate(text)
    opened.evaluate("document.getElementById('next-go').click()")
    (row,) = opened.evaluate(SHOWN)
    assert row in (0, 1, 6, 7)
    opened.evaluate("document.getElementById('clear').click()")
    opened.evaluate("document.querySelector('[data-all=keep]').click()")
    assert opened.evaluate(text).startswith("All flagged rows are decided. Download")
    assert opened.evaluate("document.getElementById('next-go').hidden")
    assert "--decisions corrected.csv" in opened.evaluate("document.querySelector('.finish').innerText")


def test_files_are_named_and_earlier_decisions_go_on(browser, tmp_path):
    observed, _, scores, _ = (list(column) for column in zip(*ROWS, strict=True))
    data = load(torch.rand(9, 1, 8, 8), [ANIMALS[code] for code in [*observed, 0]])
    data = dataclasses.replace(data, files=[f"pets/{number}.png" for number in range(9)])
    data = with_decisions(data, {
        0: Decision("cat", "dog", "fix"), 7: Decision("dog", "dog", "keep"), 8: Decision("cat", "", "drop"),
    })  # fmt: skip
    result = audit(data.labels.tolist(), data.labels.tolist(), scores, ANIMALS, flagged=0, given=data)
    path = tmp_path / "report.html"
    write_page(path, result, Shown(*data.shown), "pets")
    browser.open(path)
    browser.evaluate("localStorage.clear()")
    browser.open(path)
    assert "3 decisions of earlier rounds: 1 label fixed, 1 label kept, 1 row dropped" in browser.evaluate(
        "document.body.innerText"
    )
    lines = download(browser)
    assert [line["row"] for line in lines] == [str(number) for number in range(9)]
    assert lines[0] == {"row": "0", "label": "cat", "corrected_label": "dog", "decision": "fix"}
    assert lines[7]["decision"] == "keep"
    assert lines[8] == {"row": "8", "label": "cat", "corrected_label": "", "decision": "drop"}
    (tmp_path / "again.csv").write_text(
        "row,label,corrected_label,decision\n" + "".join(",".join(line.values()) + "\n" for line in lines)
    )
    assert read_decisions(tmp_path / "again.csv").keys() == {0, 7, 8}
    tick(browser, False)
    assert search(browser, "pets/3") == [3]
    assert "pets/3.png" in browser.evaluate("document.querySelector('.row').innerText")
    # a decision can be taken back, and stays so
    browser.evaluate("decide([data.row.indexOf(0)], 'clear'); save(true)")
    browser.open(path)
    assert download(browser)[0]["decision"] == "undecided"
    assert browser.complaints == []
