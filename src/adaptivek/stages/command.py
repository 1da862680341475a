"""The commands `fit` and `predict`."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Any

import tyro

from ..support.files import harmless
from ..support.terminal import out, progress_bar


def fit(
    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")],
    /,
    folder: Annotated[Path, tyro.conf.arg(name="out", metavar="DIR")] = Path("fitted"),
    label: str | None = None,
    text: str | None = None,
    labels: Path | None = None,
    rounds: int | None = None,
    measured: bool = True,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    seed: int = 0,
    device: str = "auto",
) -> None:
    """Train a network on noisy labels in two stages, ready to predict.

    Cross-trains on halves of the rows, judges every label, and trains a fresh network that begins with what is known of
    each row. DIR gets the network (model.safetensors), all that is needed to load it (fit.json), and audit/ with the
    noise ratio, the noisy rows and a page.

    Args:
        source: a .csv, .tsv or .parquet file, a folder with a folder of images for each class, or a .npy file
        folder: folder for the results
        label: the column that holds the labels
        text: the column that holds the texts; found if there is one
        labels: for a .npy file: a .npy file with a label for each row, or a text file with one a line
        rounds: cross-trainings, 1 or 2; decided by what is measured unless given
        measured: measure the gain over plain training by cross-fitting; takes longer than all the rest
        epochs: how long to train
        batch_size: rows in a step
        learning_rate: highest learning rate
        seed: decides all that is random
        device: where to train: auto, cpu, cuda
    """
    from ..auditing.sources import read_array
    from .fit import fit as carry_out

    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"fit: {folder} is not empty: give another folder with --out")
    plan: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "seed": seed}
    with progress_bar() as progress:
        bar = progress.add_task("reading", total=None, status="")
        fitted = carry_out(
            None,
            source,
            label if labels is None else read_array(labels),
            text=text,
            rounds=rounds,
            measured=measured,
            folder=folder,
            device=device,
            progress=lambda what, done, total: progress.update(bar, description=what, completed=done, total=total),
            **{name: value for name, value in plan.items() if value is not None},
        )
    result = fitted.audit
    assert result is not None
    out.print(
        f"{result.noise_ratio:.1%} ({result.noise_ratio_low:.1%} to {result.noise_ratio_high:.1%}) of "
        f"{len(result.row):,} labels look noisy",
        highlight=False,
    )
    if fitted.gain is not None:
        out.print(fitted.gain.sentence(), highlight=False)
    for warning in result.warnings:
        out.print(warning, style="yellow", highlight=False, markup=False)
    out.print(f"written to {folder}; the labels: {folder / 'audit' / 'report.html'}", highlight=False, markup=False)


def predict(
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NEW")],
    /,
    file: Annotated[Path, tyro.conf.arg(name="out", metavar="FILE")] = Path("predictions.csv"),
    device: str = "auto",
) -> None:
    """Predict the classes of new rows with a network that `fit` has trained.

    Args:
        folder: what `adaptivek fit` has written
        source: rows of the kind that it was fitted to, without labels or with
        file: a CSV file for the predictions: row, predicted class and its probability
        device: where to compute: auto, cpu, cuda
    """
    import numpy as np

    from .fitted import load_fitted

    if file.exists():
        raise FileExistsError(f"predict: {file} is there already: give another file with --out")
    fitted = load_fitted(folder, device=device)
    found, names = fitted.predict_proba(source), [harmless(name) for name in fitted.classes]
    with file.open("w", newline="", encoding="utf-8") as lines:
        table = csv.writer(lines)
        table.writerow(["row", "predicted", "probability"])
        for row, probabilities in enumerate(found):
            unread = bool(np.isnan(probabilities[0]))
            best = 0 if unread else int(probabilities.argmax())
            table.writerow([row, *(["", ""] if unread else [names[best], f"{probabilities[best]:.4f}"])])
    skipped = int(np.isnan(found[:, 0]).sum())
    out.print(
        f"{len(found):,} rows, {skipped:,} of them cannot be read; written to {file}", highlight=False, markup=False
    )
