"""Two stages: cross-train, then train a fresh network that begins with what is known of each row.

    python benchmarks/real.py prepare --data-root DATA --weights MINILM MOBILENET --out runs/real
    python benchmarks/two_stages.py run --folder runs/real --cells text-bag/sarcasm/0.4 perceptron/labelme_amt
    python benchmarks/two_stages.py run --folder runs/real --cells encoder/sarcasm/0.4 --device cuda
    python benchmarks/two_stages.py run --cells cifar10n/worse_label --labels cifar10n/train.parquet --device cuda
    python benchmarks/two_stages.py table

A cell is network/data/rate, without a rate where the labels are noisy as they are. Lines go to a file, one for each
cell, way and seed; those that are there are not run again. The ways: plain training; the default; the Oracle; a fresh
network without the rows that the audit flags, on its suggested labels, or on its targets; two-stages, whose memory
begins with the audit's predictions; two-rounds, the same after a second cross-training that begins with the first;
two-rounds-agreement, the same with label agreement in place of label memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from measurements import read_lines
from real_compare import current
from real_settings import DEVELOPMENT, NETWORKS, OWN

from adaptivek.methods import DEFAULT

Line = dict[str, Any]
#: what each way trains on: nothing of an audit, or that of the first or the second cross-training
WAYS = {
    "plain": 0, "default": 0, "oracle": 0,
    "left-out": 1, "suggested": 1, "targets": 1, "two-stages": 1, "two-rounds": 2, "two-rounds-agreement": 2,
}  # fmt: skip
REAL = {"vanilla": "plain", DEFAULT: "default", "oracle": "oracle"}  #: what benchmarks/real.py calls them
TEXTS = tuple(f"text-bag/{data}/{rate}" for data in ("sarcasm", "hotel") for rate in (0.2, 0.4))
POOL = ("labelme_amt", "product_pairs_amt", "weak_agnews", "cifar10n_worst", "cifar10n_aggregate")
HELD_BACK = ("weak_trec", "weak_sms", "manifesto_crowd", "chnsenticorp_golden")
CELLS = (*TEXTS, *(f"perceptron/{data}" for data in (*POOL, *HELD_BACK)))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("run", help="do what is not done yet")
    command.add_argument("--cells", nargs="+", default=CELLS)
    command.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    command.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    command.add_argument("--folder", type=Path, default=Path("runs/real"), help="what `real.py prepare` made")
    command.add_argument("--labels", type=Path, help="of CIFAR-10N, Parquet or .npz; for cells of cifar10n")
    command.add_argument("--data-root", type=Path, help="folder with cifar10, or ADAPTIVEK_DATA")
    command.add_argument("--epochs", type=int, help="of a fresh network, in place of those of its recipe")
    command.add_argument("--audit-epochs", type=int, help="of cross-training, in place of those of the recipe")
    command.add_argument("--rows", type=int, help="train and test on so many only, to try it out")
    command.add_argument("--device", default="auto")
    command.add_argument("--out", type=Path, default=Path("results/two_stages/results.jsonl"))
    command = commands.add_parser("table", help="print the table")
    command.add_argument("--results", type=Path, default=Path("results/two_stages"), help="folder of JSON lines")
    command.add_argument("--real", type=Path, default=Path("results/real"), help="the same of benchmarks/real.py")
    given = parser.parse_args(arguments)
    if given.command == "table":
        lines, others = (
            [line for file in sorted(folder.glob("*.jsonl")) for line in read_lines(file)]
            for folder in (given.results, given.real)
        )
        print(table(lines + from_real(others, lines)))
        return 0
    run_all(given)
    return 0


def run_all(given: argparse.Namespace) -> None:
    """One seed of every cell after the other; a line is written as soon as it is known."""
    from two_stages_train import make_cell

    done = {(line["cell"], line["way"], line["seed"]) for line in read_lines(given.out)}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in given.seeds:
        for name in given.cells:
            left = [way for way in given.ways if (name, way, seed) not in done]
            if not left:
                continue
            cell = make_cell(name, seed, given)
            audits: list[Any] = []
            spent = 0.0
            for way in sorted(left, key=lambda way: WAYS[way]):
                while len(audits) < WAYS[way]:
                    began = time.perf_counter()
                    audits.append(cell.audit(audits[-1] if audits else None))
                    spent += time.perf_counter() - began
                began = time.perf_counter()
                found = cell.train(way, audits[WAYS[way] - 1] if WAYS[way] else None)
                line = {"cell": name, "way": way, "seed": seed, **found, "true": round(cell.noise, 4)}
                line["seconds"] = round(time.perf_counter() - began, 1)
                if WAYS[way]:
                    audit = audits[WAYS[way] - 1]
                    line |= {"audit_seconds": round(spent, 1), "ratio": round(audit.noise_ratio, 4)}
                    line["held_out"] = cell.held_out(audit)
                with given.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)


def from_real(lines: Iterable[Line], found: Sequence[Line]) -> list[Line]:
    """Runs of benchmarks/real.py, which trains the same networks, for the cells and seeds that are in ``found``."""
    there = {(line["cell"], line["way"], line["seed"]) for line in found}
    wanted = {(cell, seed) for cell, _, seed in there}
    known = []
    for job, line in current(lines).items():
        setting, way = job.setting, REAL.get(job.method)
        cell = f"{setting.network}/{setting.data}" + (f"/{setting.rate}" if setting.rate else "")
        usual = setting.epochs == NETWORKS[setting.network].epochs[0] and setting.noise in (OWN, "symmetric")
        if way and usual and (cell, job.seed) in wanted and (cell, way, job.seed) not in there:
            accuracy, stands_in = line[setting.metric][-1], line.get("stands_in", False)
            known.append({"cell": cell, "way": way, "seed": job.seed, "accuracy": accuracy, "stands_in": stands_in})
    return known


def table(lines: Iterable[Line]) -> str:
    """A line for each cell, a column for each way; mean, and deviation over the seeds."""
    found: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        found.setdefault((line["cell"], line["way"]), []).append(line)
    ways = [way for way in WAYS if any(one == way for _, one in found)]
    cells = sorted({cell for cell, _ in found}, key=_place)
    text = [_row(["cell", "seeds", *ways]), _row(["---"] * (len(ways) + 2))]
    for cell in cells:
        shown = [_shown(found.get((cell, way), [])) for way in ways]
        seeds = max(len(found.get((cell, way), [])) for way in ways)
        text.append(_row([cell, str(seeds), *shown]))
    return "\n".join(text)


def _place(cell: str) -> tuple[int, str]:
    known = [*TEXTS, *CELLS]
    development = cell.split("/")[1] in DEVELOPMENT
    return (0 if development else 1000) + (known.index(cell) if cell in known else 500), cell


def _shown(lines: Sequence[Line]) -> str:
    if not lines:
        return "-"
    values = [line["accuracy"] for line in lines]
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    earlier = "†" if any(line.get("stands_in") for line in lines) else ""  # an earlier revision of the method
    return f"{statistics.mean(values):.1f}{spread}{earlier}"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
