"""Random settings: is a method ever worse than plain training, does it ever lose a class?

    python benchmarks/robustness.py --pool digits --settings 100      # minutes on two cores
    python benchmarks/robustness.py --pool images --settings 504      # minutes on a GPU

Each setting draws the data (2 to 20 classes, imbalanced up to 1:50), the noise (kind, rate 0 to 0.5), the optimiser,
its learning rate over two decades, the batch size (8 to 512), and the warm-up of the methods that have one (0 to half
of the run). Settings that share a network and an optimiser are trained as one stack. Every method of a setting sees
the same labels, the same order and the same first weights as Vanilla, with which it is compared at the last epoch. So
does "vanilla-nudged", plain training with labels smoothed by a thousandth: what it is below is luck. With --draw the
same settings have other noisy labels, orders and first weights: what is lost twice is not luck.
Results go to a file, one line a setting; settings that are there already are not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from measurements import read_lines

from adaptivek.experiments.data import Split, load
from adaptivek.experiments.session import prepare
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.experiments.stack import Stack
from adaptivek.method import Batch, Decision, NoState
from adaptivek.methods import METHODS as BY_NAME
from adaptivek.methods.label_memory import LabelMemory, LabelMemoryState
from adaptivek.methods.vanilla import Vanilla

METHODS = ("label-memory", "label-memory-without-rows", "adaptive-k", "vanilla-nudged")  # beside Vanilla
KINDS = ("directed", "symmetric", "pair-flip", "instance")
RATES = {"sgd": (0.003, 0.3), "momentum": (0.0005, 0.05), "adam": (0.0001, 0.01)}
TOGETHER = 24  # settings in a stack
EPOCHS = 20


class WithoutRows(LabelMemory):
    """What label memory falls back to where row numbers are not given."""

    name: ClassVar[str] = "label-memory-without-rows"

    def step(self, state: LabelMemoryState, batch: Batch) -> Decision:
        return super().step(state._replace(**dict.fromkeys(self.tables)), batch)


class Nudged(Vanilla):
    """Plain training with labels smoothed by a thousandth: how far runs part that differ in next to nothing."""

    name: ClassVar[str] = "vanilla-nudged"
    needs_logits: ClassVar[bool] = True
    own_loss: ClassVar[bool] = True

    def step(self, state: NoState, batch: Batch) -> Decision:
        losses = F.cross_entropy(batch.logits, batch.labels, reduction="none", label_smoothing=0.001)
        return Decision(batch.valid, losses=losses)


for made_here in (WithoutRows, Nudged):
    BY_NAME[made_here.name] = made_here


def pool(name: str) -> Split:
    """Where the rows are drawn from: digits, or MNIST and Fashion-MNIST as one set of twenty classes."""
    if name == "digits":
        return load("digits")
    one, other = load("mnist"), load("fashion-mnist")
    return Split(
        torch.cat([one.x, other.x]),
        torch.cat([one.y, other.y + 10]),
        torch.cat([one.x_test, other.x_test]),
        torch.cat([one.y_test, other.y_test + 10]),
        20,
    )


def draw(data: Split, rng: np.random.Generator, classes: int, rows: int, imbalance: float) -> Split:
    """``rows`` of ``classes`` classes taken at random, the rarest ``imbalance`` times as rare as the commonest."""
    chosen = rng.permutation(data.classes)[:classes]
    share = imbalance ** -(np.arange(classes) / (classes - 1))
    numbers = np.maximum(4, np.round(rows * share / share.sum())).astype(int)
    train, test, train_y, test_y = [], [], [], []
    for label, (old, number) in enumerate(zip(chosen, numbers, strict=True)):
        there = np.flatnonzero(data.y.numpy() == old)
        train.append(rng.choice(there, number, replace=number > len(there)))
        train_y.append(np.full(number, label))
        there = np.flatnonzero(data.y_test.numpy() == old)[:100]
        test.append(there)
        test_y.append(np.full(len(there), label))
    rest = rng.permutation(sum(map(len, train)))[:rows]
    rest = np.concatenate([rest, rest[: rows - len(rest)]])  # rounding may have left a few too few
    return Split(
        data.x[np.concatenate(train)[rest]],
        torch.from_numpy(np.concatenate(train_y)[rest]),
        data.x_test[np.concatenate(test)],
        torch.from_numpy(np.concatenate(test_y)),
        classes,
    )


def group(
    data: Split, name: str, number: int, rows: int, device: str, compared: Sequence[str] = METHODS, again: int = 0
) -> list[dict[str, object]]:
    """One stack of settings: drawn from the number of the group, labels and weights from ``again`` too."""
    rng = np.random.default_rng([2024, number])
    classes = int(rng.choice([k for k in (2, 3, 5, 10, 15, 20) if k <= data.classes]))
    optimizer = str(rng.choice(list(RATES)))
    low, high = (math.log(rate) for rate in RATES[optimizer])
    recipe = Recipe(
        network="digits-cnn" if name == "digits" else "notebook-cnn",
        epochs=EPOCHS,
        warmup_epochs=int(rng.integers(0, EPOCHS // 2 + 1)),
        batch_size=int(rng.choice([8, 16, 32, 64, 128, 256, 512])),
        optimizer="adam" if optimizer == "adam" else "sgd",
        learning_rate=math.exp(rng.uniform(low, high)),
        momentum=0.9 if optimizer == "momentum" else 0.0,
        decay_every=8,
    )
    settings, jobs, methods = [], [], ("vanilla", *compared)
    for _ in range(TOGETHER):
        setting = {
            "noise": str(rng.choice(KINDS)) if classes > 2 else "symmetric",
            "rate": round(float(rng.uniform(0, 0.5)), 3) * int(rng.random() > 0.1),  # some are clean
            "imbalance": round(float(np.exp(rng.uniform(0, math.log(50)))), 1) if rng.random() > 0.3 else 1.0,
        }
        split = draw(data, rng, classes, rows, setting["imbalance"])
        for method in methods:
            spec = RunSpec(name, method, setting["noise"], setting["rate"], seed=number + 1000 * again, recipe=recipe)
            jobs.append(prepare(spec, split))
        settings.append(setting)
    stack = Stack(jobs, device)
    *_, records = stack  # the last epoch
    predicted = (stack.predicted() > 0).sum(1).tolist()
    lines = []
    for i, setting in enumerate(settings):
        runs = range(i * len(methods), (i + 1) * len(methods))
        lines.append(
            {
                "pool": name,
                "group": number,
                "draw": again,
                "classes": classes,
                "optimizer": optimizer,
                "learning_rate": recipe.learning_rate,
                "batch_size": recipe.batch_size,
                "warmup": recipe.warmup_epochs,
                "rows": rows,
                **setting,
                "accuracy": {m: round(records[r].test_accuracy, 4) for m, r in zip(methods, runs, strict=True)},
                "predicted": {m: predicted[r] for m, r in zip(methods, runs, strict=True)},
                "ratio": {m: records[r].noise_ratio for m, r in zip(methods, runs, strict=True) if m != "vanilla"},
            }
        )
    return lines


def tell(lines: list[dict[str, dict[str, float]]]) -> None:
    """How often, and by how much, each method is below Vanilla."""
    print(f"{len(lines)} settings")
    print("| method | points over Vanilla, mean | worst | more than 1 below | more than 3 below | loses a class |")
    print("|---|---|---|---|---|---|")
    for method in lines[0]["ratio"]:
        over = [100 * (line["accuracy"][method] - line["accuracy"]["vanilla"]) for line in lines]
        fewer = sum(line["predicted"][method] < line["predicted"]["vanilla"] for line in lines)
        below = [sum(points < -limit for points in over) for limit in (1, 3)]
        print(f"| {method} | {np.mean(over):+.2f} | {min(over):+.1f} | {below[0]} | {below[1]} | {fewer} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", default="digits", choices=["digits", "images"])
    parser.add_argument("--settings", type=int, default=96)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--draw", type=int, default=0, help="of noisy labels, orders and first weights")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("results/beyond/settings.jsonl"))
    given = parser.parse_args()
    lines = read_lines(given.out)
    done = {(line["pool"], line["group"], line.get("draw", 0)) for line in lines}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    data, started = pool(given.pool), time.perf_counter()
    for number in range(-(-given.settings // TOGETHER)):
        if (given.pool, number, given.draw) in done:
            continue
        found = group(data, given.pool, number, given.rows, given.device, given.methods, given.draw)
        with given.out.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in found)
        lines += found
        print(f"group {number}: {time.perf_counter() - started:.0f} s", flush=True)
    tell([line for line in lines if line["pool"] == given.pool and line.get("draw", 0) == given.draw])


if __name__ == "__main__":
    main()
