"""The pages as axe-core sees them: contrast, names for screen readers, headings, keyboard. `make test` fetches it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from adaptivek.auditing.page import Shown, write_page
from adaptivek.experiments.report.page import write
from adaptivek.theory import page as theory
from adaptivek.theory.figures import densities

from .browser import Browser, find
from .made_audit import audit, picture
from .made_results import METHODS, grid

AXE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
pytestmark = [
    pytest.mark.skipif(find() is None, reason="no browser found"),
    pytest.mark.skipif(not AXE.is_file(), reason="no axe-core found: npm ci --prefix tests"),
]
#: what axe-core found, as lines: the rule, what it wants, and the first elements that break it
RUN = """
axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations.map((each) =>
  `${each.id}: ${each.help}: ${each.nodes.slice(0, 5).map((node) => node.target.join(" ")
  + (node.any[0]?.data?.contrastRatio ? " " + node.any[0].data.contrastRatio : "")).join(", ")} (${each.nodes.length})`
))
"""


def violations(browser: Browser) -> list[str]:
    browser.evaluate(AXE.read_text() + "; undefined")
    found: list[str] = browser.evaluate(RUN)
    return found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each kind of page with all that it can have: failures, missing seeds, many methods, warnings, skipped rows."""
    folder = tmp_path_factory.mktemp("pages")
    runs = [*grid(["mnist"], (0.1, 0.4), (*METHODS, "label-memory"), seeds=(0, 1)), *grid(["imdb"], (0.4,), seeds=(0,))]
    runs[0] = dataclasses.replace(runs[0], epochs=[], details=[], failure="out of memory")
    found = {"report": write(runs, folder / "report")}
    table = theory.Table("Errors", "In units of the loss.", ("method", *"abcdefgh"), (("SGD", *["0.123456"] * 8),))
    figure = theory.Picture("mixture", "Losses of clean and noisy samples.", densities(theory.Setting().mixture()))
    found["theory"] = theory.write(folder, [table], [figure])[-1]
    result = audit(
        [0, 1, 0, 1] * 10, [1, 0, 0, 1] * 10, [0.1, 0.2, 0.8, 0.9] * 10, ["cat", "dog"],
        warnings=["The audit is not to be trusted."], skipped=[(7, "empty text")],
    )  # fmt: skip
    for kind, content in (
        ("text", ["a text of some words"] * 40),
        ("image", lambda place: picture(5 * place)),
        ("table", [{"age": 3, "job": "baker"}] * 40),
    ):
        found[kind] = folder / f"{kind}.html"
        write_page(found[kind], result, Shown(kind, content), "pets.csv")
    return found


def test_what_cannot_be_read_is_noticed(browser, tmp_path):
    """Or the next test could not fail."""
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><title>x</title><main><p style='color: #ccc'>pale</p><img src='data:,'></main>")
    browser.open(bad)
    found = violations(browser)
    assert any(line.startswith("color-contrast") for line in found)
    assert any(line.startswith("image-alt") for line in found)
    assert any(line.startswith("html-has-lang") for line in found)


@pytest.mark.parametrize("kind", ["report", "theory", "text", "image", "table"])
@pytest.mark.parametrize(
    ("width", "dark"), [(1280, False), (1280, True), (390, True)], ids=["desktop-light", "desktop-dark", "phone-dark"]
)
def test_pages_can_be_read_by_everybody(browser, pages, kind, width, dark):
    browser.open(pages[kind], width=width, dark=dark)
    assert violations(browser) == []
