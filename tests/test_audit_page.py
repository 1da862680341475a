"""The audit's page in a real browser: rows do no harm, are found, decided on and written out."""

from __future__ import annotations

import csv
import dataclasses
import io
import re

import numpy as np
import pytest
import torch

from adaptivek.auditing.annotators import dawid_skene
from adaptivek.auditing.decisions import Decision, read_decisions, with_decisions
from adaptivek.auditing.page import Shown, write_page
from adaptivek.auditing.sources import load

from .browser import Browser, find
from .made_audit import CLASSES, HOSTILE, SCRIPT, audit, hostile, picture
from .test_audit_annotators import made

pytestmark = pytest.mark.skipif(find() is None, reason="no browser found")
ANIMALS = ["cat", "dog", "emu"]
#: observed, suggested, score, text
ROWS = [
    (0, 1, 0.30, "barks at the post"), (1, 0, 0.10, "sleeps all day"), (2, 2, 0.90, "a large bird"),
    (0, 1, 0.20, "fetches a stick"), (0, 0, 0.95, "drinks milk"), (1, 1, 0.80, "barks and bites"),
    (2, 0, 0.40, "hunts mice, BARKS never"), (1, 2, 0.05, "lays green eggs"),
]  # fmt: skip
SHOWN = "[...document.querySelectorAll('.row')].map((row) => Number(row.querySelector('small').textContent.slice(4)))"
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
SET = "(() => {{ const it = document.getElementById('{}'); it.{} = {!r}; it.dispatchEvent(new Event('{}')) }})()"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    observed, suggested, scores, texts = (list(column) for column in zip(*ROWS, strict=True))
    path = tmp_path_factory.mktemp("audit") / "report.html"
    write_page(path, audit(observed, suggested, scores, ANIMALS), Shown("text", texts), "animals.csv")
    return path


@pytest.fixture
def opened(browser, path):
    """The page as on its first day."""
    browser.open(path)
    browser.evaluate("localStorage.clear(); saving = 0")
    browser.open(path)
    return browser


def select(browser: Browser, name: str, value: object) -> list[int]:
    browser.evaluate(SET.format(name, "value", str(value), "change"))
    return browser.evaluate(SHOWN)


def tick(browser: Browser, on: bool) -> list[int]:
    browser.evaluate(
        f"(() => {{ const it = field('only-flagged'); if (it.checked !== {str(on).lower()}) it.click() }})()"
    )
    return browser.evaluate(SHOWN)


def search(browser: Browser, query: str) -> list[int]:
    browser.evaluate(SET.format("query", "value", query, "input"))
    browser.evaluate(
        "new Promise((go) => setTimeout(go, 200))"
    )  # due after the page's own, which waits for more letters
    return browser.evaluate(SHOWN)


def press(browser: Browser, *keys: str) -> None:
    """Real keys, to whatever has the focus."""
    for key in keys:
        text = {"text": key} if len(key) == 1 else {}
        code = {"ArrowDown": 40, "ArrowUp": 38, "Enter": 13, "End": 35, "Home": 36}.get(key, ord(key[0].upper()))
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)


def download(browser: Browser) -> list[dict[str, str]]:
    """What a click on the button would save."""
    text = browser.evaluate("""new Promise((resolve) => {
      const make = URL.createObjectURL;
      URL.createObjectURL = (blob) => { blob.text().then(resolve); URL.createObjectURL = make; return make(blob) };
      document.getElementById("download").click();
    })""")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def as_label(cell: str) -> str:
    """The label again, as the page says how."""
    return re.sub(r"(^|(?<=[;\t\r\n]))'(?=[\"']*[=+\-@\t])", "", cell)


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
