"""Which numbers in the documents are older than the code they describe.

    make numbers
    python benchmarks/doc_numbers.py --all        # those that are not, too

Numbers come from commands. Where a section of a document names a command `benchmarks/NAME.py`, its numbers are dated by
the last commit that changed a line with a digit in it. The code that they describe is that of the command and what it
imports from the library. Files that have changed since are listed, unless only their comments, docstrings or layout
have. A change may matter for none of the numbers: this is a list to look through, not a verdict. What was stored run by
run knows better: a result is outdated if its method has another revision or other defaults now, or if no recipe asks
for it any more.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from adaptivek.experiments.bench import Grid
from adaptivek.experiments.store import Store

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"benchmarks/(\w+)\.py")
SHOWN = 4  # files that have changed; the rest are counted
UNCOMMITTED = 40 * "0"  # as `git blame` calls it
HEADING = re.compile(r"(#+) (.*)")


@dataclass(frozen=True)
class Section:
    """A heading of a page and what is below it, up to the next one of its level or a higher one."""

    page: Path
    title: str
    first: int  #: line of the heading, from 1
    lines: tuple[str, ...]
    commands: tuple[str, ...]  #: named before the next heading

    def numbers(self) -> list[int]:
        """The lines with a digit, from 1, without those that only name a command."""
        return [
            self.first + place
            for place, line in enumerate(self.lines)
            if re.search(r"\d", line) and not line.startswith(("#", "    "))
        ]


def sections(page: Path) -> Iterator[Section]:
    """Those that name a command before the next heading; it stands for all that is below theirs."""
    lines, fenced = page.read_text(encoding="utf-8").splitlines(), False
    heads = []
    for place, line in enumerate(lines):
        fenced ^= line.startswith("```")
        found = None if fenced else HEADING.fullmatch(line)
        if found:
            heads.append((place, len(found[1]), found[2]))
    for number, (place, level, title) in enumerate(heads):
        end = next((other for other, depth, _ in heads[number + 1 :] if depth <= level), len(lines))
        below = next((other for other, *_ in heads[number + 1 :]), len(lines))
        if commands := dict.fromkeys(NAMED.findall("\n".join(lines[place:below]))):
            yield Section(page, title, place + 1, tuple(lines[place:end]), tuple(commands))


def code_of(command: str, seen: set[str] | None = None) -> set[Path]:
    """The file of a command, and what it and other commands that it imports take from the library; folders as whole."""
    seen = set() if seen is None else seen
    path = ROOT / "benchmarks" / f"{command}.py"
    if command in seen or not path.exists():
        return set()
    seen.add(command)
    found = {path}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            # `from package import module` names a file too
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            found |= _in_library(name) if name.startswith("adaptivek") else code_of(name, seen)
    return found


def _in_library(name: str) -> set[Path]:
    source = ROOT / "src" / Path(*name.split("."))
    if name == "adaptivek":
        return {source / part for part in ("criterion.py", "step.py", "method.py", "methods")}
    return {path for path in (source.with_suffix(".py"), source) if path.exists()}


def git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True).stdout


def dated(section: Section) -> tuple[str, str] | None:
    """The commit that last changed a number of a section, and its day; None where there is none."""
    wanted = set(section.numbers())
    heads = re.findall(r"^([0-9a-f]{40}) \d+ (\d+)", git("blame", "--porcelain", "--", str(section.page)), re.MULTILINE)
    commits = {commit for commit, line in heads if int(line) in wanted}
    if not commits:
        return None
    if UNCOMMITTED in commits:
        return UNCOMMITTED, "not committed"
    newest = next(commit for commit in git("log", "--format=%H").split() if commit in commits)
    return newest, git("show", "-s", "--format=%cs", newest).strip()


def since(commit: str, paths: set[Path]) -> list[str]:
    """Files whose code is another now than in ``commit``, by their names in the library."""
    if commit == UNCOMMITTED:  # newer than all
        return []
    names = git("diff", "--name-only", "-z", commit, "--", *map(str, sorted(paths))).split("\0")
    return [name.removeprefix("src/adaptivek/") for name in names if name.endswith(".py") and _differs(commit, name)]


def _differs(commit: str, name: str) -> bool:
    try:
        before = git("show", f"{commit}:{name}")
    except subprocess.CalledProcessError:  # it was not there
        return True
    path = ROOT / name
    return not path.exists() or bare(before) != bare(path.read_text(encoding="utf-8"))


def bare(code: str) -> str:
    """Code without comments, docstrings and layout."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def outdated(folder: Path) -> str:
    """What is to be said of a folder of results; nothing if all is of today."""
    results, others = Store(folder).look()
    apart = [result for result in results if result.apart]
    found = [f"{len(apart)} of {len(results)} results are of methods as they were"] if apart else []
    found += [f"{len(others)} files cannot be read"] if others else []
    if folder == ROOT / "results" / "paper":
        import paper

        asked = {Store(folder).path(spec) for spec in paper.fixed(Grid(methods=paper.METHODS))}
        old = [result for result in results if folder / "runs" / f"{result.identity}.json.gz" not in asked]
        found += [f"{len(old)} of recipes that are no more"] if old else []
    return "; ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="list numbers that are of today, too")
    given = parser.parse_args()
    console = Console()
    table = Table("section", "command", "numbers of", "changed since", box=None, pad_edge=False)
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for section in sections(page):
            date = dated(section)
            for command in section.commands if date else ():
                assert date is not None
                later = since(date[0], code_of(command))
                if later or given.all:
                    more = f" and {len(later) - SHOWN} more" if len(later) > SHOWN else ""
                    name = f"{page.relative_to(ROOT / 'docs')}: {section.title}"
                    table.add_row(name, command, date[1], ", ".join(later[:SHOWN]) + more or "-")
    console.print(table if table.rows else "No section is older than the code it describes.")
    for folder in sorted((ROOT / "results").iterdir()):
        if (folder / "runs").is_dir() and (about := outdated(folder)):
            console.print(f"results/{folder.name}: {about}", highlight=False)


if __name__ == "__main__":
    main()
