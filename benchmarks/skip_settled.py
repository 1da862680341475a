"""How much time `SkipSettled` saves, and what it costs in accuracy: MNIST (5,000 rows), a plain loop.

    python benchmarks/skip_settled.py

On clean labels and with 40 % directed noise: Vanilla, label memory, label memory with SkipSettled. Times are of whole
runs, testing left out, as shares of Vanilla's; a first run, which sets things up, is thrown away. What is measured goes
to a file, in place of what it holds of that kind of device.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from measurements import read_lines
from testing import test_accuracy
from torch import Tensor
from torch.utils.data import RandomSampler

from adaptivek import Selection, SkipSettled
from adaptivek.experiments.data import Split, load
from adaptivek.networks import make_model
from adaptivek.noise import Directed, corrupt
from adaptivek.support.device import find_device

BATCH, LEARNING_RATE = 20, 0.1


def train(data: Split, labels: Tensor, kind: str, epochs: int, device: torch.device) -> tuple[float, float, float]:
    """Seconds, the share of all visits that were made, and the accuracy at the end."""
    torch.manual_seed(0)
    x, y = data.x.to(device), labels.to(device)
    model = make_model("notebook-cnn", 1, data.classes).to(device)
    optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE)
    decay = torch.optim.lr_scheduler.StepLR(optimizer, max(1, 2 * epochs // 5), 0.2)
    criterion = Selection("vanilla") if kind == "vanilla" else Selection("label-memory", rows=len(y), classes=10)
    criterion.to(device)
    sampler = SkipSettled(criterion) if kind == "sparing" else RandomSampler(range(len(y)))
    model.train()
    started, visits = _now(device), 0
    for _ in range(epochs):
        rows = torch.tensor(list(sampler)).to(device)
        visits += len(rows)
        for index in rows[: len(rows) // BATCH * BATCH].view(-1, BATCH):
            loss = criterion(model(x[index]), y[index], index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        decay.step()
    seconds = _now(device) - started
    return seconds, visits / (epochs * len(y)), test_accuracy(model, data, device)


def _now(device: torch.device) -> float:
    if device.type != "cuda":
        return time.process_time()  # others may use the processor
    torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("results/beyond/sparing.jsonl"))
    given = parser.parse_args()
    device, data = find_device(given.device), load("mnist")
    train(data, data.y, "sparing", 2, device)
    lines = []
    for rate in (0.0, 0.4):
        labels, _ = corrupt(data.y, Directed(rate), classes=10, seed=0)
        plain = 0.0
        for kind in ("vanilla", "label-memory", "sparing"):
            seconds, visits, accuracy = train(data, labels, kind, given.epochs, device)
            plain = plain or seconds
            lines.append({"device": device.type, "rate": rate, "run": kind, "time": round(seconds / plain, 3),
                          "visits": round(visits, 3), "accuracy": round(accuracy, 2)})  # fmt: skip
    kept = read_lines(given.out)
    kept = [line for line in kept if line["device"] != device.type] + lines
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text("".join(json.dumps(line) + "\n" for line in kept))
    tell(lines)


def tell(lines: list[dict[str, Any]]) -> None:
    print("| device | noise | run | time, of Vanilla's | visits | accuracy |\n|---|---|---|---|---|---|")
    for line in lines:
        shown = f"{line['time']:.2f} | {line['visits']:.2f} | {line['accuracy']:.1f}"
        print(f"| {line['device']} | {line['rate']:g} | {line['run']} | {shown} |")


if __name__ == "__main__":
    main()
