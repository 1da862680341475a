"""The figures of docs/beyond.md, from the results that are there.

    python benchmarks/beyond_figure.py --out docs/figures

Random settings (results/beyond/settings.jsonl, digits) sorted by how far a method is above plain training; and how much
of the way from Vanilla to the Oracle is closed on MNIST and Fashion-MNIST (results/methods).
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import rivals
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from measurements import read_lines

from adaptivek.experiments.spec import RunSpec
from adaptivek.experiments.store import Store

COLOURS = {"label-memory": "#1f6fb4", "adaptive-k": "#c8553d", "elr": "#7a9e4f", "vanilla-nudged": "#999999"}
NAMES = {
    "label-memory": "label memory",
    "adaptive-k": "Adaptive-k, as published",
    "elr": "ELR",
    "vanilla-nudged": "plain training, nudged",
}
KINDS, RATE = ("directed", "pair-flip", "symmetric", "instance"), 0.4


def settings(axes: Axes, path: Path) -> None:
    lines = [line for line in read_lines(path) if line["pool"] == "digits"]
    for method in ("adaptive-k", "vanilla-nudged", "label-memory"):
        over = sorted(100 * (line["accuracy"][method] - line["accuracy"]["vanilla"]) for line in lines)
        axes.plot(range(1, len(over) + 1), over, color=COLOURS[method], label=NAMES[method], lw=2)
    axes.axhline(0, color="#888888", lw=0.8)
    axes.set_xlabel(f"{len(lines)} random settings, each method's in order")
    axes.set_ylabel("points above plain training")
    axes.set_title("Random settings")


def gaps(axes: Axes, dataset: str) -> None:
    store, methods = Store("results/methods"), ("label-memory", "adaptive-k", "elr")

    def mean(method: str, kind: str) -> float:
        found = [
            store.read(RunSpec(dataset, method, kind, RATE, seed=seed, recipe=rivals.recipe(method)))
            for seed in range(3)
        ]
        return statistics.mean(result.epochs[-1].test_accuracy for result in found if result is not None)

    for place, method in enumerate(methods):
        closed = []
        for kind in KINDS:
            low, high = mean("vanilla", kind), mean("oracle", kind)
            closed.append(100 * (mean(method, kind) - low) / (high - low))
        x = [cell + 0.27 * (place - 1) for cell in range(len(KINDS))]
        axes.bar(x, closed, 0.25, color=COLOURS[method], label=NAMES[method])
    axes.axhline(100, color="#888888", lw=0.8, ls="--")
    axes.axhline(0, color="#888888", lw=0.8)
    axes.set_xticks(range(len(KINDS)), KINDS)
    axes.set_ylabel("% of the gap to the Oracle closed")
    axes.set_title(f"{dataset}, {RATE:.0%} noisy labels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    parser.add_argument("--settings", type=Path, default=Path("results/beyond/settings.jsonl"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(13, 4.3), layout="constrained", facecolor="white")
    first, *others = figure.subplots(1, 3)
    settings(first, given.settings)
    for axes, dataset in zip(others, rivals.DATASETS, strict=True):
        gaps(axes, dataset)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    shown = {
        name: line for axes in figure.axes[:2] for line, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(shown.values(), shown, loc="outside lower center", ncols=len(shown), frameon=False)
    rcParams["svg.hashsalt"] = "beyond"  # the same figure is the same file
    figure.savefig(given.out / "beyond.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
