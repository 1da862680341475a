"""CIFAR-10 with the labels that people gave it (CIFAR-10N): methods trained on them, tested on the true ones.

    python benchmarks/human_labels.py --labels cifar10n/train.parquet

The recipe is that of cifar10. Lines go to a file, a method and seed each; those that are there are not run again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import torch
from measurements import EARLIER, read_lines

from adaptivek.experiments.data import load
from adaptivek.experiments.session import prepare
from adaptivek.experiments.spec import RECIPES, RunSpec
from adaptivek.experiments.stack import Stack
from adaptivek.methods import build

METHODS = ("vanilla", "oracle", "label-memory", "adaptive-k", "elr", "label-posterior", "label-agreement")


def is_of_today(line: dict[str, Any]) -> bool:
    """Whether the method is as it was run. Lines from before revisions were written are of methods as they are now."""
    now = build(line["method"]).revision
    return bool(line.get("revision", now) == now)


def shown(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results of the methods as they are now; of one that has none, those of the revision that stands in."""
    now = {(line["column"], line["method"]) for line in lines if is_of_today(line)}
    return [
        line
        for line in lines
        if is_of_today(line)
        or ((line["column"], line["method"]) not in now and line["revision"] == EARLIER.get(line["method"]))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=Path, required=True, help="Parquet file or folder with the human labels")
    parser.add_argument("--column", default="worse_label", choices=["worse_label", "aggre_label"])
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("results/beyond/human_labels.jsonl"))
    given = parser.parse_args()
    lines = read_lines(given.out)
    done = {(line["column"], line["method"], line["seed"]) for line in lines if is_of_today(line)}
    wanted = [(given.column, method, seed) for seed in range(given.seeds) for method in given.methods]
    if set(wanted) - done:
        labels = torch.tensor(parquet.read_table(given.labels).column(given.column).to_pylist())
        data = load("cifar10")
        given.out.parent.mkdir(parents=True, exist_ok=True)
    for column, method, seed in [one for one in wanted if one not in done]:
        job = prepare(RunSpec("cifar10", method, seed=seed, recipe=RECIPES["cifar10"]), data)
        *_, (last,) = Stack([job._replace(labels=labels, clean=labels == data.y)], given.device)
        line = {"column": column, "method": method, "seed": seed, "accuracy": last.test_accuracy,
                "best": last.best_test_accuracy, "ratio": last.noise_ratio, "true": last.true_noise_ratio,
                "revision": build(method).revision}  # fmt: skip
        with given.out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)
        lines.append(line)
    print("| labels | method | seeds | accuracy | best epoch | noise found | true |\n|---|---|---|---|---|---|---|")
    for column, method in dict.fromkeys((column, method) for column, method, _ in wanted):
        of = [line for line in shown(lines) if (line["column"], line["method"]) == (column, method)]
        means = [np.mean([line[key] for line in of]) for key in ("accuracy", "best", "ratio", "true")]
        print(f"| {column} | {method} | {len(of)} | " + " | ".join(f"{100 * number:.1f}" for number in means) + " |")


if __name__ == "__main__":
    main()
