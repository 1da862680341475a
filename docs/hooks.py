"""What the site has beyond the pages in this folder: cards from the registry, the commands' help, linked sources.

MkDocs calls these while it builds: see mkdocs.yml. The pages themselves can be read as they are, without any of it.
"""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import re
from pathlib import Path
from unittest import mock

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
ROOT = DOCS.parent
#: pages that are not in this folder, since people look for them elsewhere
ELSEWHERE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
CAPTION = "*Rows that are made, 40 % of them noisy. [How to read it](../methods.md#the-figures).*"
COMMANDS = ("audit", "train", "bench", "report", "methods", "theory")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """A page for each method below the list of all."""
    pages = sorted(path.name for path in (DOCS / "methods").glob("*.md"))
    (methods,) = (part["Methods"] for part in config.nav or [] if "Methods" in part)
    methods += [f"methods/{name}" for name in pages]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages of what is elsewhere in the repository: two documents, and each source that a page links to."""
    for name, page in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    pages = {file.src_uri: file.content_string for file in files if file.src_uri.endswith(".md")}
    for source in sorted({path for uri, text in pages.items() for path in outside(uri, text)}):
        if source not in ELSEWHERE:
            text = f"---\nsearch:\n  exclude: true\n---\n\n# {source}\n\n```python\n{(ROOT / source).read_text()}```\n"
            files.append(File.generated(config, source_page(source), content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    uri = page.file.src_uri
    if uri == "index.md":
        page.meta["hide"] = ["navigation"]  # it would hold this page alone
    if uri.startswith("methods/"):
        markdown = with_card(markdown, Path(uri).stem)
    if uri == "reference/commands.md":
        markdown += "\n".join(f"\n## adaptivek {name}\n\n```text\n{helped(name)}```\n" for name in COMMANDS)
    return LINK.sub(lambda link: f"]({relinked(uri, link[1])}{link[2] or ''})", markdown)


def place(uri: str, target: str) -> str:
    """Where a link of a page leads, from the root of the repository."""
    folder = "" if uri in ELSEWHERE.values() else posixpath.join("docs", posixpath.dirname(uri))
    return posixpath.normpath(posixpath.join(folder, target))


def outside(uri: str, text: str) -> set[str]:
    """The files of the repository, but not of this folder, that a page links to."""
    found = {place(uri, link[1]) for link in LINK.finditer(text) if "://" not in link[1]}
    return {path for path in found if not path.startswith("docs/") and (ROOT / path).is_file()}


def source_page(source: str) -> str:
    return f"source/{source}.md"


def relinked(uri: str, target: str) -> str:
    """The link as it must be in the site."""
    if "://" in target:
        return target
    path = place(uri, target)
    if path.startswith("docs/"):
        page = path.removeprefix("docs/")
    elif (ROOT / path).is_file():
        page = ELSEWHERE.get(path, source_page(path))
    else:
        return target  # MkDocs says that there is no such page
    return posixpath.relpath(page, posixpath.dirname(uri) or ".")


def with_card(markdown: str, name: str) -> str:
    """Below the first line of a method's page: what it needs and costs, as the registry has it."""
    from adaptivek import Selection
    from adaptivek.methods import METHODS, needs, passes

    method = METHODS[name]
    forward, backward = passes(method)
    rows = {
        "in a line": method.summary,
        "needs": ", ".join(needs(method)) or "nothing beyond plain training",
        "a step": f"{forward} forward, {backward} backward",
        "noise ratio": "estimated" if method.leaves_out and not method.clean_share else "not estimated",
        "from": method.paper,
    }
    if name == Selection().method.name:
        rows["use"] = "the default: `Selection()`"
    card = '<div class="card" markdown>\n\n| | |\n|---|---|\n'
    card += "".join(f"| {key} | {value} |\n" for key, value in rows.items()) + "\n</div>\n\n"
    title, line, rest = markdown.split("\n\n", 2)
    rest = re.sub(r"(!\[.*\]\(.*/figures/methods/.*\))", rf"\1\n\n{CAPTION}", rest)
    return f"{title}\n\n{line}\n\n{card}{rest}"


def helped(name: str) -> str:
    """What ``adaptivek NAME --help`` prints."""
    from adaptivek.cli import main

    text = io.StringIO()
    wide = mock.patch.dict(os.environ, COLUMNS="90", NO_COLOR="1")
    with wide, contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main([name, "--help"])
    return text.getvalue()
