"""Every method on MNIST and Fashion-MNIST (5,000 rows), directed and symmetric noise: ranked, with what each costs.

    python benchmarks/rivals.py --out results/methods            # minutes on a GPU
    python benchmarks/rivals.py --out results/methods --only-table
    python benchmarks/rivals.py --methods label-agreement        # one method: half an hour on two cores

The notebook's network, batches of 20 instead of 10 with twice the learning rate and 50 epochs instead of 80, so that
all of it fits into minutes. Methods that lose whole runs at that rate (NaN, or one class for all) are trained at a
lower one, in brackets in the table: the first of 0.1, 0.05 and 0.02 that most of their runs survive. Methods that must
be told the noise ratio are told the true one, and in a second table one that is wrong by 20 points, seed 0. Last epoch,
mean of the seeds. Runs are kept, and done once.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from measurements import stored

from adaptivek.experiments.bench import bench
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.experiments.store import Result, Store
from adaptivek.methods import METHODS, needs, passes, told_noise_ratio

RECIPE = Recipe(epochs=50, warmup_epochs=20, batch_size=20, learning_rate=0.1, decay_every=20)
RATES = {
    **dict.fromkeys(("anl", "curriculum", "cyclical-curriculum", "dlt", "elr", "jocor"), 0.05),
    **dict.fromkeys(("bare", "median-tgd"), 0.02),
}
VARIANTS = ("elr:strength=1,beta=0.9",)  # what ELR's authors use for directed noise
LISTED = (*METHODS, *VARIANTS)
DATASETS = ("mnist", "fashion-mnist")
CELLS = (("directed", 0.0), ("directed", 0.2), ("directed", 0.4), ("symmetric", 0.2), ("symmetric", 0.4))
ERRORS = (-0.2, 0.2)
Cell = tuple[str, str, float]


def specs(seeds: int, methods: Sequence[str] = LISTED) -> list[RunSpec]:
    true = [
        RunSpec(dataset, method, noise, rate, seed=seed, recipe=recipe(method))
        for dataset in DATASETS
        for noise, rate in CELLS
        for method in methods
        for seed in range(seeds)
    ]
    wrong = [
        RunSpec(dataset, method, noise, 0.4, recipe=recipe(method), ratio_error=error)
        for dataset in DATASETS
        for noise in ("directed", "symmetric")
        for method in methods
        if told_noise_ratio(method) and method in METHODS
        for error in ERRORS
    ]
    return true + wrong


def recipe(text: str) -> Recipe:
    return dataclasses.replace(RECIPE, learning_rate=RATES.get(text.partition(":")[0], RECIPE.learning_rate))


def tables(results: Iterable[Result]) -> str:
    """Markdown: the ranking, then what a wrong ratio does."""
    found: dict[tuple[str, float, Cell], list[float]] = defaultdict(list)
    first: dict[tuple[str, float, Cell], float] = {}
    earlier = set[str]()
    for result in results:
        if result.failure:
            continue
        spec, place = result.spec, (result.spec.dataset, result.spec.noise, result.spec.noise_rate)
        key, accuracy = (spec.method, spec.ratio_error, place), 100 * result.epochs[-1].test_accuracy
        found[key].append(accuracy)
        if result.apart:
            earlier.add(spec.method)
        if spec.seed == 0:
            first[key] = accuracy
    places = [(dataset, noise, rate) for dataset in DATASETS for noise, rate in CELLS]
    mean = {key: statistics.mean(values) for key, values in found.items()}
    whole = [method for method in LISTED if all((method, 0.0, place) in mean for place in places)]
    noisy = [place for place in places if place[2]]
    average = {method: statistics.mean(mean[method, 0.0, place] for place in noisy) for method in whole}
    lines = [_line("method", "mean of the noisy", *map(_name, places), "needs", "passes"), "|---" * 14 + "|"]
    for method in sorted(whole, key=average.__getitem__, reverse=True):
        shown = (f"{mean[method, 0.0, place]:.1f}" for place in places)
        name = method.partition(":")[0]
        cost = " + ".join(map(str, passes(METHODS[name])))
        title = f"{method} ({RATES[name]:g})" if name in RATES else method + "†" * (method in earlier)
        lines.append(_line(title, f"{average[method]:.1f}", *shown, ", ".join(needs(METHODS[name])) or "-", cost))
    mis_set = [place for place in places if place[2] == 0.4]
    lines += ["", _line("told the ratio", *(f"{_name(place)}: -20, true, +20" for place in mis_set)), "|---" * 5 + "|"]
    for method in (method for method in METHODS if told_noise_ratio(method)):
        cells = [
            ", ".join(f"{first[method, error, place]:.1f}" if (method, error, place) in first else "-"
                      for error in (ERRORS[0], 0.0, ERRORS[1]))
            for place in mis_set
        ]  # fmt: skip
        lines.append(_line(method, *cells))
    return "\n".join(lines)


def _name(place: Cell) -> str:
    dataset, noise, rate = place
    return f"{dataset} {noise} {rate:g}" if rate else f"{dataset} clean"


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="results/methods")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=LISTED, choices=LISTED, metavar="METHOD", help="run these only")
    parser.add_argument("--only-table", action="store_true", help="run nothing: print what is there")
    given = parser.parse_args()
    if not given.only_table:
        wanted = specs(given.seeds, given.methods)
        for number, result in enumerate(bench(wanted, given.out), 1):
            print(f"\r{number} of {len(wanted)} runs", end="", flush=True)
            if result.failure:
                print(f"\n{result.spec.method}: {result.failure}")
        print("\n")
    store = Store(given.out)
    print(tables(result for spec in specs(given.seeds) if (result := stored(store, spec)) is not None))


if __name__ == "__main__":
    main()
