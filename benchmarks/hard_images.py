"""A hard problem and little training: what does a method cost where a network is far from done?

    python benchmarks/hard_images.py --data-root DATA      # half an hour on one core
    python benchmarks/hard_images.py --problem memorised --data-root DATA      # ten minutes on one core for each run
    python benchmarks/hard_images.py --only-table

A small convolutional network, from scratch, on 6,000 images of CIFAR-10 for 16 epochs: it predicts two of three test
images and memorises next to nothing. What it does not predict is hard, not noisy, and a method that takes it for noise
loses by it. The other problem is one where doubting pays: a narrow ResNet on 10,000 images for 20 epochs, which
memorises labels as its learning rate falls, with noise that goes to one other class. Test accuracy in per cent at the
last epoch, one seed; with one seed all methods see the same noisy labels, first weights, batches and distortions.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from measurements import read_lines
from torch import Tensor, nn

import adaptivek
from adaptivek.experiments.data import Split, load
from adaptivek.methods import build
from adaptivek.networks import Residual, convolution
from adaptivek.noise import Directed, Noise, Symmetric, corrupt
from adaptivek.support.streams import stream

METHODS = ("vanilla", "oracle", "label-posterior", "label-agreement", "label-memory", "elr", "gce", "bare")
BATCH, TESTED = 128, 3_000


def network(classes: int) -> nn.Module:
    pooled = [layer for width in ((3, 24), (24, 48), (48, 96)) for layer in (convolution(*width), nn.MaxPool2d(2))]
    return nn.Sequential(*pooled, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, classes))


def narrow_resnet(classes: int) -> nn.Module:
    """As the ResNet-9 of the library's recipe for CIFAR-10, a quarter as wide."""
    return nn.Sequential(
        convolution(3, 16), convolution(16, 32), nn.MaxPool2d(2), Residual(32),
        convolution(32, 64), nn.MaxPool2d(2), convolution(64, 128), nn.MaxPool2d(2), Residual(128),
        nn.AdaptiveMaxPool2d(1), nn.Flatten(), _Head(128, classes),
    )  # fmt: skip


class _Head(nn.Linear):
    """Its logits are an eighth of what they would be, without which the network is too confident."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 8


@dataclass(frozen=True)
class Problem:
    network: Callable[[int], nn.Module]
    noise: Callable[[float], Noise]
    rates: tuple[float, ...]
    rows: int
    epochs: int
    fastest: float  #: learning rate
    rising: float  #: share of the steps in which it rises

    def rate_at(self, done: float) -> float:
        """The learning rate as a share of the fastest, when this share of the steps is done: up, then down to 0."""
        return min(1.0, done / self.rising) * (1 - done) + 2e-3


PROBLEMS = {
    "hard": Problem(network, Symmetric, (0.0, 0.2, 0.4), 6_000, 16, 0.05, 0.1),
    "memorised": Problem(narrow_resnet, Directed, (0.4,), 10_000, 20, 0.4, 0.2),
}


def some(data: Split, number: int = PROBLEMS["hard"].rows) -> Split:
    """Images as numbers about 0, as many as are used."""
    rows, tested = (
        torch.from_numpy(stream(0, f"hard images, {name}").permutation(len(y))[:number])
        for name, y, number in (("train", data.y, number), ("test", data.y_test, TESTED))
    )
    x, x_test = data.x[rows].float(), data.x_test[tested].float()
    mean, deviation = x.mean(), x.std()
    return Split((x - mean) / deviation, data.y[rows], (x_test - mean) / deviation, data.y_test[tested], data.classes)


def distorted(x: Tensor) -> Tensor:
    """Mirrored at random, and all of a batch shifted by up to two pixels."""
    mirrored = torch.where((torch.rand(len(x)) < 0.5).view(-1, 1, 1, 1), x.flip(-1), x)
    up, left = torch.randint(0, 5, (2,)).tolist()
    return nn.functional.pad(mirrored, (2, 2, 2, 2))[..., up : up + x.shape[-2], left : left + x.shape[-1]]


def run(data: Split, text: str, name: str, rate: float, seed: int = 0) -> dict[str, object]:
    problem = PROBLEMS[name]
    labels, _ = corrupt(data.y, problem.noise(rate), classes=data.classes, seed=seed)
    clean, method = labels == data.y, build(text)
    criterion = adaptivek.Selection(
        method, rows=len(labels), classes=data.classes, clean=clean if method.privileged else None
    )
    accuracy = train(data, labels, criterion, problem, seed)
    found = criterion.noise_ratio if method.leaves_out else float("nan")
    return {
        "problem": name, "method": text, "revision": method.revision, "rate": rate, "seed": seed,
        "accuracy": round(100 * accuracy, 2), "noise_ratio": None if found != found else round(found, 4),
    }  # fmt: skip


def train(
    data: Split, labels: Tensor, criterion: adaptivek.Selection, problem: Problem = PROBLEMS["hard"], seed: int = 0
) -> float:
    """Test accuracy at the last epoch."""
    torch.manual_seed(seed)
    model = problem.network(data.classes).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), problem.fastest, momentum=0.9, weight_decay=5e-4, nesterov=True)
    steps = len(labels) // BATCH
    last = problem.epochs * steps
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: problem.rate_at(at / last))
    for epoch in range(problem.epochs):
        criterion.start_epoch(epoch)
        for index in torch.randperm(len(labels))[: steps * BATCH].split(BATCH):
            optimizer.zero_grad()
            x = distorted(data.x[index]).contiguous(memory_format=torch.channels_last)
            criterion(model(x), labels[index], index).backward()
            optimizer.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        right = torch.cat([model(x).argmax(1) for x in data.x_test.split(500)]) == data.y_test
    return right.float().mean().item()


def tell(lines: list[dict[str, object]], name: str) -> None:
    rates = PROBLEMS[name].rates
    print(f"| {name} | " + " | ".join("clean" if not rate else f"{rate:.0%} noise" for rate in rates) + " |")
    print("|---" * (len(rates) + 1) + "|")
    current = {
        (line["method"], line["rate"]): line
        for line in lines
        if line["problem"] == name and line["revision"] == _revision(line)
    }
    for method in dict.fromkeys(method for method, _ in current):
        cells = [f"{current[method, rate]['accuracy']:.1f}" if (method, rate) in current else "-" for rate in rates]
        print(f"| `{method}` | {' | '.join(cells)} |")


def _revision(line: dict[str, object]) -> int:
    return build(str(line["method"])).revision


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", default=os.environ.get("ADAPTIVEK_DATA"), help="or ADAPTIVEK_DATA")
    parser.add_argument("--problem", default="hard", choices=PROBLEMS)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--out", type=Path, default=Path("results/beyond/hard_images.jsonl"))
    parser.add_argument("--only-table", action="store_true")
    given = parser.parse_args()
    lines = read_lines(given.out)
    if not given.only_table:
        torch.set_num_threads(1)
        problem = PROBLEMS[given.problem]
        data = some(load("cifar10", root=given.data_root), problem.rows)
        done = {(line["problem"], line["method"], line["revision"], line["rate"]) for line in lines}
        for rate in problem.rates:
            for text in given.methods:
                if (given.problem, text, build(text).revision, rate) not in done:
                    lines.append(run(data, text, given.problem, rate))
                    with given.out.open("a") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
                    print(lines[-1], flush=True)
    for name in PROBLEMS:
        tell(lines, name)


if __name__ == "__main__":
    main()
