"""What a packed table costs in accuracy, and what it saves in bytes: label memory with tables of several kinds.

    python benchmarks/table_bytes.py
    python benchmarks/table_bytes.py --dataset cifar10 --device cuda
    python benchmarks/table_bytes.py --dataset made --kept 4 12

Each line is one kind of table: how many of a row's classes it keeps, in how many bits each. Runs of one seed are alike
in all else (noise, fresh weights, order), so the difference to the full table is taken seed by seed; after it stands
its standard error. The library packs in 16 bits; the 8 bits are for comparison, steps of 1/255 without logarithms.
The data set "made" has a thousand classes, 30 rows each: points around a centre, as images of 8 by 8.
Bytes are also given for the rows and classes of ImageNet, and for ten million rows with as many classes.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from measurements import read_lines
from torch import Tensor

from adaptivek.backend import compact, fitting
from adaptivek.experiments.data import Split
from adaptivek.experiments.prepare import prepare
from adaptivek.experiments.spec import RECIPES, RunSpec
from adaptivek.experiments.stack import Stack
from adaptivek.networks import stackable
from adaptivek.support.device import find_device

#: for the made data: many small steps, since a thousand classes are slow to be told apart
MADE = dataclasses.replace(RECIPES["digits"], epochs=16, batch_size=100, learning_rate=0.2, decay_every=8)
IMAGENET, MANY = 1_281_167, 10_000_000  # rows, with a thousand classes


@contextmanager
def tables(kept: int | None, bits: int) -> Iterator[None]:
    """All tables that are made in here keep so many classes (None: all)."""
    with mock.patch.object(fitting, "kept_classes", return_value=kept):
        if bits == 16:
            yield
            return
        with (
            mock.patch.object(compact, "_code", lambda values: (255 * values).round().long() + compact.ZERO),
            mock.patch.object(compact, "_value", lambda codes: (codes.float() - compact.ZERO) / 255),
        ):
            yield


def made(seed: int, classes: int = 1000, rows_each: int = 30) -> Split:
    draw = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, 64, generator=draw)

    def points(each: int) -> tuple[Tensor, Tensor]:
        y = torch.arange(classes).repeat(each)
        return (centres[y] + 0.7 * torch.randn(len(y), 64, generator=draw)).view(-1, 1, 8, 8), y

    return Split(*points(rows_each), *points(5), classes)


def accuracies(specs: list[RunSpec], device: torch.device, root: Path | None) -> Iterator[float]:
    """Test accuracy of the last epoch, in percent, of each run."""
    jobs = [prepare(spec, made(spec.seed) if spec.dataset == "made" else None, root) for spec in specs]
    for stacked in [jobs] if stackable(specs[0].recipe.network) else [[job] for job in jobs]:
        *_, last = Stack(stacked, device)
        yield from (100 * record.test_accuracy for record in last)


def bytes_of_row(kept: int | None, bits: int, classes: int) -> int:
    if kept is None:
        return 4 * classes
    packed = compact.pack(torch.zeros(classes), kept)
    return packed.numel() * packed.element_size() - (kept if bits == 8 else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="20newsgroups")
    parser.add_argument("--method", default="label-memory")
    parser.add_argument("--noise", nargs="+", type=float, default=[0.4])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kept", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--bits", nargs="+", type=int, choices=(8, 16), default=[16])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--root", type=Path, help="folder of the data sets")
    parser.add_argument("--out", type=Path, default=Path("results/scale/tables.jsonl"))
    given = parser.parse_args()
    device, recipe = find_device(given.device), MADE if given.dataset == "made" else RECIPES[given.dataset]
    specs = [
        RunSpec(given.dataset, given.method, noise_rate=rate, seed=seed, recipe=recipe)
        for rate, seed in itertools.product(given.noise, range(given.seeds))
    ]
    full: list[float] = []
    print(f"{given.dataset}, {given.method}, noise {given.noise}, {given.seeds} seeds, {device.type}", flush=True)
    for kept, bits in [(None, 32), *itertools.product(given.kept, given.bits)]:
        with tables(kept, 16 if kept is None else bits):
            found = list(accuracies(specs, device, given.root))
        full = full or found
        off = [a - b for a, b in zip(found, full, strict=True)]
        error = statistics.stdev(off) / len(off) ** 0.5 if len(off) > 1 else float("nan")
        size = bytes_of_row(kept, bits, 1000)
        row: dict[str, Any] = {
            "dataset": given.dataset, "method": given.method, "noise": given.noise, "seeds": given.seeds,
            "device": device.type, "kept": kept, "bits": bits, "accuracy": statistics.mean(found),
            "difference": statistics.mean(off), "error": error, "bytes": size,
        }  # fmt: skip
        print(
            f"{kept or 'all'} classes in {bits} bits: {row['accuracy']:.2f} %, {row['difference']:+.2f} ({error:.2f}) "
            f"to the full table; {size} bytes a row of 1,000 classes, ImageNet {size * IMAGENET / 1e6:,.0f} MB, "
            f"ten million rows {size * MANY / 1e9:.2f} GB",
            flush=True,
        )
        _store(given.out, row)


def _store(path: Path, row: dict[str, Any]) -> None:
    """In place of what is there of the same question."""
    same = ("dataset", "method", "noise", "device", "kept", "bits")
    others = [other for other in read_lines(path) if any(other[name] != row[name] for name in same)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in [*others, row]))


if __name__ == "__main__":
    main()
