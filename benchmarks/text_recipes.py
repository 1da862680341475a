"""The recipes of the texts, chosen on clean labels and on Vanilla alone.

    python benchmarks/text_recipes.py --data-root DATA      # some minutes on a GPU; kept in results/recipes
    python benchmarks/text_recipes.py --only-table          # the table of docs/bench.md
    python benchmarks/text_recipes.py --tfidf --data-root DATA

The test rows are not looked at: a tenth of the training rows is held out. The rule, set beforehand: a data set gets the
candidate that is most accurate on its held-out rows at the last epoch, with clean labels, mean of three seeds, of those
in which Vanilla memorises: with 40 % noise it ends a point or more below its best on the held-out noisy labels.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from pathlib import Path
from typing import Any, NamedTuple

from adaptivek.experiments.bench import bench
from adaptivek.experiments.data import load
from adaptivek.experiments.executors import Settings
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.experiments.store import Store

FOLDER = Path(__file__).parents[1] / "results" / "recipes"
DATASETS = ("sarcasm", "hotel", "20newsgroups", "imdb")
NOISE, SEEDS, FALLS = 0.4, 3, 0.01
BASE = Recipe("text-bag", 16, 6, 50, "adam", decay_every=6, hold_out=0.1)
SHORT: dict[str, Any] = {"epochs": 8, "warmup_epochs": 3, "decay_every": 3}
LONG: dict[str, Any] = {"epochs": 32, "warmup_epochs": 12, "decay_every": 12}
DROPOUT = {"network": "text-bag-dropout"}
#: what each changes in that
CANDIDATES: dict[str, dict[str, Any]] = {
    "2e-4": {"learning_rate": 2e-4},
    "5e-4": {"learning_rate": 5e-4},
    "2e-4, words left out": {"learning_rate": 2e-4, **DROPOUT},
    "5e-4, words left out": {"learning_rate": 5e-4, **DROPOUT},
    "1e-3, words left out": {"learning_rate": 1e-3, **DROPOUT},
    "5e-4, words left out, 32 epochs": {"learning_rate": 5e-4, **DROPOUT, **LONG},
    "5e-4, 8 epochs": {"learning_rate": 5e-4, **SHORT},
    "2e-4, 128 wide": {"learning_rate": 2e-4, "network": "text-bag-wide"},
}


class Raced(NamedTuple):
    """A candidate on a data set: shares of the held-out rows."""

    clean: float  #: right at the last epoch, with clean labels
    best: float  #: right at the best epoch, with noisy labels
    last: float  #: at the last

    @property
    def memorises(self) -> bool:
        return self.best - self.last >= FALLS


def recipe(candidate: str) -> Recipe:
    return dataclasses.replace(BASE, **CANDIDATES[candidate])


def specs(dataset: str, candidate: str, rate: float) -> list[RunSpec]:
    return [RunSpec(dataset, "vanilla", noise_rate=rate, seed=seed, recipe=recipe(candidate)) for seed in range(SEEDS)]


def raced(dataset: str, candidate: str, store: Store) -> Raced | None:
    """None until its runs are there."""
    curves = []
    for rate in (0.0, NOISE):
        results = [store.read(spec) for spec in specs(dataset, candidate, rate)]
        found = [[epoch.validation_accuracy for epoch in result.epochs] for result in results if result is not None]
        if len(found) < SEEDS:
            return None
        curves.append([statistics.mean(epoch) for epoch in zip(*found, strict=True)])
    clean, noisy = curves
    return Raced(clean[-1], max(noisy), noisy[-1])


def choose(dataset: str, store: Store) -> str | None:
    """The candidate by the rule; None until all runs are there."""
    found = {name: raced(dataset, name, store) for name in CANDIDATES}
    known = {name: each for name, each in found.items() if each is not None}
    fit = {name: each.clean for name, each in known.items() if each.memorises}
    return max(fit, key=fit.__getitem__) if fit and len(known) == len(CANDIDATES) else None


def chosen() -> dict[str, Recipe]:
    """The recipe of each data set that has one by the rule."""
    names = {dataset: choose(dataset, Store(FOLDER)) for dataset in DATASETS}
    return {
        dataset: dataclasses.replace(recipe(name), hold_out=0.0) for dataset, name in names.items() if name is not None
    }


def table() -> str:
    store = Store(FOLDER)
    lines = ["| | " + " | ".join(DATASETS) + " |", "|---" * (1 + len(DATASETS)) + "|"]
    winners = {dataset: choose(dataset, store) for dataset in DATASETS}
    for name in CANDIDATES:
        cells = []
        for dataset in DATASETS:
            each = raced(dataset, name, store)
            text = "-" if each is None else f"{100 * each.clean:.1f}; {100 * each.last:.1f} / {100 * each.best:.1f}"
            cells.append(f"**{text}**" if winners[dataset] == name else text)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def tfidf(dataset: str, root: Path | None) -> float:
    """Accuracy on the test rows of logistic regression on TF-IDF, of the same words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    data = load(dataset, root=root)
    words = TfidfVectorizer(analyzer=lambda row: row[row > 0], sublinear_tf=True)
    x, x_test = words.fit_transform(data.x.numpy()), words.transform(data.x_test.numpy())
    return float(LogisticRegression(C=4, max_iter=1000).fit(x, data.y).score(x_test, data.y_test))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only-table", action="store_true")
    parser.add_argument("--tfidf", action="store_true", help="the accuracy to reach, instead")
    given = parser.parse_args()
    if given.tfidf:
        for dataset in given.datasets:
            print(dataset, f"{100 * tfidf(dataset, given.data_root):.1f}", flush=True)
        return
    if not given.only_table:
        wanted = [
            spec
            for dataset in given.datasets
            for name in CANDIDATES
            for rate in (0.0, NOISE)
            for spec in specs(dataset, name, rate)
        ]
        for number, result in enumerate(bench(wanted, FOLDER, "stacked", Settings(given.device, given.data_root)), 1):
            print(f"\r{number} of {len(wanted)} runs", end="", flush=True)
            if result.failure:
                print(f"\n{result.spec}: {result.failure}")
        print()
    print(table())


if __name__ == "__main__":
    main()
