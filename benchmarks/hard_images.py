"""A hard problem and little training: what does a method cost where a network is far from done?

    python benchmarks/hard_images.py --data-root DATA      # half an hour on one core
    python benchmarks/hard_images.py --only-table

A small convolutional network, from scratch, on 6,000 images of CIFAR-10 for 16 epochs: it predicts two of three test
images and memorises next to nothing. What it does not predict is hard, not noisy, and a method that takes it for noise
loses by it. Test accuracy in per cent at the last epoch, one seed; with one seed all methods see the same noisy labels,
first weights, batches and distortions.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch
from measurements import read_lines
from torch import Tensor, nn

import adaptivek
from adaptivek.experiments.data import Split, load
from adaptivek.methods import build
from adaptivek.noise import Symmetric, corrupt
from adaptivek.support.streams import stream

METHODS = ("vanilla", "oracle", "label-posterior", "label-agreement", "label-memory", "elr", "gce", "bare")
RATES = (0.0, 0.2, 0.4)
ROWS, TESTED, EPOCHS, BATCH, FASTEST = 6_000, 3_000, 16, 128, 0.05


def network(classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((3, 24), (24, 48), (48, 96)):
        layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, classes))


def some(data: Split) -> Split:
    """Images as numbers about 0, as many as are used."""
    rows, tested = (
        torch.from_numpy(stream(0, f"hard images, {name}").permutation(len(y))[:number])
        for name, y, number in (("train", data.y, ROWS), ("test", data.y_test, TESTED))
    )
    x, x_test = data.x[rows].float(), data.x_test[tested].float()
    mean, deviation = x.mean(), x.std()
    return Split((x - mean) / deviation, data.y[rows], (x_test - mean) / deviation, data.y_test[tested], data.classes)


def distorted(x: Tensor) -> Tensor:
    """Mirrored at random, and all of a batch shifted by up to two pixels."""
    mirrored = torch.where((torch.rand(len(x)) < 0.5).view(-1, 1, 1, 1), x.flip(-1), x)
    up, left = torch.randint(0, 5, (2,)).tolist()
    return nn.functional.pad(mirrored, (2, 2, 2, 2))[..., up : up + x.shape[-2], left : left + x.shape[-1]]


def run(data: Split, text: str, rate: float, seed: int = 0) -> dict[str, object]:
    labels, _ = corrupt(data.y, Symmetric(rate), classes=data.classes, seed=seed)
    clean, method = labels == data.y, build(text)
    criterion = adaptivek.Selection(
        method, rows=len(labels), classes=data.classes, clean=clean if method.privileged else None
    )
    accuracy = train(data, labels, criterion, seed)
    found = criterion.noise_ratio if method.leaves_out else float("nan")
    return {
        "method": text, "revision": method.revision, "rate": rate, "seed": seed,
        "accuracy": round(100 * accuracy, 2), "noise_ratio": None if found != found else round(found, 4),
    }  # fmt: skip


def train(data: Split, labels: Tensor, criterion: adaptivek.Selection, seed: int = 0) -> float:
    """Test accuracy at the last epoch."""
    torch.manual_seed(seed)
    model = network(data.classes).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=FASTEST, momentum=0.9, weight_decay=5e-4, nesterov=True)
    steps = len(labels) // BATCH
    last = EPOCHS * steps
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: min(1, at / last / 0.1) * (1 - at / last) + 2e-3)
    for epoch in range(EPOCHS):
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


def tell(lines: list[dict[str, object]]) -> None:
    print("| method | " + " | ".join("clean" if not rate else f"{rate:.0%} noise" for rate in RATES) + " |")
    print("|---" * (len(RATES) + 1) + "|")
    current = {(line["method"], line["rate"]): line for line in lines if line["revision"] == _revision(line)}
    for method in dict.fromkeys(method for method, _ in current):
        cells = [f"{current[method, rate]['accuracy']:.1f}" if (method, rate) in current else "-" for rate in RATES]
        print(f"| `{method}` | {' | '.join(cells)} |")


def _revision(line: dict[str, object]) -> int:
    return build(str(line["method"])).revision


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", default=os.environ.get("ADAPTIVEK_DATA"), help="or ADAPTIVEK_DATA")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--out", type=Path, default=Path("results/beyond/hard_images.jsonl"))
    parser.add_argument("--only-table", action="store_true")
    given = parser.parse_args()
    lines = read_lines(given.out)
    if not given.only_table:
        torch.set_num_threads(1)
        data = some(load("cifar10", root=given.data_root))
        done = {(line["method"], line["revision"], line["rate"]) for line in lines}
        for rate in RATES:
            for text in given.methods:
                if (text, build(text).revision, rate) not in done:
                    lines.append(run(data, text, rate))
                    with given.out.open("a") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
                    print(lines[-1], flush=True)
    tell(lines)


if __name__ == "__main__":
    main()
