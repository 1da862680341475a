"""The paper's settings in two stages: cross-train on halves, then a fresh network that begins with what is known.

    python benchmarks/paper_stages.py run --datasets sarcasm mnist --seeds 0 1 2
    python benchmarks/paper_stages.py table

Data, noisy labels, network and recipe of the second stage are those of benchmarks/paper.py. The first is the audit of
the same network with the audit's own plan for such data; for CIFAR-10 that of benchmarks/two_stages.py. One line of
JSON for each setting and seed; those that are there are not run again. `python benchmarks/paper.py docs` prints the
table into docs/results.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from measurements import read_lines, with_stand_ins
from torch.utils.data import TensorDataset
from two_stages_train import PLANS as TWO_STAGES

import adaptivek
from adaptivek.auditing.networks import PLANS, suited
from adaptivek.experiments.prepare import prepare
from adaptivek.experiments.report.names import named
from adaptivek.experiments.report.tables import Row, rows
from adaptivek.experiments.report.text import rate_name
from adaptivek.experiments.session import Session
from adaptivek.experiments.spec import PAPER_DATASETS, PAPER_RATES, RECIPES, RunSpec
from adaptivek.experiments.store import Result, Store
from adaptivek.methods import DEFAULT, default
from adaptivek.networks import make_model
from adaptivek.support.device import find_device

ROOT = Path(__file__).parents[1]
OUT = ROOT / "results" / "paper-stages.jsonl"
BESIDE = ("vanilla", DEFAULT, "elr", "oracle")  #: in one stage
Line = dict[str, Any]


def run(dataset: str, rate: float, seed: int, root: Path | None, device: str) -> Line:
    spec = RunSpec(dataset, default(True), "directed", rate, seed=seed, recipe=RECIPES[dataset])
    job = prepare(spec, root=root)
    data, started = job.data, time.perf_counter()
    x, network = data.x, make_model(spec.recipe.network, data.inputs, data.classes, seed)
    if spec.recipe.augment:  # such a network is cross-trained as benchmarks/two_stages.py does it
        plan = TWO_STAGES["cifar10n"]
        x = x.to(find_device(device), memory_format=torch.channels_last)
        network = network.to(memory_format=torch.channels_last)
    else:
        plan = dataclasses.asdict(suited(PLANS["text" if data.vocabulary else "image"], len(job.labels)))
    audit = adaptivek.audit(TensorDataset(x, job.labels), None, network, device=device, **plan | {"seed": seed})
    spent = time.perf_counter() - started
    *_, last = Session(spec, data, device, start=torch.from_numpy(audit.predictions))
    return {
        "dataset": dataset, "rate": rate, "seed": seed,
        "accuracy": round(100 * last.test_accuracy, 2), "best": round(100 * last.best_test_accuracy, 2),
        "held_out": round(100 * float((audit.predictions.argmax(1) == data.y.numpy()).mean()), 2),
        "ratio": round(audit.noise_ratio, 4), "true": round(job.noise, 4),
        "audit_seconds": round(spent, 1), "seconds": round(time.perf_counter() - started, 1),
    }  # fmt: skip


def table(lines: Sequence[Line], results: Sequence[Result]) -> str:
    """Accuracy at the last epoch, mean over the seeds of each: one stage, then two."""
    beside = {(row.setting.dataset, row.setting.rate): row for row in rows(results)}
    found: dict[tuple[str, float], list[Line]] = {}
    for line in lines:
        found.setdefault((line["dataset"], line["rate"]), []).append(line)
    head = ["data set", "rate", *map(named, BESIDE), "two stages", "seeds", "noise ratio of the audit"]
    text = [head, ["---", *["---:"] * (len(head) - 1)]]
    for dataset in PAPER_DATASETS:
        for rate in PAPER_RATES:
            if (dataset, rate) not in found:
                continue
            mine, row = found[dataset, rate], beside.get((dataset, rate))
            end = f"{statistics.mean(line['accuracy'] for line in mine):.1f}"
            ratio = f"{100 * statistics.mean(line['ratio'] for line in mine):.0f} %"
            cells = [_mean(row, method) for method in BESIDE]
            text.append([named(dataset), rate_name(rate), *cells, end, str(len(mine)), ratio])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in text) if found else "Not run yet."


def _mean(row: Row | None, method: str) -> str:
    return "-" if row is None or not row.has(method) else f"{100 * row.stat(method, 'last').mean:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--datasets", nargs="+", default=PAPER_DATASETS)
    parser.add_argument("--noise-rates", nargs="+", type=float, default=PAPER_RATES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    if given.what == "table":
        print(table(read_lines(given.out), with_stand_ins(Store(ROOT / "results" / "paper").read_all())))
        return
    done = {(line["dataset"], line["rate"], line["seed"]) for line in read_lines(given.out)}
    for seed in given.seeds:
        for dataset in given.datasets:
            for rate in given.noise_rates:
                if (dataset, rate, seed) in done:
                    continue
                line = run(dataset, rate, seed, given.data_root, given.device)
                with given.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
