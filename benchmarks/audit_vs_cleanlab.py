"""The audit against cleanlab: the same network, data, epochs and batches; one run against five folds.

    python benchmarks/audit_vs_cleanlab.py --out runs/audit
    python benchmarks/audit_vs_cleanlab.py --out runs/audit --datasets digits table --rates 0.2 --noises directed
    python benchmarks/audit_vs_cleanlab.py --out runs/audit --device cuda --no-cleanlab     # where it is not installed
    python benchmarks/audit_vs_cleanlab.py --out runs/audit --table                         # then, where it is

cleanlab is given what its guide recommends: out-of-fold predictions of five folds, each network trained on plain
cross-entropy; the score is its default (self-confidence), the ratio the share of rows that its default filter flags,
and beside that the estimated joint's share off the diagonal. Both train with AdamW and the same learning rates. Results
go to results.jsonl, a line a cell, as they come; cells that are there are not run again. Out-of-fold predictions are
kept, so that cleanlab itself can be run later and elsewhere. The times compared are the processor's, since others may
use the machine; on a GPU look at the wall times, which the lines have too. For one thread set OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from audit_data import DATASETS, KINDS, Cell, make
from measurements import read_lines
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from adaptivek.auditing.networks import PLANS, maker, suited
from adaptivek.auditing.schedules import cosine
from adaptivek.auditing.scoring import score_labels
from adaptivek.auditing.training import Plan, Run, make_optimizer

FOLDS = 5


def ours(cell: Cell, seed: int, device: str, method: str) -> dict[str, object]:
    started, processor = time.perf_counter(), time.process_time()
    plan = replace(suited(PLANS[cell.kind], len(cell.labels)), seed=seed, method=method)
    x = cell.x.to(device)
    run = Run(lambda rows: x[torch.from_numpy(rows).to(device)], cell.labels, cell.classes,
              maker(cell.kind, cell.inputs, cell.classes, None), plan, device)  # fmt: skip
    for _ in range(plan.epochs):
        run.epoch()
    scores = score_labels(run.dynamics, cell.labels, [str(k) for k in range(cell.classes)], seed, noise=run.noise)
    seconds, processor = time.perf_counter() - started, time.process_time() - processor
    ratio, low, high = scores.ratio
    return {
        "seconds": seconds,
        "processor_seconds": processor,
        "ratio": ratio,
        "low": low,
        "high": high,
        **ranked(cell, scores.score),
    }


def out_of_fold(cell: Cell, seed: int, device: str) -> tuple[np.ndarray, float]:
    """Predictions for each row by a network of the other four folds, plain training; and the seconds it took."""
    started = time.perf_counter()
    found = np.zeros((len(cell.labels), cell.classes), np.float32)
    plan = suited(PLANS[cell.kind], len(cell.labels))
    make_model = maker(cell.kind, cell.inputs, cell.classes, None)
    x, labels = cell.x.to(device), torch.from_numpy(cell.labels).to(device)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(cell.labels, cell.labels)
    for number, (train, held_out) in enumerate(folds):
        torch.manual_seed(seed * FOLDS + number)
        model = make_model(seed * FOLDS + number).to(device)
        optimizer = make_optimizer(plan, model.parameters())
        steps, rng = max(1, len(train) // plan.batch_size), np.random.default_rng([seed, number])
        for epoch in range(plan.epochs):
            model.train()
            for at, rows in enumerate(np.array_split(rng.permutation(train), steps)):
                for group in optimizer.param_groups:
                    group["lr"] = plan.learning_rate * cosine(epoch * steps + at, plan.epochs * steps)
                with autocast(device):
                    output = model(x[torch.from_numpy(rows).to(device)])
                loss = F.cross_entropy(output.float(), labels[torch.from_numpy(rows).to(device)])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        model.eval()
        with torch.no_grad(), autocast(device):
            for rows in np.array_split(held_out, math.ceil(len(held_out) / 1_000)):
                found[rows] = model(x[torch.from_numpy(rows).to(device)]).float().softmax(1).cpu().numpy()
    return found, time.perf_counter() - started


def warm_up() -> None:
    """Have torch load what it loads with the first step of an optimiser: seconds that the first to train would pay."""
    optimizer = make_optimizer(Plan(), torch.nn.Linear(1, 1).parameters())
    optimizer.zero_grad()
    optimizer.step()


def autocast(device: str) -> torch.autocast:
    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=device.startswith("cuda"))


def theirs(labels: np.ndarray, predictions: np.ndarray) -> tuple[np.ndarray, dict[str, float]]:
    """cleanlab's score, its two noise ratios, and its own seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from cleanlab.count import estimate_joint
        from cleanlab.filter import find_label_issues
        from cleanlab.rank import get_label_quality_scores

        started = time.perf_counter()
        score = get_label_quality_scores(labels, predictions)
        flagged = find_label_issues(labels, predictions, n_jobs=1)
        seconds = time.perf_counter() - started
        joint = estimate_joint(labels, predictions)
    return score, {"seconds": seconds, "ratio": float(flagged.mean()), "ratio_joint": float(1 - np.trace(joint))}


def ranked(cell: Cell, score: np.ndarray) -> dict[str, float]:
    if not cell.noisy.any():
        return {}
    return {
        "auroc": float(roc_auc_score(cell.noisy, -score)),
        "precision": float(average_precision_score(cell.noisy, -score)),
    }


def table(lines: list[dict]) -> str:
    """Markdown: a line a cell, then counts."""
    text = [
        "| data | noise | true | AUROC, ours | cleanlab | average precision, ours | cleanlab | ratio, ours (interval) "
        "| cleanlab's filter | its joint | processor time, of cleanlab's |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        a, b = line["ours"], line.get("cleanlab", {})
        shown = [_number(one, key) for key in ("auroc", "precision") for one in (a, b)]
        interval = f"{a['ratio']:.3f} ({a['low']:.3f} to {a['high']:.3f})"
        ratios = [_number(b, key) for key in ("ratio", "ratio_joint")]
        share = a["processor_seconds"] / line["folds_processor_seconds"]
        noise = f"{line['noise']} {line['rate']:g}" if line["rate"] else "none"
        cells = [line["dataset"], noise, f"{line['true']:.3f}", *shown, interval, *ratios, f"{share:.2f}"]
        text.append("| " + " | ".join(cells) + " |")
    judged = [line for line in lines if "cleanlab" in line]
    noisy = [line for line in judged if line["true"] > 0]
    clean = [line for line in lines if line["true"] == 0]
    near = [line for line in lines if line["true"] > 0 and abs(line["ours"]["ratio"] - line["true"]) <= 0.03]
    better = sum(line["ours"]["auroc"] > line["cleanlab"]["auroc"] for line in noisy)
    inside = sum(line["ours"]["low"] <= line["true"] <= line["ours"]["high"] for line in lines)
    quick = sum(line["ours"]["processor_seconds"] * 4 <= line["folds_processor_seconds"] for line in lines)
    text += [
        "",
        f"AUROC above cleanlab's in {better} of {len(noisy)} cells with noise.",
        f"Ratio within 3 points in {len(near)} of {len(lines) - len(clean)} cells with noise, within 2 in "
        f"{sum(line['ours']['ratio'] <= 0.02 for line in clean)} of {len(clean)} without; "
        f"the interval holds the truth in "
        f"{inside} of {len(lines)}. cleanlab's filter: within 3 in "
        f"{sum(abs(line['cleanlab']['ratio'] - line['true']) <= 0.03 for line in noisy)} of {len(noisy)}, within 2 in "
        f"{sum(line['cleanlab']['ratio'] <= 0.02 for line in judged if line['true'] == 0)} of "
        f"{sum(line['true'] == 0 for line in judged)}.",
        f"At most a quarter of the processor time in {quick} of {len(lines)} cells.",
    ]
    return "\n".join(text)


def _number(values: dict, key: str) -> str:
    return f"{values[key]:.3f}" if key in values else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--noises", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--rates", nargs="+", type=float, default=[0.0, 0.1, 0.2, 0.4])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--no-cleanlab", action="store_true", help="keep the predictions of the folds for later")
    parser.add_argument("--table", action="store_true", help="train nothing: run cleanlab on what is there, and print")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "results.jsonl"
    lines = read_lines(path)
    done = {(line["dataset"], line["noise"], line["rate"], line["seed"]) for line in lines}
    wanted = [
        (dataset, noise, rate, seed)
        for dataset in given.datasets
        for rate in given.rates
        for noise in (given.noises if rate else given.noises[:1])
        for seed in range(given.seeds)
    ]
    warm_up()
    for dataset, noise, rate, seed in [] if given.table else [one for one in wanted if one not in done]:
        cell = make(dataset, noise, rate, seed)
        line = {"dataset": dataset, "noise": noise, "rate": rate, "seed": seed, "true": float(cell.noisy.mean())}
        line["ours"] = ours(cell, seed, given.device, given.method)
        processor = time.process_time()
        predictions, line["folds_seconds"] = out_of_fold(cell, seed, given.device)
        line["folds_processor_seconds"] = time.process_time() - processor
        line["predictions"] = f"{dataset}-{noise}-{rate:g}-{seed}.npz"
        np.savez_compressed(given.out / line["predictions"], p=predictions.astype(np.float16), labels=cell.labels,
                            clean=cell.clean)  # fmt: skip
        lines.append(line)
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)
    if not given.no_cleanlab:
        for line in lines:
            kept = np.load(given.out / line["predictions"])
            if "cleanlab" in line:
                continue
            score, line["cleanlab"] = theirs(kept["labels"], _sums_to_one(kept["p"]))
            noisy = kept["labels"] != kept["clean"]
            if noisy.any():
                line["cleanlab"] |= {"auroc": float(roc_auc_score(noisy, -score)),
                                     "precision": float(average_precision_score(noisy, -score))}  # fmt: skip
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (given.out / "table.md").write_text(table(lines) + "\n")
    print(table(lines))


def _sums_to_one(p: np.ndarray) -> np.ndarray:
    p = p.astype(np.float64)
    return p / p.sum(1, keepdims=True)


if __name__ == "__main__":
    main()
