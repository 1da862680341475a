"""How far label memory goes beyond the published rule: no harm, the Oracle's gap, the noise ratio, beating it.

    python benchmarks/beyond.py                                    # digits: a quarter of an hour on two cores
    python benchmarks/beyond.py --datasets mnist fashion-mnist     # on a GPU, with the recipe of rivals.py
    python benchmarks/beyond.py --datasets mnist fashion-mnist cifar10 --only-table

Last epoch, mean over the seeds. Runs are kept, and done once; those of rivals.py and of `adaptivek bench` count. Random
settings come from benchmarks/robustness.py, labels by people from human_labels.py.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections import defaultdict
from pathlib import Path

import rivals
import robustness
from measurements import read_lines

from adaptivek.experiments.bench import bench
from adaptivek.experiments.spec import RECIPES, TEXT_RECIPE, Recipe, RunSpec
from adaptivek.experiments.store import Store
from adaptivek.methods import METHODS

KINDS = ("directed", "symmetric", "pair-flip", "instance")
RATES = (0.2, 0.4)
COMPARED = ("label-memory", "label-memory:beta=0.5", "adaptive-k", "mkl", "elr", "co-teaching")
BOUNDS = ("vanilla", "oracle")
FOLDERS = ("results/beyond", "results/methods", "results/paper")  # where runs may be; new ones go to the first
SETTINGS = Path("results/beyond/settings.jsonl")
Cell = tuple[str, str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["digits"])
    parser.add_argument("--methods", nargs="+", default=list(COMPARED))
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only-table", action="store_true", help="run nothing: print what is there")
    given = parser.parse_args()

    cells = [(kind, rate) for kind in given.kinds for rate in RATES] + [("directed", 0.0)]
    specs = [
        RunSpec(dataset, method, kind, rate, seed=seed, recipe=_recipe(dataset, method))
        for dataset in given.datasets
        for kind, rate in cells
        for seed in range(given.seeds)
        for method in (*BOUNDS, *given.methods)
        if kind != "instance" or not RECIPES[dataset].network.startswith("text")
    ]
    accuracy: dict[tuple[Cell, str], list[float]] = defaultdict(list)
    errors: dict[tuple[Cell, str], list[float]] = defaultdict(list)
    kept = [(spec, next(filter(None, (Store(folder).read(spec) for folder in FOLDERS)), None)) for spec in specs]
    results = [result for _, result in kept if result is not None]
    if not given.only_table:
        results += bench([spec for spec, result in kept if result is None], FOLDERS[0])
    for result in results:
        if result.failure:
            print(f"{result.spec.method}: {result.failure}")
            continue
        spec, last = result.spec, result.epochs[-1]
        place = (spec.dataset, spec.noise if spec.noise_rate else "none", spec.noise_rate), spec.method
        accuracy[place].append(100 * last.test_accuracy)
        errors[place].append(100 * (last.noise_ratio - last.true_noise_ratio))

    mean = {place: statistics.mean(values) for place, values in accuracy.items()}
    settings = read_lines(SETTINGS)
    for pool in dict.fromkeys(line["pool"] for line in settings):
        print(f"\n1. No harm: {pool}, ", end="")
        robustness.tell([line for line in settings if line["pool"] == pool])
    print("\n2. The Oracle's gap\n\n| data | noise | rate | Vanilla | Oracle | " + " | ".join(given.methods) + " |")
    print("|---" * (5 + len(given.methods)) + "|")
    for cell in dict.fromkeys(cell for cell, _ in mean):
        low = mean[cell, "vanilla"]
        high = mean.get((cell, "oracle"), low if not cell[2] else math.nan)  # without noise they are one
        found = [_entry(mean.get((cell, method)), low, high) for method in given.methods]
        print(f"| {cell[0]} | {cell[1]} | {cell[2]:g} | {low:.1f} | {high:.1f} | " + " | ".join(found) + " |")
    print("\nIn brackets: share of the way from Vanilla to the Oracle; on clean labels, points from Vanilla.")
    print("\n3. The noise ratio\n\n| error of the noise ratio, points | " + " | ".join(given.methods) + " |")
    print("|---" * (1 + len(given.methods)) + "|")
    for cell in dict.fromkeys(cell for cell, _ in mean):
        found = [_error(method, errors[cell, method]) for method in given.methods]
        print(f"| {cell[0]}, {cell[1]} {cell[2]:g} | " + " | ".join(found) + " |")
    print("\n4. Above the Oracle")
    for method in given.methods:
        print(f"- {method}: {above(mean, method)}")


def above(mean: dict[tuple[Cell, str], float], method: str) -> str:
    """The cells with noise of 0.3 and more in which a method is above the Oracle."""
    cells = [cell for cell, of in mean if of == method and cell[2] >= 0.3 and mean[cell, method] > mean[cell, "oracle"]]
    return ", ".join(f"{data} {noise} {rate:g}" for data, noise, rate in cells) or "nowhere"


def _error(text: str, errors: list[float]) -> str:
    method = METHODS[text.partition(":")[0]]
    if method.clean_share or not method.leaves_out or not errors:
        return "told" if method.clean_share else "-"
    return f"{statistics.mean(errors):+.1f}"


def _recipe(dataset: str, method: str) -> Recipe:
    if dataset in rivals.DATASETS:
        return rivals.recipe(method)
    return TEXT_RECIPE if RECIPES[dataset].network.startswith("text") else RECIPES[dataset]


def _entry(value: float | None, low: float, high: float) -> str:
    if value is None:
        return "-"
    if high - low < 1:  # nothing to close
        return f"{value:.1f} ({value - low:+.1f})"
    return f"{value:.1f} ({(value - low) / (high - low):.0%})"


if __name__ == "__main__":
    main()
