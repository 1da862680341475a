"""The audit as a command: its options, its progress, and the noise ratio with the most frequent pairs of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..support.files import plain
from ..support.terminal import out, progress_bar, trained_on
from .issues import annotators
from .names import listed, used_as
from .result import AuditResult

PAIRS = 5


def audit(
    source: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")] = None,
    /,
    folder: Annotated[Path, tyro.conf.arg(name="out", metavar="DIR")] = Path("audit"),
    label: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    text: str | None = None,
    ignore: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    trusted: str | None = None,
    annotator: str | None = None,
    item: str | None = None,
    decisions: Path | None = None,
    export: Literal["label-studio", "argilla", "fiftyone"] | None = None,
    encoder: str | None = None,
    model: Literal["words", "trees", "linear", "network"] | None = None,
    features: Path | None = None,
    labels: Path | None = None,
    method: str | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    seed: int = 0,
    device: str = "auto",
    resume: bool = False,
) -> None:
    """Find noisy labels in your data: how many, which rows, and what they should be.

    Scores every row by a model that has not seen it: in seconds for texts and tables, by a network for images. DIR gets
    summary.json (the noise ratio with its interval), issues.csv (every row with its score), clean.csv (or .tsv, .jsonl,
    .parquet: the cleaned data), targets.npz (to train on) and report.html. After Ctrl-C, the same
    command with --resume goes on. Of a folder of Parquet files, which may be larger than memory, issues/ and clean/ are
    folders of Parquet files as well; `torchrun --nproc-per-node 4 -m adaptivek audit ...` shares the work on it among
    four processes.

    Args:
        source: a .csv, .tsv, .jsonl or .parquet file, a folder of .parquet files or a pattern in quotes such as
            'data/*.parquet', a folder with a folder of images for each class, or hub:owner/name
        folder: folder for the results
        label: the column that holds the labels; give it again for each annotator where several columns do
        text: learn from this column of texts alone; by default all columns are used together
        ignore: a column to leave out; can be given several times
        trusted: a column that is true for rows whose label is known to be clean
        annotator: the column that says who gave the label, where each row is one label of one annotator
        item: then the column that is the same for all labels of one thing; by default rows that are alike
        decisions: the CSV that the page of an earlier audit of this data has made: a next round
        export: also write the flagged rows for a labelling tool
        encoder: a sentence encoder for the texts: its folder, or its name on the Hub; needs sentence-transformers
        model: what predicts: words (texts), trees (tables, features), linear (features, embeddings) or network; by
            default what suits the data
        features: a .npy file of numbers (rows, columns), in place of SOURCE; needs --labels
        labels: a .npy file with a label for each row, or a text file with one a line
        method: of a network: how to train on noisy labels, see `adaptivek methods`
        epochs: of a network: how long to train
        batch_size: of a network: rows in a step
        learning_rate: of a network: the highest
        seed: decides all that is random
        device: where to train: auto, cpu, cuda
        resume: go on from where a run in DIR was stopped
    """
    from .audit import CHECKPOINT
    from .audit import audit as carry_out
    from .export import export as write_export
    from .large.kept import has_parts
    from .large.ranks import process_group
    from .sources import is_streamed, read_array

    columns = None if not label else label[0] if len(label) == 1 else label
    if (source is None) == (features is None):
        raise ValueError("audit: give either SOURCE or --features with --labels")
    if features is not None and labels is None:
        raise ValueError("audit: --labels must be given with --features")
    if export is not None and features is not None:
        raise ValueError("audit: --export must be left out with --features, which nobody can look at")
    if export == "fiftyone" and not Path(str(source)).is_dir():
        raise ValueError(f"audit: --export fiftyone takes a folder of images, got {source}")
    if export is not None and is_streamed(source, columns, None):
        raise ValueError(f"audit: --export must be left out for large data such as {source}: flagged rows are too many")
    if (folder / "summary.json").exists() and not (folder / CHECKPOINT).exists() and not has_parts(folder):
        raise FileExistsError(f"audit: {folder} holds an audit already: give another folder with --out")
    plan: dict[str, Any] = {
        "method": method,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "seed": seed,
    }
    try:
        with (
            process_group() as (rank, ranks),
            progress_bar(console=out if rank == 0 else Console(quiet=True)) as progress,
        ):
            bar = progress.add_task("training", total=None, status="reading")

            def show(work: str, done: int, total: int) -> None:
                progress.update(bar, description=work, completed=done, total=total, status="")

            result = carry_out(
                str(source if features is None else features),
                columns if labels is None else read_array(labels),
                text=text,
                ignore=ignore,
                trusted=trusted,
                annotator=annotator,
                item=item,
                decisions=decisions,
                model=model,
                encoder=encoder,
                folder=folder,
                resume=resume,
                device=device,
                distributed=ranks > 1,
                progress=lambda done, total: show("training", done, total),
                encoding=lambda done, total: show("encoding", done, total),
                **{name: value for name, value in plan.items() if value is not None},
            )
    except KeyboardInterrupt:
        told = "stopped before the first epoch was done: there is nothing to go on from"
        if (folder / CHECKPOINT).exists():
            told = "stopped; the same command with --resume goes on from the last whole epoch"
        elif has_parts(folder):
            told = "stopped; the same command with --resume goes on from the last rows that were kept"
        raise KeyboardInterrupt(told) from None
    if rank > 0:
        return  # the first process tells
    _show(result)
    if export is not None:
        files = ", ".join(path.name for path in write_export(result, export, folder))
        out.print(f"for {export}: {files}", highlight=False, markup=False)
    out.print(trained_on(result.settings["device"], result.settings["threads"]), highlight=False)
    out.print(f"written to {folder}", highlight=False, markup=False, soft_wrap=True)


def _show(result: AuditResult) -> None:
    """Print the result. Names come from the data: shown as plain text, never as markup."""
    out.print(result.headline, highlight=False)
    pairs = np.stack([result.label, result.suggested_label], 1)[result.is_issue]
    if len(pairs):
        table = Table("observed", "suggested", "rows")
        found, counts = np.unique(pairs, axis=0, return_counts=True)
        for place in np.argsort(-counts)[:PAIRS]:
            names = (Text(result.classes[code][:60]) for code in found[place])
            table.add_row(*names, f"{counts[place]:,}")
        out.print(table)
    for line in [*_read(result), *_annotators(result)]:
        out.print(line, highlight=False, markup=False, soft_wrap=True)
    for note in result.notes:
        out.print(note, highlight=False, markup=False)
    for warning in result.warnings:
        out.print(warning, style="yellow", highlight=False, markup=False)


def _read(result: AuditResult) -> list[str]:
    """What was used as what, what was skipped, and what was known beforehand."""
    lines = []
    settings = result.settings
    if "used_as" in settings:
        lines.append(f"used: {used_as(settings['used_as'])}")
        if settings["left_out"]:
            left = (f"{plain(name)} ({why})" for name, why in settings["left_out"].items())
            lines.append(f"left out: {listed(left)}")
    if result.skipped:
        row, reason = result.skipped[0]
        files = None if result.given is None else result.given.files
        where = f"row {row}" if files is None else plain(files[row])
        lines.append(f"rows skipped: {len(result.skipped):,}, the first is {where}: {reason}")
    if result.given is not None and result.given.trusted is not None:
        lines.append(f"trusted: {result.given.trusted.sum():,} rows")
    return lines


def _annotators(result: AuditResult) -> list[str]:
    found = annotators(result)
    if not found:
        return []
    (worst, _, high, _), (best, _, low, _) = found[0], found[-1]
    return [
        f"annotators: {len(found):,}; error rates from {low:.1%} ({plain(best)}) to {high:.1%} ({plain(worst)}), "
        "all in annotators.csv"
    ]
