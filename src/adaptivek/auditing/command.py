"""The audit as a command: its options, its progress, and the noise ratio with the most frequent pairs of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.table import Table
from rich.text import Text

from ..support.terminal import out, progress_bar, trained_on
from .result import AuditResult

PAIRS = 5


def audit(
    source: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")] = None,
    /,
    folder: Annotated[Path, tyro.conf.arg(name="out", metavar="DIR")] = Path("audit"),
    label: str | None = None,
    text: str | None = None,
    encoder: str | None = None,
    features: Path | None = None,
    labels: Path | None = None,
    method: str = "auto",
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    seed: int = 0,
    device: str = "auto",
    resume: bool = False,
) -> None:
    """Find noisy labels in your data: how many, which rows, and what they should be.

    Trains once, and scores every row by a network that has not seen it. DIR gets summary.json (the noise ratio with its
    interval), issues.csv (every row with its score), targets.npz (to train on), clean.csv or clean.parquet (the data
    without the flagged rows) and report.html. After Ctrl-C, the same command with --resume goes on.

    Args:
        source: a .csv, .tsv or .parquet file, a folder with a folder of images for each class, or hub:owner/name
        folder: folder for the results
        label: the column that holds the labels
        text: the column that holds the texts; found if there is one
        encoder: a sentence encoder for the texts: its folder, or its name on the Hub; needs sentence-transformers
        features: a .npy file of numbers (rows, columns), in place of SOURCE; needs --labels
        labels: a .npy file with a label for each row, or a text file with one a line
        method: how to train on noisy labels: see `adaptivek methods`
        epochs: how long to train
        batch_size: rows in a step
        learning_rate: highest learning rate
        seed: decides all that is random
        device: where to train: auto, cpu, cuda
        resume: go on from where a run in DIR was stopped
    """
    from .audit import CHECKPOINT
    from .audit import audit as carry_out
    from .sources import read_array

    if (source is None) == (features is None):
        raise ValueError("audit: give either SOURCE or --features with --labels")
    if features is not None and labels is None:
        raise ValueError("audit: --labels must be given with --features")
    if (folder / "summary.json").exists() and not (folder / CHECKPOINT).exists():
        raise FileExistsError(f"audit: {folder} holds an audit already: give another folder with --out")
    plan: dict[str, Any] = {
        "method": method,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "seed": seed,
    }
    try:
        with progress_bar() as progress:
            bar = progress.add_task("training", total=None, status="reading")

            def show(work: str, done: int, total: int) -> None:
                progress.update(bar, description=work, completed=done, total=total, status="")

            result = carry_out(
                str(source if features is None else features),
                label if labels is None else read_array(labels),
                text=text,
                encoder=encoder,
                folder=folder,
                resume=resume,
                device=device,
                progress=lambda done, total: show("training", done, total),
                encoding=lambda done, total: show("encoding", done, total),
                **{name: value for name, value in plan.items() if value is not None},
            )
    except KeyboardInterrupt:
        told = "stopped before the first epoch was done: there is nothing to go on from"
        if (folder / CHECKPOINT).exists():
            told = "stopped; the same command with --resume goes on from the last whole epoch"
        raise KeyboardInterrupt(told) from None
    _show(result)
    out.print(trained_on(result.settings["device"], result.settings["threads"]), highlight=False)
    out.print(f"written to {folder}", highlight=False, markup=False, soft_wrap=True)


def _show(result: AuditResult) -> None:
    """Print the result. Names come from the data: shown as plain text, never as markup."""
    percent = f"{result.noise_ratio:.1%} ({result.noise_ratio_low:.1%} to {result.noise_ratio_high:.1%})"
    out.print(
        f"{percent} of {len(result.row):,} labels look noisy; {result.is_issue.sum():,} rows are flagged",
        highlight=False,
    )
    pairs = np.stack([result.label, result.suggested_label], 1)[result.is_issue]
    if len(pairs):
        table = Table("label", "suggested", "rows")
        found, counts = np.unique(pairs, axis=0, return_counts=True)
        for place in np.argsort(-counts)[:PAIRS]:
            names = (Text(result.classes[code][:60]) for code in found[place])
            table.add_row(*names, f"{counts[place]:,}")
        out.print(table)
    if result.skipped:
        row, reason = result.skipped[0]
        number = len(result.skipped)
        out.print(f"rows skipped: {number:,}, the first is {row}: {reason}", highlight=False, markup=False)
    for warning in result.warnings:
        out.print(warning, style="yellow", highlight=False, markup=False)
