"""The figure of the README: accuracy against noise, injected and real, from the results that are stored.

    python benchmarks/readme_figure.py

Draws docs/figures/readme.svg and, for phones, readme-narrow.svg, and prints the numbers in them. The default method is
whatever `adaptivek.Selection()` uses. Injected noise is directed; runs are those of beyond.py and paper.py, and for the
fine-tuned network those of real.py. ELR has the settings that did best there, of those that were run. Real noise is
that of real.py (labels by people, a crowd or rules) and human_labels.py; what has not been run with all of these
methods there is left out.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping
from pathlib import Path

import rivals
from beyond import FOLDERS
from docs_drawing import PENS, STYLE, save
from human_labels import shown
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from measurements import read_lines, stored
from real_compare import current
from real_settings import OWN

import adaptivek
from adaptivek.experiments.spec import RECIPES, RunSpec
from adaptivek.experiments.store import Result, Store

DEFAULT = adaptivek.Selection().method.name
#: name, colour, marker and line of each
SHOWN = {
    "oracle": ("Oracle: clean labels only, the upper bound", "green", "D", "--"),
    DEFAULT: ("adaptivek, the default", "blue", "o", "-"),
    "elr": ("ELR, the strongest rival", "red", "^", "-"),
    "adaptive-k": ("Adaptive-k, as published", "violet", "s", "-"),
    "vanilla": ("plain training", "grey", "X", "-"),
}
DATA = {"fashion-mnist": "Fashion-MNIST, 5,000 rows", "imdb": "IMDB reviews"}
FINE_TUNED = "sarcasm", "Sarcasm, fine-tuned"
#: as it did best there; elsewhere as it is
ELR = {"fashion-mnist": "elr:strength=1,beta=0.9", "sarcasm": "elr:strength=7"}
RATES = (0.0, 0.1, 0.2, 0.3, 0.4)  #: of which not all have been run everywhere
TICKS = (0, 20, 40)
REAL = {
    "labelme_amt": "scenes, by a crowd", "product_pairs_amt": "product pairs, by a crowd",
    "weak_agnews": "news, by rules", "weak_trec": "questions, by rules", "weak_sms": "spam, by rules",
    "manifesto_crowd": "politics, by a crowd", "chnsenticorp_golden": "Chinese reviews, as published",
    "cifar10n_worst": "CIFAR-10 features, by one person", "cifar10n_aggregate": "CIFAR-10 features, by a majority",
}  # fmt: skip
Found = dict[str, float]  # accuracy of each method


def injected(dataset: str) -> dict[float, Found]:
    """By the noise rate; the mean over the seeds that there are."""
    found: dict[float, Found] = {}
    for rate in RATES:
        for method in SHOWN:
            text = ELR.get(dataset, method) if method == "elr" else method
            recipe = rivals.recipe(text) if dataset in rivals.DATASETS else RECIPES[dataset]
            specs = [RunSpec(dataset, text, "directed", rate, seed=seed, recipe=recipe) for seed in range(3)]
            runs = [_stored(spec) for spec in specs]
            values = [100 * run.epochs[-1].test_accuracy for run in runs if run is not None and not run.failure]
            if values:
                found.setdefault(rate, {})[method] = statistics.mean(values)
    if 0.0 in found and "vanilla" in found[0.0]:
        found[0.0].setdefault("oracle", found[0.0]["vanilla"])  # without noise they are one
    return found


def _stored(spec: RunSpec) -> Result | None:
    """A run from one of the folders, be it by an earlier revision that stands in."""
    found = (stored(Store(folder), spec) for folder in FOLDERS)
    return next((run for run in found if run is not None), None)


def fine_tuned(folder: Path) -> dict[float, Found]:
    """By the noise rate, a pre-trained encoder after three epochs; Adaptive-k has not been run there."""
    values: dict[float, dict[str, list[float]]] = {rate: {} for rate in RATES}
    texts = {ELR[FINE_TUNED[0]] if method == "elr" else method: method for method in SHOWN}
    for job, line in current(read_lines(folder / "encoder.jsonl")).items():
        setting = job.setting
        method = texts.get(job.method)
        if (setting.data, setting.epochs) == (FINE_TUNED[0], 3) and method:
            values[setting.rate].setdefault(method, []).append(line[setting.metric][-1])
    return {
        rate: {method: statistics.mean(numbers) for method, numbers in found.items()}
        for rate, found in values.items()
        if found
    }


def real(folder: Path, people: Path) -> dict[str, Found]:
    """By the name of the data and its noise ratio, the noisiest last."""
    values: dict[tuple[float, str], dict[str, list[float]]] = {}
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in read_lines(path)]
    for job, line in current(lines).items():
        setting = job.setting
        if setting.noise == OWN and job.method in SHOWN and setting.network == "perceptron":
            key = line["true_noise_ratio"], REAL.get(setting.data, setting.data)
            values.setdefault(key, {}).setdefault(job.method, []).append(line[setting.metric][-1])
    for line in shown(read_lines(people)):
        if line["column"] == "worse_label" and line["method"] in SHOWN:
            key = line["true"], "CIFAR-10 from scratch, by one person"
            values.setdefault(key, {}).setdefault(line["method"], []).append(100 * line["accuracy"])
    return {
        f"{name} ({ratio:.0%})": {method: statistics.mean(numbers) for method, numbers in found.items()}
        for (ratio, name), found in sorted(values.items(), reverse=True)
        if found.keys() >= SHOWN.keys()
    }


def lines(axes: Axes, found: Mapping[float, Found], title: str) -> None:
    for method, (_, pen, marker, line) in SHOWN.items():
        rates = [rate for rate, row in found.items() if method in row]
        accuracy = [found[rate][method] for rate in rates]
        places = [100 * rate for rate in rates]
        axes.plot(places, accuracy, line, marker=marker, ms=6, color=PENS[pen], zorder=2 + (method == DEFAULT))
    axes.set(title=title, xticks=TICKS, xlabel="noise injected, %")


def dumbbells(axes: Axes, found: Mapping[str, Found], narrow: bool) -> None:
    for place, row in enumerate(found.values()):
        axes.plot([min(row.values()), max(row.values())], [place, place], color=PENS["rule"], lw=2, zorder=1)
    for method, (_, pen, marker, _) in SHOWN.items():
        accuracy = [row[method] for row in found.values()]
        axes.scatter(accuracy, range(len(found)), s=44, marker=marker, color=PENS[pen], zorder=2 + (method == DEFAULT))
    if narrow:  # there is no room beside the lines
        axes.set_yticks([])
        left = min(min(row.values()) for row in found.values())
        for place, name in enumerate(found):
            axes.text(left, place + 0.25, name, fontsize=10, color=PENS["muted"])
    else:
        axes.set_yticks(range(len(found)), list(found))
    axes.set_ylim(-0.6, len(found) - 0.3)
    axes.grid(visible=False, axis="y")
    axes.set(title="Real noise (share of noisy labels)", xlabel="test accuracy, %")


def draw(by_rate: Mapping[str, dict[float, Found]], by_data: Mapping[str, Found], narrow: bool) -> Figure:
    """Wide for a page, or narrow for a phone."""
    with rc_context(STYLE):
        figure = Figure(figsize=(4.5, 9.6) if narrow else (8.6, 7.2), layout="constrained")
        top, bottom = figure.subfigures(2, 1, height_ratios=[1, 1.1 if narrow else 1.25])
        panels = top.subplots(2, 2).flatten() if narrow else top.subplots(1, len(by_rate))
        for axes, (name, found) in zip(panels, by_rate.items(), strict=False):
            lines(axes, found, name.partition(",")[0] if narrow else name)
        panels[0].set_ylabel("test accuracy, %")
        dumbbells(bottom.subplots(), by_data, narrow)
        keys = [
            panels[0].plot([], [], line, marker=marker, ms=6, color=PENS[pen], label=label)[0]
            for label, pen, marker, line in SHOWN.values()
        ]
        if narrow:
            panels[-1].set_axis_off()
            panels[-1].legend(
                handles=keys,
                labels=[str(key.get_label()).replace(": ", ":\n").replace(", ", ",\n") for key in keys],
                loc="center",
                fontsize=10,
            )
        else:
            figure.legend(handles=keys, loc="outside upper center", ncols=2)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    parser.add_argument("--real", type=Path, default=Path("results/real"))
    parser.add_argument("--people", type=Path, default=Path("results/beyond/human_labels.jsonl"))
    given = parser.parse_args()
    by_rate = {title: injected(name) for name, title in DATA.items()} | {FINE_TUNED[1]: fine_tuned(given.real)}
    by_data = real(given.real, given.people)
    for name, found in by_rate.items():
        for rate, row in found.items():
            print(f"{name}, {rate:.0%}: " + ", ".join(f"{m} {row[m]:.1f}" for m in SHOWN if m in row))
    for name, row in by_data.items():
        print(f"{name}: " + ", ".join(f"{method} {accuracy:.1f}" for method, accuracy in row.items()))
    for name, narrow in (("readme.svg", False), ("readme-narrow.svg", True)):
        save(draw(by_rate, by_data, narrow), given.out / name)
        print(given.out / name)


if __name__ == "__main__":
    main()
