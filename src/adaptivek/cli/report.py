"""`adaptivek report`: the results of many runs as one page."""

from __future__ import annotations

import sys
from typing import Annotated

import tyro

from ..support.modules import import_modules
from .imports import Imports
from .show import show_report


def report(
    folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    /,
    target: Annotated[str | None, tyro.conf.arg(name="out", metavar="DIR")] = None,
    markdown: bool = False,
    paper: bool = False,
    imports: Imports = (),
) -> None:
    """Show the results of many runs as one page.

    Prints the paper's claims counted over the settings that are there, and the table; writes report.html,
    which needs nothing beside it, table.csv and table.md.

    Args:
        folder: folder of results, here or like s3://bucket/runs
        target: folder for the files, the same one by default
        markdown: print the tables as markdown and write nothing
        paper: write paper.html too: the paper's figures for every data set, and whether these results agree
    """
    import_modules(imports)

    from ..experiments.report.page import read
    from ..experiments.report.tables import failures, rows
    from ..experiments.report.text import markdown as as_markdown
    from ..experiments.report.text import notes

    if markdown:
        results, others = read(folder)
        sys.stdout.write(as_markdown(rows(results), failures(results), notes(results, others)))
    else:
        show_report(folder, folder if target is None else target)
        if paper:
            from ..experiments.report.paper import write
            from ..support.terminal import out

            out.print(f"written to {write(folder, target or folder)}", highlight=False, markup=False, soft_wrap=True)
