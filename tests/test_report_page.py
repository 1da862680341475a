"""The report's page in a real browser: nothing goes wrong, nothing goes out, and it can be read everywhere."""

from __future__ import annotations

import dataclasses
import io

import pytest
from PIL import Image

from adaptivek.experiments.report.page import write
from adaptivek.experiments.report.tables import rows

from .browser import find
from .made_results import METHODS, grid

pytestmark = pytest.mark.skipif(find() is None, reason="no browser found")
FIGURES = {"overview", "ratio", "accuracy", "quality", "batches", "losses", "kept", "histograms", "theory"}
HOSTILE = "<img src=http://127.0.0.1:9/x.png onerror=alert(1)><script>alert(2)</script>"
#: luminance as WCAG has it, of a colour as the browser computed it
CONTRAST = """
(() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map((x) => x / 255).map(
      (x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const probe = document.body.appendChild(document.createElement("i"));
  const found = {};
  const paper = light(getComputedStyle(document.body).backgroundColor);
  for (const name of NAMES) {
    probe.style.color = `var(--${name})`;
    const ink = light(getComputedStyle(probe).color);
    found[name] = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  }
  probe.remove();
  return found;
})()
"""


@pytest.fixture(scope="module")
def results():
    """Two data sets, one with a hostile name, a failed run, a method without a run in one setting."""
    runs = [*grid(["mnist"], (0.1, 0.3, 0.4), seeds=(0, 1)), *grid([HOSTILE], (0.4,), METHODS[1:], seeds=(0,))]
    return [dataclasses.replace(runs[0], epochs=[], details=[], failure=HOSTILE), *runs[1:]]


@pytest.fixture(scope="module")
def path(results, tmp_path_factory):
    return write(results, tmp_path_factory.mktemp("report"))


def test_a_page_that_fails_is_noticed(browser, tmp_path):
    """Or the next test could not fail."""
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><script>throw Error('broken')</script><img src='http://127.0.0.1:9/x.png'>")
    browser.open(bad)
    assert any("broken" in each for each in browser.complaints)
    assert "http://127.0.0.1:9/x.png" in browser.requests


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_goes_wrong_and_nothing_goes_out(browser, path, dark):
    browser.open(path, dark=dark)
    assert browser.complaints == []
    assert browser.requests == [path.resolve().as_uri()]
    assert browser.evaluate("document.scripts.length") == 1
    assert browser.evaluate("document.images.length") == 0
    text = browser.evaluate("document.body.innerText")
    assert HOSTILE in text
    assert "1 run failed" in text


def test_a_click_on_a_heading_sorts_and_another_turns_it_round(browser, path, results):
    browser.open(path)
    table = rows(results)
    means = [row.stat("vanilla", "last").mean for row in table]
    assert means != sorted(means)  # or a click would have nothing to do
    column = "[...document.querySelectorAll('#accuracy-last tbody tr')].map((row) => row.cells[5].dataset.value)"
    click = "document.querySelectorAll('#accuracy-last thead button')[{}].click()"
    assert [float(value) for value in browser.evaluate(column)] == pytest.approx(means)
    for order in (sorted(means), sorted(means, reverse=True)):
        browser.evaluate(click.format(5))
        assert [float(value) for value in browser.evaluate(column)] == pytest.approx(order)
    assert browser.evaluate("document.querySelector('#accuracy-last [aria-sort]').innerText").startswith("Vanilla")
    # what is not there is last both ways; here Oracle in one setting
    for _ in range(2):
        browser.evaluate(click.format(4))
        oracle = browser.evaluate(column.replace("cells[5]", "cells[4]"))
        assert oracle.index("") == len(oracle) - 1
    browser.evaluate(click.format(0))
    names = browser.evaluate(column.replace("cells[5]", "cells[0]"))
    assert names == sorted(names)
    assert browser.evaluate("document.querySelector('#gap-closed [aria-sort]')") is None  # the others stay as they are
    assert browser.complaints == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_figure_is_there_and_not_blank(browser, path, dark):
    browser.open(path, dark=dark)
    assert set(browser.evaluate("[...document.querySelectorAll('figure')].map((each) => each.id)")) == FIGURES
    boxes = browser.evaluate(
        "[...document.querySelectorAll('.panel svg')].map((each) => { const box = each.getBoundingClientRect();"
        " return [box.x + scrollX, box.y + scrollY, box.width, box.height] })"
    )
    height = browser.evaluate("document.documentElement.scrollHeight")
    browser.resize(1280, height, dark)
    shot = Image.open(io.BytesIO(browser.screenshot())).convert("RGB")
    assert shot.size == (1280, height)
    paper = shot.getpixel((2, 2))
    assert (sum(paper) < 200) == dark
    for x, y, width, tall in boxes:
        assert width > 200
        assert tall > 100
        # inside the axes, away from their labels
        inner = shot.crop((int(x + 0.25 * width), int(y + 0.05 * tall), int(x + 0.9 * width), int(y + 0.75 * tall)))
        colours = inner.getcolors(1 << 20)
        strong = sum(
            number for number, colour in colours if max(abs(a - b) for a, b in zip(colour, paper, strict=True)) > 90
        )
        assert strong > 40  # pixels that are neither paper nor grid


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_phone_shows_it_without_scrolling_the_page_sideways(browser, path, dark):
    browser.open(path, width=360, height=740, dark=dark)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360
    assert browser.evaluate("visualViewport.scale") == 1
    assert overflowing(browser) == []
    smallest = browser.evaluate(
        "Math.min(...[...document.querySelectorAll('.panel svg text')].map((each) => each.getBBox().height"
        " * each.getScreenCTM().d || 99).map(Math.abs).filter((each) => each > 0))"
    )
    assert smallest > 7


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_stand_out_from_the_paper(browser, path, dark):
    browser.open(path, dark=dark)
    names = ["ink", "muted", "accent", "alarm", "clean", "noisy", *(f"method-{number}" for number in range(10))]
    for name, contrast in browser.evaluate(CONTRAST.replace("NAMES", str(names))).items():
        assert contrast > (4.5 if name in ("ink", "muted", "accent", "alarm") else 3), name


def test_it_prints_on_white_whatever_the_screen_is(browser, path):
    browser.open(path, dark=True)
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    browser.call("Emulation.setEmulatedMedia", media="print", features=[scheme])
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
    assert browser.pdf().startswith(b"%PDF")


def overflowing(browser) -> list[str]:
    """Names of the tables that are wider than their place."""
    return browser.evaluate(
        "[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth)"
        ".map((each) => each.ariaLabel)"
    )


def test_no_table_is_wider_than_its_place_however_many_methods_there_are(browser, tmp_path):
    stacked = "document.querySelector('#accuracy-last').classList.contains('stacked')"
    six = write(grid(["digits"], (0.1, 0.4), methods=(*METHODS, "label-memory")), tmp_path / "six")
    many = (*METHODS, *(f"adaptive-k:beta1=0.{n}" for n in range(1, 8)))
    many = write(grid(["digits", "mnist"], (0.1, 0.4), methods=many), tmp_path / "many")
    for path, width, expected in ((six, 1280, False), (six, 390, True), (many, 1280, True), (many, 390, True)):
        browser.open(path, width=width)
        assert browser.evaluate(stacked) == expected
        assert overflowing(browser) == []
    wait = "new Promise((done) => setTimeout(done, 200))"
    browser.open(six, width=390)
    browser.resize(1280)
    browser.evaluate(wait)
    assert not browser.evaluate(stacked)  # and back
    assert browser.complaints == []


def test_a_stacked_table_says_what_each_number_is_and_still_sorts(browser, path, results):
    browser.open(path, width=390)
    first = "document.querySelector('#accuracy-last tbody tr')"
    names = browser.evaluate(f"[...{first}.cells].map((cell) => cell.dataset.name)")
    assert names[:5] == ["data set", "noise", "rate", "seeds", "Oracle"]
    assert browser.evaluate(f"getComputedStyle({first}.cells[5], '::before').content") == '"Vanilla"'
    browser.evaluate("document.querySelectorAll('#accuracy-last thead button')[5].click()")
    column = "[...document.querySelectorAll('#accuracy-last tbody tr')].map((row) => row.cells[5].dataset.value)"
    means = [float(value) for value in browser.evaluate(column)]
    assert means == sorted(means)
    assert len(means) == len(rows(results))


def test_the_default_method_is_in_every_section(browser, tmp_path):
    browser.open(write(grid(["mnist"], (0.3, 0.4), methods=(*METHODS, "label-agreement")), tmp_path))
    for section in ("default", "at-a-glance", "accuracy-tables", "gap", "estimates", "provenance"):
        assert "Label agreement" in browser.evaluate(f"document.getElementById('{section}').innerText"), section
    for figure in ("overview", "ratio", "accuracy", "quality", "batches", "losses", "kept", "histograms"):
        assert "Label agreement" in browser.evaluate(f"document.getElementById('{figure}').innerText"), figure
