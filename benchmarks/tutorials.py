"""The tutorials as pages: runs docs/tutorials/*.py, and writes what they print and draw beside their code.

    python benchmarks/tutorials.py                  # all four: minutes
    python benchmarks/tutorials.py own_method

The scripts are in jupytext's percent format: open them as notebooks in Jupyter or an editor. The pages, docs/tutorials/
NAME.md with the figures in docs/figures/tutorials, are kept, so that the site can be built without training anything.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jupytext
import matplotlib

FOLDER = Path(__file__).parent.parent / "docs/tutorials"


@dataclass
class Done:
    """A cell, and what came of it."""

    markdown: bool
    source: str
    printed: str = ""
    figures: list[Any] = field(default_factory=list)


def cells(path: Path) -> list[Any]:
    return list(jupytext.read(path).cells)


def run(path: Path, parameters: Mapping[str, Any]) -> Iterator[Done]:
    """Cell by cell, as a notebook does it; ``parameters`` replace what the cell with that tag sets."""
    from matplotlib import pyplot

    module = sys.modules[path.stem] = types.ModuleType(path.stem)  # compilers look for what its functions name
    names = vars(module)
    pyplot.close("all")  # what others have left open is not of this notebook
    for cell in cells(path):
        if cell.cell_type == "markdown":
            yield Done(True, cell.source)
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(cell.source, path.name, "exec", dont_inherit=True), names)
        if "parameters" in cell.metadata.get("tags", ()):
            unknown = parameters.keys() - names.keys()
            if unknown:
                raise ValueError(f"{path.name}: parameters must be among those of its cell, got {sorted(unknown)}")
            names |= parameters
        figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
        yield Done(False, cell.source, printed.getvalue(), figures)
        pyplot.close("all")


def page(path: Path, figures: Path) -> str:
    """The page of a tutorial, and its figures in their folder."""
    from docs_drawing import PENS, STYLE, save

    cycle = matplotlib.cycler(color=[PENS[name] for name in ("blue", "red", "green", "violet", "grey", "ink", "muted")])
    parts, number = [], 0
    with matplotlib.rc_context(STYLE | {"axes.prop_cycle": cycle}):
        for done in run(path, {}):
            parts.append(done.source if done.markdown else f"```python\n{done.source.strip()}\n```")
            if done.printed:
                parts.append(f"```text\n{done.printed.rstrip()}\n```")
            for figure in done.figures:
                number += 1
                figure.set_layout_engine("constrained")
                save(figure, figures / f"{path.stem}-{number}.svg")
                parts.append(f"![What the code above draws](../figures/tutorials/{path.stem}-{number}.svg)")
    title, *rest = parts
    note = f"*This page is [`{path.name}`]({path.name}) with what it printed and drew, in jupytext's percent format.*"
    heading, _, lead = title.partition("\n")
    return "\n\n".join([heading, note, lead.strip(), *rest]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=sorted(path.stem for path in FOLDER.glob("*.py")))
    given = parser.parse_args()
    matplotlib.use("agg")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # what a tutorial writes goes there
        for name in given.names:
            text = page(FOLDER / f"{name}.py", FOLDER.parent / "figures/tutorials")
            (FOLDER / f"{name}.md").write_text(text)
            print(FOLDER / f"{name}.md")


def code(text: str) -> list[str]:
    """The code of a page, block by block."""
    return re.findall(r"```python\n(.*?)\n```", text, re.DOTALL)


if __name__ == "__main__":
    main()
