"""The recipes of the texts, chosen on clean labels and on Vanilla alone.

    python benchmarks/text_recipes.py --data-root DATA      # some minutes on a GPU; kept in results/recipes
    python benchmarks/text_recipes.py --only-table          # the table of docs/bench.md
    python benchmarks/text_recipes.py --tfidf --data-root DATA

The test rows are not looked at: a tenth of the training rows is held out. The rule, set beforehand: a data set gets the
candidate that is most accurate on its held-out rows at the last epoch, with clean labels, of those in which Vanilla
memorises: with 40 % noise it ends a point or more below its best on the held-out noisy labels. Seed 0.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

from adaptivek.experiments.bench import bench
from adaptivek.experiments.data import load
from adaptivek.experiments.executors import Settings
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.experiments.store import Store

FOLDER = Path(__file__).parents[1] / "results" / "recipes"
DATASETS = ("sarcasm", "hotel", "20newsgroups", "imdb")
NOISE, FALLS = 0.4, 0.01
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


class Noisy(NamedTuple):
    """Accuracy of Vanilla on held-out noisy labels."""

    best: float
    last: float

    @property
    def memorises(self) -> bool:
        return self.best - self.last >= FALLS


def recipe(candidate: str) -> Recipe:
    return dataclasses.replace(BASE, **CANDIDATES[candidate])


def spec(dataset: str, candidate: str, rate: float) -> RunSpec:
    return RunSpec(dataset, "vanilla", noise_rate=rate, recipe=recipe(candidate))


def held_out(dataset: str, candidate: str, rate: float, store: Store) -> list[float] | None:
    """The accuracy on held-out rows, epoch by epoch; None until the run is there."""
    result = store.read(spec(dataset, candidate, rate))
    return None if result is None or result.failure else [epoch.validation_accuracy for epoch in result.epochs]


def on_clean(dataset: str, store: Store) -> dict[str, float]:
    """The accuracy of each candidate at the last epoch, the best first; of those that were run."""
    found = {name: held_out(dataset, name, 0.0, store) for name in CANDIDATES}
    known = {name: curve[-1] for name, curve in found.items() if curve is not None}
    return dict(sorted(known.items(), key=lambda each: -each[1]))


def on_noisy(dataset: str, candidate: str, store: Store) -> Noisy | None:
    curve = held_out(dataset, candidate, NOISE, store)
    return None if curve is None else Noisy(max(curve), curve[-1])


def wanted(dataset: str, store: Store) -> list[RunSpec]:
    """The runs to do next: all on clean labels, then with noise those of the best, until one of them memorises."""
    clean = on_clean(dataset, store)
    if len(clean) < len(CANDIDATES):
        return [spec(dataset, name, 0.0) for name in CANDIDATES if name not in clean]
    for name in clean:
        noisy = on_noisy(dataset, name, store)
        if noisy is None:
            return [spec(dataset, name, NOISE)]
        if noisy.memorises:
            break
    return []


def choose(dataset: str, store: Store) -> str | None:
    """The candidate by the rule; None until the runs are there, or if none memorises."""
    if wanted(dataset, store):
        return None
    for name in on_clean(dataset, store):
        noisy = on_noisy(dataset, name, store)
        if noisy is not None and noisy.memorises:
            return name
    return None


def chosen() -> dict[str, Recipe]:
    """The recipe of each data set that has one by the rule."""
    names = {dataset: choose(dataset, Store(FOLDER)) for dataset in DATASETS}
    return {
        dataset: dataclasses.replace(recipe(name), hold_out=0.0) for dataset, name in names.items() if name is not None
    }


def table() -> str:
    store = Store(FOLDER)
    if not store.runs.exists():
        return "Not run yet."
    lines = ["| | " + " | ".join(DATASETS) + " |", "|---" * (1 + len(DATASETS)) + "|"]
    winners = {dataset: choose(dataset, store) for dataset in DATASETS}
    for name in CANDIDATES:
        cells = []
        for dataset in DATASETS:
            clean, noisy = on_clean(dataset, store).get(name), on_noisy(dataset, name, store)
            text = "-" if clean is None else f"{100 * clean:.1f}"
            text += "" if noisy is None else f"; {100 * noisy.last:.1f} / {100 * noisy.best:.1f}"
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
        settings = Settings(given.device, given.data_root)
        for dataset in given.datasets:
            while runs := wanted(dataset, Store(FOLDER)):
                for result in bench(runs, FOLDER, settings=settings, retry_failed=False):
                    done = result.failure or f"{100 * result.epochs[-1].validation_accuracy:.1f}"
                    print(f"{dataset}, {result.spec.noise_rate:g}, {result.spec.recipe.network}: {done}", flush=True)
                    if result.failure:
                        raise SystemExit(1)
    print(table())


if __name__ == "__main__":
    main()
