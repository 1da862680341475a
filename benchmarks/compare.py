"""The paper's five methods on one data set with noisy labels, several seeds, one table.

    python benchmarks/compare.py digits
    python benchmarks/compare.py fashion-mnist --data-root DATA --seeds 1

MNIST and Fashion-MNIST are read from DATA/<name>/{train,test}.parquet (columns `image` and `label`, as on
the Hugging Face Hub), 5,000 training rows drawn by the seed, with the authors' notebook settings.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import multiprocessing
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from adaptivek.data import Split, load
from adaptivek.recipes import RECIPES, Recipe, RunSpec
from adaptivek.records import EpochRecord
from adaptivek.train import Session

METHODS = ("oracle", "vanilla", "mkl", "vanilla+mkl", "adaptive-k")
# mean and spread of the pixels: the notebook's for MNIST, the usual ones for Fashion-MNIST
PIXELS = {"mnist": (0.1307, 0.3081), "fashion-mnist": (0.2860, 0.3530)}


def images(path: Path, mean: float, std: float) -> tuple[torch.Tensor, torch.Tensor]:
    import pyarrow.parquet as pq
    from PIL import Image

    table = pq.read_table(path, columns=["image", "label"]).to_pydict()
    pixels = np.stack([np.asarray(Image.open(io.BytesIO(image["bytes"]))) for image in table["image"]])
    x = (torch.from_numpy(pixels).float() / 255 - mean) / std
    return x.unsqueeze(1), torch.tensor(table["label"])


def read(dataset: str, root: Path, seed: int) -> Split:
    if dataset not in PIXELS:
        return load(dataset)
    x, y = images(root / dataset / "train.parquet", *PIXELS[dataset])
    rows = torch.from_numpy(np.random.default_rng(seed).choice(len(y), 5_000, replace=False))
    return Split(x[rows], y[rows], *images(root / dataset / "test.parquet", *PIXELS[dataset]), classes=10)


def run(spec: RunSpec, root: Path) -> list[EpochRecord]:
    torch.set_num_threads(1)
    return list(Session(spec, read(spec.dataset, root, spec.seed)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=["digits", *PIXELS])
    parser.add_argument("--data-root", type=Path, default=Path())
    parser.add_argument("--noise", default="directed")
    parser.add_argument("--noise-rate", type=float, default=0.4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--warmup-epochs", type=int, help="instead of the recipe's")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args()

    recipe = RECIPES.get(given.dataset, Recipe())
    if given.warmup_epochs is not None:
        recipe = dataclasses.replace(recipe, warmup_epochs=given.warmup_epochs)
    specs = [
        RunSpec(given.dataset, method, given.noise, given.noise_rate, seed=seed, recipe=recipe)
        for seed in range(given.seeds)
        for method in given.methods
    ]
    console = Console()
    console.print(
        f"{given.dataset}, {given.noise_rate:.0%} {given.noise} noise, {recipe.epochs} epochs "
        f"(methods that warm up: {recipe.warmup_epochs} plain ones first), {given.seeds} seeds",
        highlight=False,
    )
    started, done = time.perf_counter(), {}
    columns = TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    # spawn: a fork would inherit torch's threads in an unknown state
    pool = ProcessPoolExecutor(given.workers, multiprocessing.get_context("spawn"))
    with Progress(*columns, console=console) as progress, pool:
        task = progress.add_task("runs", total=len(specs))
        futures = {pool.submit(run, spec, given.data_root): spec for spec in specs}
        for future in as_completed(futures):
            done[futures[future]] = future.result()
            progress.advance(task)

    table = Table(title="test accuracy in %; noise ratio found and true")
    for column in ("method", "last epoch", "best*", "kept", "prec.", "recall", "found", "true"):
        table.add_column(column, no_wrap=True)
    accuracy = {}
    for method in given.methods:
        runs = [records for spec, records in done.items() if spec.method == method]
        last = [records[-1] for records in runs]
        values = [100 * record.test_accuracy for record in last]
        accuracy[method] = statistics.mean(values)
        spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
        mean = {
            name: statistics.mean(getattr(record, name) for record in last)
            for name in ("best_test_accuracy", "kept_share", "precision", "recall", "noise_ratio", "true_noise_ratio")
        }
        # only Adaptive-k finds the ratio; the others were told it, or leave nothing out
        found = f"{mean['noise_ratio']:.3f}" if method.startswith("adaptive-k") else "-"
        table.add_row(
            method,
            f"{accuracy[method]:.1f}{spread}",
            f"{100 * mean['best_test_accuracy']:.1f}",
            *(f"{mean[name]:.2f}" for name in ("kept_share", "precision", "recall")),
            found,
            f"{mean['true_noise_ratio']:.3f}",
        )
    console.print(table)
    ranked = sorted(accuracy, key=lambda method: -accuracy[method])
    console.print(
        "* best epoch, chosen on the test set: how the paper reports. Mean over seeds ± standard deviation.\n"
        "kept, precision and recall are of the last epoch. MKL was told the true noise ratio, Adaptive-k was not.",
        highlight=False,
    )
    console.print(f"by last epoch: {' > '.join(ranked)}   ({time.perf_counter() - started:.0f} s)", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
