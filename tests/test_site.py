"""The site is built, holds together and needs nothing from elsewhere; the tutorials run."""

from __future__ import annotations

import html
import os
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from filelock import FileLock

import adaptivek
from adaptivek.methods import METHODS, needs

from .browser import find
from .fresh import python

ROOT = Path(__file__).parent.parent
#: without a figure of what is learned by loss, and why: see benchmarks/method_figures.py
NO_FIGURE = {"mixup", "moit", "oracle", "pes", "vanilla"}
#: small settings, by the tutorial; what is not here runs as it is
SMALL = {
    "dirty_csv": {"rows": 300, "epochs": 2},
    "one_line": {"epochs": 1},
    "which_method": {"methods": ["vanilla", "gce"], "noises": ["symmetric"], "seeds": 1, "epochs": 1},
    "own_method": {"epochs": 1, "check": False},
}
BUILD = """
import sys
from mkdocs.__main__ import cli
cli(["build", "--strict", "--quiet", "--config-file", sys.argv[1], "--site-dir", sys.argv[2]])
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once, for all processes of pytest-xdist."""
    shared = tmp_path_factory.getbasetemp()
    folder = (shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared) / "site"
    with FileLock(f"{folder}.lock"):
        if not (folder / "sitemap.xml").exists():  # written last
            done = python(BUILD, str(ROOT / "mkdocs.yml"), str(folder), NO_MKDOCS_2_WARNING="1")
            assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Page(HTMLParser):
    """What a page links to, what it loads, and where links may lead in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        self.loads |= {found[name] for name in ("src", "srcset") if name in found}
        if tag == "link" and found.get("rel") not in ("canonical", "next", "prev"):
            self.loads.add(found["href"])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def within(pages: dict[Path, Page], targets: str) -> Iterator[tuple[Path, Path, str]]:
    for path, page in pages.items():
        for target in getattr(page, targets):
            parts = urlsplit(target)
            if not parts.scheme:
                yield path, (path.parent / unquote(parts.path)).resolve() if parts.path else path, parts.fragment


def test_every_link_leads_to_a_page_and_a_place_in_it(pages):
    assert len(pages) > 60
    for path, target, place in within(pages, "links"):
        assert target.exists(), f"{path} links to {target}"
        if place and target in pages:
            assert unquote(place) in pages[target].anchors | {"__tabbed", ""}, f"{path} links to {target}#{place}"


def test_nothing_is_loaded_from_elsewhere(site, pages):
    for path, page in pages.items():
        assert not [target for target in page.loads if urlsplit(target).scheme not in ("", "data")], path
    for path, target, _ in within(pages, "loads"):
        assert target.exists(), f"{path} loads {target}"
    for path in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", path.read_text()), path


def test_the_reference_has_every_public_name(pages, site):
    """Of what users import: the methods have their own pages."""
    reference = (site / "reference/api.html").read_text()
    classes = {method.__name__ for method in METHODS.values()} | {"METHODS"}
    source = (ROOT / "src/adaptivek/__init__.py").read_text()
    public = {name for name in re.findall(r"import \w+ as (\w+)", source) if name not in classes}
    assert {"Selection", "audit", "indexed"} <= public
    for name in public - {"register"}:
        assert hasattr(adaptivek, name)
        assert re.search(rf'id="adaptivek\.[\w.]*\.{name}"', reference), name


def test_the_commands_are_as_the_program_prints_them(site):
    text = (site / "reference/commands.html").read_text()
    for word in ("adaptivek audit", "adaptivek bench", "--noise-rates", "--encoder", "--data-root"):
        assert word in text


@pytest.mark.parametrize("name", METHODS)
def test_the_card_of_a_method_says_what_the_registry_says(site, name):
    text = (site / f"methods/{name}.html").read_text()
    card = html.unescape(text[text.index('class="card"') : text.index('id="idea"')])
    method = METHODS[name]
    for cell in (method.summary, method.paper, ", ".join(needs(method)) or "nothing beyond plain training"):
        assert f"<td>{cell}</td>" in card
    assert f"{method.networks * method.views} forward, {method.networks} backward" in card
    assert ("the default" in card) == (name == adaptivek.Selection().method.name)


@pytest.mark.parametrize("name", METHODS)
def test_the_idea_takes_two_sentences_and_the_figure_is_there(name):
    page = (ROOT / f"docs/methods/{name}.md").read_text()
    idea = re.search(r"## Idea\n(.+)\n", page)
    assert idea is not None
    assert len(re.findall(r"[.?!](?=\s|$)", idea[1])) <= 2, idea[1]
    drawn = f"(../figures/methods/{name}.svg)" in page
    assert drawn == (ROOT / f"docs/figures/methods/{name}.svg").exists() == (name not in NO_FIGURE)


def test_figures_follow_light_and_dark():
    figures = ROOT / "docs/figures"
    paths = [*(figures / "methods").glob("*.svg"), *(figures / "tutorials").glob("*.svg"), *figures.glob("readme*.svg")]
    assert len(paths) > 40
    for path in paths:
        assert "prefers-color-scheme:dark" in path.read_text(), path


@pytest.mark.skipif(find() is None, reason="no Chromium")
def test_a_page_opened_as_a_file_can_be_searched(site, browser):
    """By a frame in place of the worker, which browsers do not start for files."""
    browser.open(site / "index.html")
    browser.evaluate("""(() => {
        const input = document.querySelector(".md-search__input");
        input.focus();
        input.value = "transition matrix";
        input.dispatchEvent(new Event("keyup", {bubbles: true}));
    })()""")
    found: list[str] = []
    for _ in range(100):
        found = browser.evaluate("[...document.querySelectorAll('.md-search-result__item a')].map(a => a.href)")
        if found:
            break
        browser.evaluate("new Promise(done => setTimeout(done, 100))")
    assert any("methods/forward.html" in link for link in found)
    assert not browser.complaints


@pytest.mark.skipif(find() is None, reason="no Chromium")
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("page", ["index", "methods/gce", "methods", "results", "reference/api", "tutorials/one_line"])
def test_no_page_is_wider_than_the_window(site, browser, page, width):
    browser.open(site / f"{page}.html", width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert all(request.startswith(("file:", "data:")) for request in browser.requests)


TUTORIALS = sorted(path.stem for path in (ROOT / "docs/tutorials").glob("*.py"))


@pytest.fixture
def tutorials(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.chdir(tmp_path)
    import matplotlib
    import tutorials

    matplotlib.use("agg")
    return tutorials


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_runs_and_its_page_has_its_code(tutorials, name):
    path = ROOT / f"docs/tutorials/{name}.py"
    done = list(tutorials.run(path, SMALL.get(name, {})))
    assert any(cell.printed for cell in done)
    page = path.with_suffix(".md").read_text()
    assert tutorials.code(page) == [cell.source.strip() for cell in done if not cell.markdown]
    drawn = re.findall(r"\(\.\./(figures/tutorials/.*\.svg)\)", page)
    assert len(drawn) == sum(len(cell.figures) for cell in done) > 0
    assert all((ROOT / "docs" / figure).exists() for figure in drawn)
    sys.modules.pop(name, None)


def test_a_tutorial_refuses_a_parameter_that_it_does_not_have(tutorials):
    with pytest.raises(ValueError, match=r"one_line\.py: parameters must be among those of its cell, got .*speed"):
        list(tutorials.run(ROOT / "docs/tutorials/one_line.py", {"speed": 3}))
