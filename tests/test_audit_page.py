"""The audit's page in a real browser: rows do no harm, and are found and shown; decisions have a file of their own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from adaptivek.auditing.annotators import dawid_skene
from adaptivek.auditing.page import Shown, write_page
from adaptivek.auditing.sources import load

from .audit_page import ANIMALS, ROWS, SHOWN, download, first_day, press, search, select, tick, write_animals
from .browser import find
from .made_audit import CLASSES, HOSTILE, SCRIPT, audit, hostile, picture
from .test_audit_annotators import made

pytestmark = pytest.mark.skipif(find() is None, reason="no browser found")
#: how far the chosen row is from the upper and the lower end of the list
IN_SIGHT = """(() => {
  const row = document.querySelector("[aria-selected=true]").getBoundingClientRect();
  const all = list.getBoundingClientRect();
  return [row.top - all.top, all.bottom - row.bottom];
})()"""
BUTTONS_INSIDE = """[...document.querySelectorAll(".row button")].every((button) => {
  const row = button.closest(".row").getBoundingClientRect(), own = button.getBoundingClientRect();
  return own.top >= row.top && own.bottom <= row.bottom && own.left >= row.left && own.right <= row.right;
})"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_animals(tmp_path_factory.mktemp("audit") / "report.html")


@pytest.fixture
def opened(browser, path):
    """The page as on its first day."""
    return first_day(browser, path)


def test_rows_that_mean_harm_do_none(browser, tmp_path):
    result, count = hostile(), len(CLASSES)
    texts = [*HOSTILE, "x" * 1_000_000, *[SCRIPT] * (count - len(HOSTILE) - 1)]
    looks = {
        "text": Shown("text", texts),
        "table": Shown("table", [{text[:50]: text, SCRIPT: text} for text in texts]),
        "image": Shown("image", lambda row: picture(20 * row) if row else b"<svg onload='window.harmed = 5'>"),
        "features": Shown("features"),
    }
    for kind, shown in looks.items():
        path = tmp_path / f"{kind}.html"
        write_page(path, result, shown, SCRIPT)
        browser.open(path)
        for place in range(count):
            browser.evaluate(f"pick({place})")
        assert browser.evaluate("typeof window.harmed") == "undefined"
        assert browser.complaints == []
        assert [each for each in browser.requests if not each.startswith("data:image/png")] == [path.as_uri()]
        assert browser.evaluate("document.scripts.length") == 2
        assert browser.evaluate("shown.length") == count
        assert SCRIPT in browser.evaluate("document.body.innerText")
    browser.open(tmp_path / "text.html")
    whole = browser.evaluate("[...shown.keys()].map((place) => { pick(place);"
                             " return document.querySelector('.whole bdi').textContent })")  # fmt: skip
    assert whole == [text.replace("\ud800", "?")[:20_000] for text in texts]
    # and the policy holds, were there a way in
    browser.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.harmed = 6\">')")
    assert browser.evaluate("new Promise((go) => setTimeout(() => go(typeof window.harmed), 100))") == "undefined"
    assert any("Content Security Policy" in each for each in browser.complaints)


def test_suspects_are_filtered_sorted_and_searched(opened):
    flagged = [7, 1, 3, 0, 6]  # by score
    assert opened.evaluate(SHOWN) == flagged
    assert tick(opened, False) == [7, 1, 3, 0, 6, 5, 2, 4]
    assert select(opened, "sort", "row") == list(range(8))
    assert select(opened, "sort", "label") == [3, 0, 4, 7, 1, 5, 6, 2]
    assert select(opened, "sort", "score-down") == [4, 2, 5, 6, 0, 3, 1, 7]
    assert select(opened, "observed", 1) == [5, 1, 7]
    assert select(opened, "suggested", 2) == [7]
    opened.evaluate("document.getElementById('clear').click()")
    assert opened.evaluate(SHOWN) == flagged
    tick(opened, False)
    for query, found in {
        "barks": [0, 6, 5],
        " BARKS AND": [5],
        "#3": [3],
        "unicorn": [],
        "": [7, 1, 3, 0, 6, 5, 2, 4],
    }.items():
        assert search(opened, query) == found, query
    assert opened.complaints == []


def test_a_click_on_the_matrix_shows_the_rows_behind_it(opened):
    opened.evaluate('document.querySelector(\'.heat [data-observed="0"][data-suggested="1"]\').click()')
    assert opened.evaluate(SHOWN) == [3, 0]
    assert opened.evaluate("document.querySelectorAll('.heat [aria-pressed=true]').length") == 1
    opened.evaluate('document.querySelector(\'.heat [data-observed="1"][data-suggested="1"]\').click()')
    assert opened.evaluate(SHOWN) == [5]  # agrees, so it is not flagged
    opened.evaluate("document.getElementById('clear').click()")
    opened.evaluate("document.querySelector('#per-class [data-observed=\"2\"]').click()")
    assert opened.evaluate(SHOWN) == [6]


def test_a_hundred_thousand_rows_open_and_few_are_in_the_page(browser, tmp_path):
    number = 100_000
    generator = np.random.default_rng(0)
    scores = generator.permutation(number) / number
    label = generator.integers(0, 3, number)
    result = dataclasses.replace(
        audit(label.tolist(), ((label + 1) % 3).tolist(), scores.tolist(), ANIMALS, flagged=0.2),
        row=2 * np.arange(number),
    )
    texts = [f"text number {row} " + "and so on " * 10 for row in range(number)]
    path = tmp_path / "report.html"
    write_page(path, result, Shown("text", texts), "many")
    browser.open(path)
    order = (2 * np.argsort(scores)).tolist()
    assert browser.evaluate("document.querySelectorAll('*').length") < 1500
    tick(browser, False)
    browser.evaluate("list.focus()")
    for keys, place in ((("Home",), 0), (("End",), number - 1), (("ArrowUp", "ArrowUp"), number - 3)):
        press(browser, *keys)
        assert browser.evaluate("[chosen, data.row[shown[chosen]]]") == [place, order[place]]
        assert browser.evaluate("document.querySelectorAll('.row').length") < 40
        # what is chosen is in sight
        box = browser.evaluate(IN_SIGHT)
        assert min(box) > -2
    browser.evaluate("new Promise((go) => { list.scrollTop = list.scrollHeight / 2; setTimeout(go, 200) })")
    seen = browser.evaluate(SHOWN)
    start = order.index(seen[0])
    assert abs(start - number / 2) < 20
    assert seen == order[start : start + len(seen)]
    assert search(browser, "number 4321 and") == [8642]
    lines = download(browser)
    assert len(lines) == number
    assert lines[-1]["row"] == str(2 * number - 2)
    assert browser.complaints == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", ["text", "table", "image"])
def test_a_phone_shows_it_without_scrolling_sideways(browser, tmp_path, kind, dark):
    content = {"text": ["word " * 90] * 8, "table": [{f"column {n}": n for n in range(9)}] * 8, "image": picture}[kind]
    observed, suggested, scores, _ = (list(column) for column in zip(*ROWS, strict=True))
    path = tmp_path / "report.html"
    write_page(path, audit(observed, suggested, scores, ["w" * 99, "dog", "emu"]), Shown(kind, content), "w" * 200)
    browser.open(path, width=360, height=740, dark=dark)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360
    assert browser.evaluate("getComputedStyle(detail).display") == "none"
    browser.evaluate("document.querySelectorAll('.row')[1].click()")
    assert browser.evaluate("detail.getBoundingClientRect().bottom") == 740
    assert browser.evaluate("detail.querySelector('.choice .drop').getBoundingClientRect().bottom") < 740
    browser.evaluate("document.querySelector('.close').click()")
    assert browser.evaluate("getComputedStyle(detail).display") == "none"
    # every row has its buttons in full
    assert browser.evaluate(BUTTONS_INSIDE)
    assert browser.complaints == []


def test_rows_with_the_same_content_and_another_label_have_a_mark(browser, tmp_path):
    observed, suggested, scores, texts = (list(column) for column in zip(*ROWS, strict=True))
    alike = np.array([-1, -1, -1, -1, -1, -1, 7, 6])
    path = tmp_path / "report.html"
    write_page(path, audit(observed, suggested, scores, ANIMALS, alike=alike), Shown("text", texts), "animals.csv")
    browser.open(path)
    marks = "[...document.querySelectorAll('.alike')].map((mark) => mark.textContent)"
    assert browser.evaluate(marks) == ["same content as row 6", "same content as row 7"]
    assert "same content, other label" in browser.evaluate("detail.innerText")
    assert browser.complaints == []


@pytest.mark.parametrize("width", [1280, 390])
def test_tables_and_pictures_fit_the_window(browser, tmp_path, width):
    classes = [f"class number {number}" for number in range(10)]
    label = list(range(10)) * 4
    result = audit(label, [(code + 1) % 10 for code in label], [0.01 * row for row in range(40)], classes)
    votes, *_ = made(40, 8, 3, 3)
    data = load(torch.rand(40, 1, 8, 8), [classes[code] for code in label])
    data = dataclasses.replace(data, votes=votes, annotators=dawid_skene(votes, 40))
    path = tmp_path / "report.html"
    write_page(path, dataclasses.replace(result, given=data), Shown("image", picture), "pictures")
    browser.open(path, width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    tables = browser.evaluate(
        "[...document.querySelectorAll('table')].map((table) => [table.offsetWidth, table.parentElement.clientWidth])"
    )
    assert len(tables) == 3
    for inside, room in tables:
        assert inside <= room + 1
    assert browser.evaluate("document.querySelector('.row img').getBoundingClientRect().width") >= 120
    assert browser.evaluate(BUTTONS_INSIDE)
