"""CIFAR-10 with the labels that people gave it: strong views in several variants, raced.

    python benchmarks/strong_views.py run --labels cifar10n/train.parquet --variants memory posterior --seeds 0 1 2
    python benchmarks/strong_views.py run --npz FOLDER --variants "memory:epochs=60,alpha=0.5"
    python benchmarks/strong_views.py table

A variant is a name, with other settings if need be. One line of JSON for each variant and seed: test accuracy at the
end, of the network and of the averaged one; seconds of training, and those that plain training by the recipe of cifar10
takes in the same process, from a few epochs of it; how many targets of the last epoch are the true class. Times mean
something where nothing else is at work. The table has beside them what benchmarks/human_labels.py measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from human_labels import shown
from measurements import read_lines
from torch import Tensor, nn

from adaptivek import Selection, StrongViews
from adaptivek.experiments.data import Split, load, sources
from adaptivek.experiments.spec import RECIPES
from adaptivek.networks import make_model
from adaptivek.networks.views import PAD, augment

RECIPE = RECIPES["cifar10"]
RESULTS = Path("results/beyond")
Line = dict[str, Any]
TIMED = 2  # epochs of plain training, after one that is not


@dataclass(frozen=True)
class Variant:
    """What is trained, and how. An epoch of views costs four thirds of a plain one: a forward pass more."""

    method: str = "label-memory"
    labels: str = "observed"  #: or "true", which no method knows: what could be reached
    epochs: int = 80
    schedule: str = "linear"  #: of the learning rate; "step" is the recipe's, stretched
    rate: float = RECIPE.learning_rate
    decay: float = 0.99
    alpha: float = 1.0
    changes: int = 2


VARIANTS = {
    "plain": Variant("vanilla", epochs=RECIPE.epochs, schedule="step", decay=0.0),  # without views
    "truth": Variant("vanilla", labels="true"),
    "noisy": Variant("vanilla"),
    "memory": Variant(),
    "memory-unmixed": Variant(alpha=0.0),
    "posterior": Variant("label-posterior"),
    "label-agreement": Variant("label-agreement"),
    "sat": Variant("sat"),
}
#: variants that were measured, did not win, and are no more
GONE = {
    "memory-own": "memory, batch statistics of weak views",
    "posterior-own": "posterior, batch statistics of weak views",
    "posterior-undiscounted": "posterior, predictions count as much after many visits",
    "posterior-undiscounted-unpulled": "the same without the pull",
    "posterior-cycles": "posterior, the learning rate falls twice",
    "label-agreement-sharp": "label-agreement, targets squared",
    "memory-balanced": "memory, classes predicted as often as observed",
    "belief": "Bayes' rule over averaged predictions",
}


def variant(text: str) -> Variant:
    """By name, with other settings behind a colon; those of the method come last: memory:epochs=60,method=selc."""
    name, _, others = text.partition(":")
    settings: dict[str, Any] = {}
    others, _, method = others.partition("method=")
    for setting in filter(None, others.split(",")):
        key, value = setting.split("=")
        settings[key] = type(getattr(VARIANTS[name], key))(value)
    return dataclasses.replace(VARIANTS[name], **settings | ({"method": method} if method else {}))


def from_npz(folder: Path) -> tuple[Split, dict[str, np.ndarray]]:
    """Images as PNG in c1, c2 (training) and c3 (test), labels in cl; decoded once, and kept beside them."""
    kept, labels = folder / "cifar.npz", dict(np.load(folder / "cl.npz"))
    if not kept.exists():
        train = np.concatenate([decoded(folder / "c1.npz"), decoded(folder / "c2.npz")])
        own = folder / f"cifar{os.getpid()}.npz"
        np.savez(own, x=train, xt=decoded(folder / "c3.npz"), **labels)
        own.replace(kept)  # whole or not at all: others may be reading
    pixels = np.load(kept)
    arrays = (pixels["x"], labels["y"], pixels["xt"], labels["yt"])
    x, y, x_test, y_test = (torch.from_numpy(np.asarray(values)) for values in arrays)
    split = Split(x, y.long(), x_test, y_test.long(), classes=10)
    return sources._ready(split, sources.BENCHMARK["cifar10"], 0), labels


def decoded(path: Path) -> np.ndarray:
    from PIL import Image

    packed = np.load(path)
    data, ends = packed["data"].tobytes(), packed["ends"]
    starts = [0, *ends[:-1]]
    images = [np.asarray(Image.open(io.BytesIO(data[a:b]))) for a, b in zip(starts, ends, strict=True)]
    return np.stack(images).transpose(0, 3, 1, 2)


def read(given: argparse.Namespace) -> tuple[Split, Tensor]:
    """The data on the device, and the labels that people gave."""
    if given.npz:
        data, labels = from_npz(given.npz)
        human = torch.from_numpy(labels[given.column].astype(np.int64))
    else:
        import pyarrow.parquet as parquet

        data = load("cifar10")
        human = torch.tensor(parquet.read_table(given.labels).column(given.column).to_pylist())
    rows = given.rows or len(data.y)
    data = data._replace(x=data.x[:rows], y=data.y[:rows], x_test=data.x_test[:rows], y_test=data.y_test[:rows])
    return data.to(given.device), human[:rows].to(given.device)


class Trainer:
    """A variant with a seed. Only training is timed."""

    def __init__(self, chosen: Variant, views: bool, seed: int, data: Split, labels: Tensor) -> None:
        torch.manual_seed(seed)
        self.chosen, self.data, self.device = chosen, data, data.x.device
        self.labels = labels if chosen.labels == "observed" else data.y
        self.model = make_model(RECIPE.network, data.inputs, data.classes, seed).to(self.device)
        self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.criterion = Selection(chosen.method, warmup=0, rows=len(labels), classes=data.classes).to(self.device)
        self.views = None
        if views:
            settings = {"decay": chosen.decay, "alpha": chosen.alpha, "changes": chosen.changes}
            self.views = StrongViews(self.model, self.criterion, **settings)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), chosen.rate, momentum=RECIPE.momentum, weight_decay=RECIPE.weight_decay
        )
        self.batch = min(RECIPE.batch_size, len(labels))
        self.steps, self.done, self.epoch, self.seconds = len(labels) // self.batch, 0, 0, 0.0
        self.right = torch.zeros((), device=self.device)  # targets of the epoch that are the true class

    def learning_rate(self, step: int) -> float:
        """Of a step from the beginning: a tenth of the way up, then down to nothing; or the recipe's steps."""
        chosen = self.chosen
        done = step / (chosen.epochs * self.steps)
        if chosen.schedule == "step":
            return chosen.rate * RECIPE.decay_factor ** int(done * RECIPE.epochs / RECIPE.decay_every)
        return chosen.rate * min((done + 0.001) / 0.1, (1 - done) / 0.9)

    def train(self) -> None:
        """An epoch."""
        self.wait()
        started = time.perf_counter()
        self.model.train()
        self.right.zero_()
        for rows in torch.randperm(len(self.labels), device=self.device).split(self.batch)[: self.steps]:
            self.step(rows)
        self.epoch += 1
        self.wait()
        self.seconds += time.perf_counter() - started

    def step(self, rows: Tensor) -> None:
        number = len(rows)
        moves = torch.randint(0, 2 * PAD + 1, (number, 3), device=self.device)
        moves[:, 2] = torch.randint(0, 2, (number,), device=self.device)
        x, y = augment(self.data.x[rows], moves), self.labels[rows]
        x = x.contiguous(memory_format=torch.channels_last)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(self.done)
        self.done += 1
        self.optimizer.zero_grad()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            loss = F.cross_entropy(self.model(x), y) if self.views is None else self.views(x, y, rows)
        loss.backward()
        self.optimizer.step()
        if self.views is not None:
            self.views.update()
            assert self.views.targets is not None
            self.right += (self.views.targets.argmax(-1) == self.data.y[rows]).sum()

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    @torch.no_grad()
    def accuracy(self, network: nn.Module) -> float:
        network.eval()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            parts = [network(x.contiguous(memory_format=torch.channels_last)) for x in self.data.x_test.split(2_000)]
        return float((torch.cat(parts).argmax(-1) == self.data.y_test).float().mean())

    def tested(self) -> dict[str, float]:
        found = {"epoch": self.epoch, "network": self.accuracy(self.model)}
        if self.views is not None:
            right = float(self.right) / (self.steps * self.batch)
            found |= {"average": self.accuracy(self.views.average), "targets": round(right, 4)}
        return found


def run(name: str, seed: int, data: Split, labels: Tensor, epochs: int | None) -> Iterator[dict[str, Any]]:
    """Train; what is found every five epochs, and at the end the line."""
    chosen = variant(name)
    chosen = dataclasses.replace(chosen, epochs=epochs or chosen.epochs)
    trainer, trace = Trainer(chosen, name.partition(":")[0] != "plain", seed, data, labels), list[dict[str, float]]()
    while trainer.epoch < chosen.epochs:
        trainer.train()
        if trainer.epoch % 5 == 0 or trainer.epoch == chosen.epochs:
            trace.append(trainer.tested())
            yield {"variant": name, "seed": seed} | trace[-1]
    found = {"variant": name, "seed": seed, **dataclasses.asdict(chosen), **trace[-1]}
    if trainer.views is not None:
        found["noise_found"] = round(trainer.criterion.noise_ratio, 4)
    yield found | {"seconds": round(trainer.seconds, 1), "trace": trace}


def plain_seconds(data: Split, labels: Tensor) -> float:
    """Of plain training by the recipe, from a few of its epochs."""
    trainer = Trainer(VARIANTS["plain"], False, 0, data, labels)
    trainer.train()  # what libraries set up on first use
    trainer.seconds = 0.0
    for _ in range(TIMED):
        trainer.train()
    return trainer.seconds / TIMED * RECIPE.epochs


def run_all(given: argparse.Namespace) -> None:
    """One seed of every variant after the other; a line is written as soon as it is known."""
    for name in given.variants:
        variant(name)  # before anything takes long
    torch.backends.cudnn.benchmark = True
    done = {(line["column"], line["variant"], line["epochs"], line["seed"]) for line in read_lines(given.out)}
    data, labels = read(given)
    plain = plain_seconds(data, labels)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in given.seeds:
        for name in given.variants:
            if (given.column, name, given.epochs or variant(name).epochs, seed) in done:
                continue
            for found in run(name, seed, data, labels, given.epochs):
                print(json.dumps({key: value for key, value in found.items() if key != "trace"}), flush=True)
            line = {"column": given.column, **found, "plain_seconds": round(plain, 1)}
            line |= {"times_plain": round(found["seconds"] / plain, 2)}
            with given.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{name}: {line['seconds']} s, {line['times_plain']} times plain training", flush=True)


def table(lines: Sequence[Line], without: Sequence[Line]) -> str:
    """A row for each way to train on the worse labels: first those ``without`` views, then the variants."""
    found: dict[tuple[str, int], list[Line]] = {}
    for line in worse(shown(without)):
        found.setdefault((f"{line['method']}, no views", RECIPE.epochs), []).append(
            line | {"network": line["accuracy"]}
        )
    for line in worse(lines):
        found.setdefault((GONE.get(line["variant"], line["variant"]), line["epochs"]), []).append(line)
    columns = {"network": 100, "average": 100, "targets": 100}
    columns |= {"times_plain": 1} if any("times_plain" in line for of in found.values() for line in of) else {}
    text = [["variant", "epochs", "seeds", *columns], ["---"] * (3 + len(columns))]
    for (name, epochs), of in found.items():
        text.append([name, str(epochs), str(len(of)), *(mean(of, key, unit) for key, unit in columns.items())])
    return "\n".join(f"| {' | '.join(row)} |" for row in text)


def course(lines: Sequence[Line]) -> str:
    """Network and averaged network of each variant, epoch by epoch."""
    shown = [line for line in worse(lines) if line["variant"] in VARIANTS]
    epochs = sorted({part["epoch"] for line in shown for part in line["trace"] if part["epoch"] % 10 == 0})
    text = [["variant", *map(str, epochs)], ["---"] * (1 + len(epochs))]
    for line in shown:
        trace = {part["epoch"]: part for part in line["trace"]}
        for key in ("network", "average"):
            cells = [mean([trace[epoch]], key, 100) if epoch in trace else "-" for epoch in epochs]
            text.append([f"{line['variant']}, {key}", *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in text)


def worse(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if line["column"] == "worse_label"]


def mean(lines: Sequence[Line], key: str, unit: int) -> str:
    values = [unit * line[key] for line in lines if key in line]
    return f"{statistics.mean(values):.1f}" if values else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("run", help="do what is not done yet")
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument("--npz", type=Path, help="folder with c1.npz, c2.npz, c3.npz and cl.npz")
    source.add_argument("--labels", type=Path, help="Parquet file with the human labels; the images as cifar10")
    command.add_argument("--column", default="worse_label", choices=["worse_label", "aggre_label"])
    command.add_argument("--variants", nargs="+", default=["posterior"], help=", ".join(VARIANTS))
    command.add_argument("--seeds", type=int, nargs="+", default=[0])
    command.add_argument("--epochs", type=int, help="in place of the variant's own")
    command.add_argument("--rows", type=int, help="the first so many rows alone, to try it out")
    command.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    command.add_argument("--out", type=Path, default=RESULTS / "strong_views.jsonl")
    commands.add_parser("table", help="print the tables")
    given = parser.parse_args()
    if given.command == "run":
        run_all(given)
    else:
        lines = read_lines(RESULTS / "strong_views.jsonl")
        print(table(lines, read_lines(RESULTS / "human_labels.jsonl")), course(lines), sep="\n\n")


if __name__ == "__main__":
    main()
