"""Adaptive-k begun too early, with and without `ClassMonitor`: Fashion-MNIST (5,000 rows), the notebook's settings.

    python benchmarks/class_monitor.py

The published rule after 5 plain epochs instead of 30 loses class after class. `ClassMonitor` sees it, and has it train
plainly for 500 steps, an epoch, each time. 20 % directed noise.
"""

from __future__ import annotations

import argparse
import warnings

import torch
from testing import test_accuracy

from adaptivek import ClassMonitor, Selection
from adaptivek.experiments.data import Split, load
from adaptivek.networks import make_model
from adaptivek.noise import Directed, corrupt
from adaptivek.support.device import find_device

BATCH = 10


def train(data: Split, watched: bool, epochs: int, device: torch.device) -> list[float]:
    """Test accuracy after each epoch."""
    torch.manual_seed(0)
    labels, _ = corrupt(data.y, Directed(0.2), classes=10, seed=0)
    x, y = data.x.to(device), labels.to(device)
    steps = len(y) // BATCH
    model = make_model("notebook-cnn", 1, 10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    criterion = Selection("adaptive-k", warmup=5 * steps).to(device)
    watch = ClassMonitor(criterion, 10) if watched else None
    found = []
    for _ in range(epochs):
        model.train()
        for index in torch.randperm(len(y)).to(device)[: steps * BATCH].view(-1, BATCH):
            loss = criterion(model(x[index]), y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if watch is not None:
                watch(y[index])
        found.append(test_accuracy(model, data, device))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    device, data = find_device(given.device), load("fashion-mnist")
    for watched in (False, True):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            found = train(data, watched, given.epochs, device)
        print("watched  " if watched else "by itself", *(f"{value:5.1f}" for value in found), flush=True)
        for warning in heard:
            print(f"          {warning.message}")


if __name__ == "__main__":
    main()
