"""How far label memory goes beyond the published rule: the Oracle's gap, clean data, the noise ratio.

    python benchmarks/beyond.py                                    # digits: a quarter of an hour on two cores
    python benchmarks/beyond.py --datasets mnist fashion-mnist     # on a GPU

Last epoch, mean over the seeds, one recipe for all methods. Runs are kept, and done once. benchmarks/robustness.py
is the other half: random settings.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict

from adaptivek.bench import bench
from adaptivek.methods import METHODS
from adaptivek.recipes import RECIPES, RunSpec

KINDS = ("directed", "symmetric", "pair-flip", "instance")
RATES = (0.2, 0.4)
COMPARED = ("label-memory", "label-memory:caution=0", "adaptive-k", "mkl", "elr", "co-teaching")
BOUNDS = ("vanilla", "oracle")
Cell = tuple[str, str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["digits"])
    parser.add_argument("--methods", nargs="+", default=list(COMPARED))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", default="results/beyond")
    given = parser.parse_args()

    cells = [(kind, rate) for kind in KINDS for rate in RATES] + [("directed", 0.0)]
    specs = [
        RunSpec(dataset, method, kind, rate, seed=seed, recipe=RECIPES[dataset])
        for dataset in given.datasets
        for kind, rate in cells
        for seed in range(given.seeds)
        for method in (*BOUNDS, *given.methods)
        if kind != "instance" or not RECIPES[dataset].network.startswith("text")
    ]
    accuracy: dict[tuple[Cell, str], list[float]] = defaultdict(list)
    errors: dict[tuple[Cell, str], list[float]] = defaultdict(list)
    for number, result in enumerate(bench(specs, given.out), 1):
        print(f"\r{number} of {len(specs)} runs", end="", flush=True)
        if result.failure:
            print(f"\n{result.spec.method}: {result.failure}")
            continue
        spec, last = result.spec, result.epochs[-1]
        place = (spec.dataset, spec.noise if spec.noise_rate else "none", spec.noise_rate), spec.method
        accuracy[place].append(100 * last.test_accuracy)
        errors[place].append(100 * (last.noise_ratio - last.true_noise_ratio))

    mean = {place: statistics.mean(values) for place, values in accuracy.items()}
    print("\n\n| data | noise | rate | Vanilla | Oracle | " + " | ".join(given.methods) + " |")
    print("|---" * (5 + len(given.methods)) + "|")
    for cell in dict.fromkeys(cell for cell, _ in mean):
        low, high = mean[cell, "vanilla"], mean[cell, "oracle"]
        found = [_entry(mean[cell, method], low, high) for method in given.methods]
        print(f"| {cell[0]} | {cell[1]} | {cell[2]:g} | {low:.1f} | {high:.1f} | " + " | ".join(found) + " |")
    print("\nIn brackets: share of the way from Vanilla to the Oracle; on clean labels, points from Vanilla.")
    print("\n| error of the noise ratio, points | " + " | ".join(given.methods) + " |")
    print("|---" * (1 + len(given.methods)) + "|")
    for cell in dict.fromkeys(cell for cell, _ in mean):
        found = [_error(method, errors[cell, method]) for method in given.methods]
        print(f"| {cell[0]}, {cell[1]} {cell[2]:g} | " + " | ".join(found) + " |")


def _error(text: str, errors: list[float]) -> str:
    method = METHODS[text.partition(":")[0]]
    if method.needs_ratio or not method.leaves_out:
        return "told" if method.needs_ratio else "-"
    return f"{statistics.mean(errors):+.1f}"


def _entry(value: float, low: float, high: float) -> str:
    if high - low < 1:  # nothing to close
        return f"{value:.1f} ({value - low:+.1f})"
    return f"{value:.1f} ({(value - low) / (high - low):.0%})"


if __name__ == "__main__":
    main()
