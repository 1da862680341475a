"""What the paper does not show: how Adaptive-k depends on its settings, one at a time, with 40 % noise.

    python benchmarks/sensitivity.py --data-root DATA                  # minutes on a GPU; results/sensitivity
    python benchmarks/sensitivity.py --only-table
    python benchmarks/sensitivity.py --figure docs/figures             # sensitivity-SWEEP.svg, one for each

Start of selection, beta1, beta2, batch size, learning rate, optimiser, kind of noise and class imbalance, on MNIST,
Fashion-MNIST and sarcasm. Everything else is as in the recipe of the data set. Runs that share a recipe are trained as
one program. A run has collapsed if it ends below half of what Vanilla reaches there.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import json
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from measurements import read_lines

from adaptivek.experiments.data import Split, load
from adaptivek.experiments.groups import shape
from adaptivek.experiments.prepare import Job, prepare
from adaptivek.experiments.spec import RECIPES, Recipe, RunSpec
from adaptivek.experiments.stack import Stack
from adaptivek.methods import DEFAULT

OUT = Path(__file__).parents[1] / "results" / "sensitivity" / "runs.jsonl"
DATASETS, NOISE, SEEDS = ("mnist", "fashion-mnist", "sarcasm"), 0.4, 2
METHODS = ("vanilla", "adaptive-k", "label-posterior", DEFAULT)
COLOURS = {"vanilla": "#888888", "adaptive-k": "#c8553d", "label-posterior": "#3a9d5d", DEFAULT: "#1f6fb4"}
#: class imbalance: rows of the largest class, few enough for every draw to have them
LARGEST = {"mnist": 400, "fashion-mnist": 400, "sarcasm": 10_000}


SWEEPS = {
    "start": "plain epochs before selection",
    "beta1": "β1",
    "beta2": "β2",
    "batch": "batch size",
    "rate": "learning rate",
    "optimiser": "optimiser",
    "noise": "kind of noise",
    "imbalance": "rows of the smallest class / the largest",
}


@dataclass(frozen=True)
class Trial:
    """A point of a sweep, for one method and seed."""

    sweep: str
    value: str
    spec: RunSpec
    imbalance: float = 0.0  #: rows of the smallest class for each of the largest; 0 is the data as it is

    @property
    def identity(self) -> str:
        """Points that are the same run have the same."""
        return self.spec.identity() + (f"-{self.imbalance:g}" if self.imbalance else "")


#: in parts of the recipe's epochs, so that 3/8 is the notebook's 30 of 80
STARTS = (0, 1 / 16, 1 / 8, 3 / 16, 1 / 4, 5 / 16, 3 / 8, 1 / 2, 5 / 8, 3 / 4)
BETA1 = ("0.1", "0.5", "0.8", "0.9", "0.95", "0.99")
BETA2 = ("0.9", "0.99", "0.995", "0.999", "0.9999")
BATCHES = (1, 2, 4, 8)  # times the recipe's
RATES = (0.2, 0.4, 1, 2, 4)  # times the recipe's
NOISES = ("directed", "pair-flip", "symmetric")
IMBALANCES = (1.0, 0.5, 0.2, 0.1)


def optimisers(recipe: Recipe) -> dict[str, Recipe]:
    """The three of the journal version, each at a rate that suits it."""
    if recipe.optimizer == "adam":
        sgd = dataclasses.replace(recipe, optimizer="sgd", learning_rate=recipe.learning_rate * 1000)
        return {
            "SGD": sgd,
            "momentum": dataclasses.replace(sgd, momentum=0.9, learning_rate=sgd.learning_rate / 10),
            "Adam": recipe,
        }
    return {
        "SGD": recipe,
        "momentum": dataclasses.replace(recipe, momentum=0.9, learning_rate=recipe.learning_rate / 10),
        "Adam": dataclasses.replace(recipe, optimizer="adam", learning_rate=recipe.learning_rate / 100),
    }


def trials(dataset: str, seed: int) -> Iterator[Trial]:
    recipe = RECIPES[dataset]

    def run(method: str, recipe: Recipe = recipe, noise: str = "directed") -> RunSpec:
        return RunSpec(dataset, method, noise, NOISE, seed=seed, recipe=recipe)

    def changed(**changes: object) -> Recipe:
        return dataclasses.replace(recipe, **changes)  # type: ignore[arg-type]

    for share in STARTS:
        epochs = round(share * recipe.epochs)
        yield Trial("start", str(epochs), run("adaptive-k", changed(warmup_epochs=epochs)))
    for name, values in (("beta1", BETA1), ("beta2", BETA2)):
        for value in values:
            yield Trial(name, value, run(f"adaptive-k:{name}={value}"))
    for method in METHODS:
        for times in BATCHES:
            yield Trial(
                "batch", str(times * recipe.batch_size), run(method, changed(batch_size=times * recipe.batch_size))
            )
        for part in RATES:
            rate = part * recipe.learning_rate
            yield Trial("rate", f"{rate:.3g}", run(method, changed(learning_rate=rate)))
        for name, other in optimisers(recipe).items():
            yield Trial("optimiser", name, run(method, other))
        for noise in NOISES:
            yield Trial("noise", noise, run(method, noise=noise))
        for imbalance in IMBALANCES:
            yield Trial("imbalance", f"{imbalance:g}", run(method), imbalance)


def imbalanced(data: Split, largest: int, smallest: float) -> Split:
    """The first rows of each class: ``largest`` of the first, fewer of each that follows, by equal factors."""
    numbers = [round(largest * smallest ** (label / (data.classes - 1))) for label in range(data.classes)]
    rows = torch.cat([(data.y == label).nonzero().flatten()[:number] for label, number in enumerate(numbers)])
    if len(rows) < sum(numbers):
        raise ValueError(f"imbalanced: largest must be at most the rows of a class, got {largest}")
    return data._replace(x=data.x[rows], y=data.y[rows])


def data_of(trial: Trial, root: Path | None) -> Split:
    data = _load(trial.spec.dataset, trial.spec.seed, root)
    return imbalanced(data, LARGEST[trial.spec.dataset], trial.imbalance) if trial.imbalance else data


@functools.lru_cache(maxsize=8)
def _load(dataset: str, seed: int, root: Path | None) -> Split:
    return load(dataset, seed=seed, root=root)


def carry_out(wanted: Iterable[Trial], root: Path | None, device: str, out: Path) -> None:
    """Do the runs that are not there, those of one program at a time, and add a line for each."""
    there = {line["run"] for line in read_lines(out)}
    waiting = {trial.identity: trial for trial in wanted if trial.identity not in there}
    programs: dict[object, list[tuple[str, Job]]] = defaultdict(list)
    splits: dict[tuple[str, int, float], Split] = {}  # runs on the same rows must share them
    for identity, trial in waiting.items():
        source = trial.spec.dataset, trial.spec.seed, trial.imbalance
        if source not in splits:
            splits[source] = data_of(trial, root)
        data = splits[source]
        key = trial.spec.recipe.without_warmup(), shape(data)
        programs[key].append((identity, prepare(trial.spec, data)))
    out.parent.mkdir(parents=True, exist_ok=True)
    for number, members in enumerate(programs.values(), 1):
        started = time.perf_counter()
        *_, records = Stack([job for _, job in members], device)
        with out.open("a") as file:
            for (identity, job), record in zip(members, records, strict=True):
                line = {"run": identity, "dataset": job.spec.dataset, "method": job.spec.method, "seed": job.spec.seed}
                ends = {"accuracy": record.test_accuracy, "best": record.best_test_accuracy, "kept": record.kept_share}
                file.write(json.dumps(line | ends) + "\n")
        seconds = time.perf_counter() - started
        print(f"program {number} of {len(programs)}: {len(members)} runs, {seconds:.0f} s", flush=True)


Points = dict[str, dict[str, list[float]]]  # accuracies by method and value, in the order of the sweep


def points(sweep: str, dataset: str, out: Path) -> Points:
    """Accuracies of the last epoch, of all seeds that are there."""
    lines = {line["run"]: line["accuracy"] for line in read_lines(out)}
    found: Points = defaultdict(lambda: defaultdict(list))
    for seed in range(SEEDS):
        for trial in trials(dataset, seed):
            if trial.sweep == sweep and trial.identity in lines:
                method = trial.spec.method.partition(":")[0]
                found[method][trial.value].append(lines[trial.identity])
    return found


def plain(dataset: str, out: Path) -> float:
    """What Vanilla reaches with everything as in the recipe; NaN if it was not run."""
    known = points("noise", dataset, out).get("vanilla", {}).get("directed", [])
    return statistics.mean(known) if known else math.nan


def table(out: Path) -> str:
    """A line for each sweep, data set and method; in brackets how many seeds have collapsed."""
    lines = ["| sweep | data set | method | value: accuracy |", "|---|---|---|---|"]
    for sweep, dataset in itertools.product(SWEEPS, DATASETS):
        found, floor = points(sweep, dataset, out), plain(dataset, out) / 2
        for method, values in found.items():
            cells = []
            for value, seeds in values.items():
                lost = sum(accuracy < floor for accuracy in seeds)
                cells.append(f"{value}: {100 * statistics.mean(seeds):.1f}" + (f" ({lost} collapsed)" if lost else ""))
            lines.append(f"| {SWEEPS[sweep]} | {dataset} | {method} | {', '.join(cells)} |")
    return "\n".join(lines)


def draw(sweep: str, out: Path, folder: Path) -> None:
    """A panel for each data set that was run: accuracy against the value, every seed a dot."""
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    rcParams["svg.hashsalt"] = sweep
    there = [dataset for dataset in DATASETS if points(sweep, dataset, out)]
    figure = Figure(figsize=(1 + 3.4 * max(1, len(there)), 3.3), layout="constrained", facecolor="white")
    for axes, dataset in zip(figure.subplots(1, max(1, len(there)), squeeze=False)[0], there, strict=False):
        found = points(sweep, dataset, out)
        for method, values in found.items():
            means = [100 * statistics.mean(seeds) for seeds in values.values()]
            axes.plot(range(len(values)), means, color=COLOURS[method], label=method, lw=2)
            dots = [(place, 100 * each) for place, seeds in enumerate(values.values()) for each in seeds]
            axes.scatter(*zip(*dots, strict=True), color=COLOURS[method], s=12)
            axes.set_xticks(range(len(values)), list(values))
        level = 100 * plain(dataset, out)
        if "vanilla" not in found and math.isfinite(level):
            axes.axhline(level, color=COLOURS["vanilla"], lw=1.5, ls="--", label="vanilla")
        axes.set(title=dataset, xlabel=SWEEPS[sweep], ylim=(0, 101))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", lw=0.5, color="#dddddd")
    figure.axes[0].set_ylabel("test accuracy, last epoch, %")
    keys: dict[str, Any] = {}
    for axes in figure.axes:  # not every method has been run on every data set
        keys |= {str(label): line for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.axes[0].legend(keys.values(), keys.keys(), frameon=False, fontsize=9)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"sensitivity-{sweep}.svg", metadata={"Date": None})


def section(out: Path, docs: Path) -> str:
    """The table, and the figures that are there, for a page in ``docs``."""
    if not read_lines(out):
        return "Not run yet."
    figures = [
        f"![Accuracy against: {title}](figures/sensitivity-{sweep}.svg)"
        for sweep, title in SWEEPS.items()
        if (docs / "figures" / f"sensitivity-{sweep}.svg").exists()
    ]
    return "\n\n".join([*figures, table(out)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--sweeps", nargs="+", choices=SWEEPS, default=list(SWEEPS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--only-table", action="store_true")
    parser.add_argument("--figure", type=Path, help="draw into this folder, and run nothing")
    given = parser.parse_args()
    if given.figure:
        for sweep in given.sweeps:
            draw(sweep, given.out, given.figure)
        return
    if not given.only_table:
        wanted = [
            trial
            for dataset, seed in itertools.product(given.datasets, range(given.seeds))
            for trial in trials(dataset, seed)
            if trial.sweep in given.sweeps
        ]
        carry_out(wanted, given.data_root, given.device, given.out)
    print(table(given.out))


if __name__ == "__main__":
    main()
