"""`adaptivek theory`: the paper's theory, for losses like one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from ..support.terminal import out


def theory(
    folder: Annotated[Path, tyro.conf.arg(name="out", metavar="DIR")],
    mu1: float = 0.0,
    sigma1: float = 1.0,
    mu2: float = 5.0,
    sigma2: float = 2.0,
    tau: float = 0.4,
    n: int = 10,
    k: int = 6,
    run: Annotated[Path | None, tyro.conf.arg(metavar="RUN_DIR")] = None,
) -> None:
    """Compute the paper's theory for losses like yours.

    Prints the error of plain training, MKL and Adaptive-k and what follows from the model; DIR gets the
    figures (SVG and PNG) and theory.html. The defaults are the paper's.

    Args:
        folder: folder for the figures and the page
        mu1: mean of the clean losses
        sigma1: standard deviation of the clean losses
        mu2: mean of the noisy losses
        sigma2: standard deviation of the noisy losses
        tau: noise ratio
        n: batch size of MKL
        k: how many of them MKL keeps
        run: folder of a run of `adaptivek train`, to lay predicted against measured
    """
    from ..experiments.records import read_records
    from ..theory.fit import fit_run
    from ..theory.page import Setting, report, write

    setting = Setting(mu1, sigma1, mu2, sigma2, tau, n, k)
    tables, pictures = report(setting, None if run is None else fit_run(read_records(run)))
    write(folder, tables, pictures)  # before printing, which a closed pipe may cut short
    for entry in tables:
        table = Table(*entry.header, title=entry.title, title_justify="left")
        for row in entry.rows:
            table.add_row(*row)
        out.print(table)
        out.print(f"{entry.note}\n", highlight=False)
    out.print(f"written to {folder}", highlight=False)
