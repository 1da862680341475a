"""CIFAR-10 with the labels that people gave it (CIFAR-10N), ResNet-18, one run on a GPU.

    python benchmarks/audit_cifar.py --labels cifar10n/train.parquet

Prints AUROC and average precision of finding the noisy labels, and the noise ratio with its interval.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from adaptivek.auditing.noise_estimate import estimate_noise
from adaptivek.auditing.predictions import Predictions, label_probability, mean_prediction
from adaptivek.auditing.training import Plan, Run
from adaptivek.experiments.data import load
from adaptivek.networks import make_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=Path, required=True, help="Parquet file or folder with the human labels")
    parser.add_argument("--column", default="worse_label", choices=["worse_label", "aggre_label", "clean_label"])
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--method", default="elr")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--weight-decay", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    table = parquet.read_table(given.labels).to_pydict()
    labels, clean = (np.array(table[name], dtype=np.int64) for name in (given.column, "clean_label"))
    data = load("cifar10")
    if not np.array_equal(data.y.numpy(), clean):
        raise ValueError("the human labels must be for the training rows of cifar10, in their order")
    plan = Plan(
        given.method, given.epochs, given.batch_size, given.learning_rate, "sgd", given.weight_decay, True, given.seed
    )
    x = data.x.to(given.device, memory_format=torch.channels_last)
    torch.backends.cudnn.benchmark = True
    started = time.perf_counter()
    run = Run(
        lambda rows: x[torch.from_numpy(rows).to(given.device)],
        labels,
        10,
        lambda seed: make_model(given.network, 3, 10, seed).to(memory_format=torch.channels_last),
        plan,
        given.device,
    )
    for epoch in range(plan.epochs):
        run.epoch()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}, {time.perf_counter() - started:.0f} s", flush=True)
    report(run, labels, clean, time.perf_counter() - started)


def report(run: Run, labels: np.ndarray, clean: np.ndarray, seconds: float) -> None:
    noisy = labels != clean
    held_out, in_sample = (Predictions(*of.tables()) for of in (run.dynamics.held_out, run.dynamics.in_sample))
    noise = run.noise or estimate_noise(held_out, labels, 10)
    found = {
        "held_out": label_probability(held_out, labels),
        "in_sample": label_probability(in_sample, labels),
        "both": label_probability(mean_prediction(held_out, in_sample), labels),
    }
    line = {
        "seconds": round(seconds),
        "true": float(noisy.mean()),
        **noise.ratio._asdict(),
        "accuracy_held_out": float((held_out.p.argmax(1) == clean).mean()),
        "accuracy_in_sample": float((in_sample.p.argmax(1) == clean).mean()),
    }
    if noisy.any():
        line["auroc"] = {name: float(roc_auc_score(noisy, -score)) for name, score in found.items()}
        line["precision"] = {name: float(average_precision_score(noisy, -score)) for name, score in found.items()}
    print(json.dumps(line))


if __name__ == "__main__":
    main()
