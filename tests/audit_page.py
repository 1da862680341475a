"""How the tests use the audit's page: a small one of animals, its filters, keys and download."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from adaptivek.auditing.page import Shown, write_page

from .browser import Browser
from .made_audit import audit

ANIMALS = ["cat", "dog", "emu"]
#: observed, suggested, score, text
ROWS = [
    (0, 1, 0.30, "barks at the post"), (1, 0, 0.10, "sleeps all day"), (2, 2, 0.90, "a large bird"),
    (0, 1, 0.20, "fetches a stick"), (0, 0, 0.95, "drinks milk"), (1, 1, 0.80, "barks and bites"),
    (2, 0, 0.40, "hunts mice, BARKS never"), (1, 2, 0.05, "lays green eggs"),
]  # fmt: skip
SHOWN = "[...document.querySelectorAll('.row')].map((row) => Number(row.querySelector('small').textContent.slice(4)))"
SET = "(() => {{ const it = document.getElementById('{}'); it.{} = {!r}; it.dispatchEvent(new Event('{}')) }})()"


def write_animals(path: Path) -> Path:
    observed, suggested, scores, texts = (list(column) for column in zip(*ROWS, strict=True))
    write_page(path, audit(observed, suggested, scores, ANIMALS), Shown("text", texts), "animals.csv")
    return path


def first_day(browser: Browser, path: Path) -> Browser:
    """The page as it is opened first: nothing is stored."""
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
