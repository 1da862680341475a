"""What several commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..support.terminal import out

if TYPE_CHECKING:
    from ..experiments.data import Split


def show_data(dataset: str, data: Split) -> None:
    """What was taken of a data set."""
    rows = f"{len(data.y):,} rows to train on and {len(data.y_test):,} to test on, {data.classes} classes"
    kind = "texts" if data.vocabulary else "images"
    columns = "; {} from column {}, labels from column {}".format(kind, *data.columns) if all(data.columns) else ""
    out.print(f"{dataset}: {rows}{columns}", highlight=False, markup=False, soft_wrap=True)


def show_report(folder: str, target: str) -> None:
    """Write the report on the results in a folder, and print its tables."""
    from ..experiments.report.page import read, write
    from ..experiments.report.tables import failures, rows
    from ..experiments.report.terminal import show
    from ..experiments.report.text import notes

    results, others = read(folder)
    page = write(results, target, others)  # before printing, which a closed pipe may cut short
    show(out, rows(results), len(failures(results)), notes(results, others))
    out.print(f"written to {page}", highlight=False, markup=False, soft_wrap=True)
