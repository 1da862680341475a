"""CIFAR-10 with the labels that people gave it: strong views in several variants, raced.

    python benchmarks/strong_views.py --npz FOLDER --variants memory posterior --seeds 0 1 2
    python benchmarks/strong_views.py --labels cifar10n/train.parquet --variants "memory:epochs=60,alpha=0.5"

A variant is a name, with other settings if need be. One line of JSON for each variant and seed: test accuracy at the
end, of the network and of the averaged one; seconds of training, and those that plain training by the recipe of cifar10
takes in the same process, from a few epochs of it; how many targets of the last epoch are the true class.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from measurements import read_lines
from torch import Tensor, nn

from adaptivek import Batch, Decision, Method, Selection, StrongViews, Task, register
from adaptivek.experiments.data import Split, load, sources
from adaptivek.experiments.spec import RECIPES
from adaptivek.method import observed
from adaptivek.methods.confusion import count_confusion, no_counts, odds_and_trust
from adaptivek.networks import make_model
from adaptivek.networks.views import PAD, augment

RECIPE = RECIPES["cifar10"]
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
    consistency: float = 0.0
    balance: float = 0.0
    rounds: int = 1  #: of so many epochs together: each begins with fresh weights, and with what is remembered


VARIANTS = {
    "plain": Variant("vanilla", epochs=RECIPE.epochs, schedule="step", decay=0.0),  # without views
    "truth": Variant("vanilla", labels="true"),
    "noisy": Variant("vanilla"),
    "memory": Variant(),
    "memory-consistent": Variant(consistency=1.0),
    "memory-balanced": Variant(balance=1.0),
    "memory-unmixed": Variant(alpha=0.0),
    "posterior": Variant("label-posterior"),
    "posterior-slow": Variant("label-posterior:beta=0.9,strength=0", decay=0.997),
    "belief": Variant("belief"),
    "sieve": Variant("sieve", consistency=0.5),
    "memory-twice": Variant(rounds=2),
    "sat": Variant("sat"),
}


class Beliefs(NamedTuple):
    predictions: Tensor  #: (rows, classes) moving average of the judge's predictions
    visits: Tensor  #: (rows,)
    confusion: Tensor  #: see `adaptivek.methods.confusion`
    horizon: Tensor


@dataclass(frozen=True)
class Belief(Method[Beliefs]):
    """Bayes' rule alone: remembered predictions times how likely each class gives the label, sharpened."""

    beta: float = 0.8
    power: float = 2.0  #: by which what follows is sharpened
    faith: float = 0.5  #: in the confusion counts; predictions that were learned from noisy labels have them in part
    warm: float = 5.0  #: visits over which the label's share falls in half

    name: ClassVar[str] = "belief"
    summary: ClassVar[str] = "remembered predictions and confusion counts"
    paper: ClassVar[str] = "this benchmark"
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("predictions", "visits")

    def init(self, task: Task) -> Beliefs:
        rows = torch.tensor(float(task.rows or 1))
        return Beliefs(task.per_row_and_class(0.0), task.per_row(0.0), no_counts(task.classes or 0), rows)

    def look(self, state: Beliefs, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """What is remembered with today's prediction, what follows from it and the label, and what changes."""
        assert batch.logits is not None
        assert batch.labels is not None
        p = batch.logits.detach().softmax(-1)
        far = (1 / (state.visits + 1)).clamp(min=1 - self.beta).unsqueeze(-1)
        moved = state.predictions + far * (p - state.predictions)
        odds, _ = odds_and_trust(state.confusion, batch.labels)
        belief = (moved.clamp(1e-6) * odds**self.faith) ** self.power
        counts = count_confusion(state.confusion, state.horizon, moved, batch)
        changed = {"predictions": moved, "visits": state.visits + 1, "confusion": counts}
        return moved, belief / belief.sum(-1, keepdim=True), changed

    def step(self, state: Beliefs, batch: Batch) -> Decision:
        _, belief, changed = self.look(state, batch)
        label = observed(batch)
        share = 0.5 ** (state.visits / self.warm).unsqueeze(-1)
        targets = share * label + (1 - share) * belief
        return Decision(batch.valid, changed, targets=targets, confidence=(belief * label).sum(-1).clamp(0, 1))


@dataclass(frozen=True)
class Sieve(Belief):
    """Labels that are believed stay; of others what is believed surely is learned, and the rest is left out."""

    sure: float = 0.8

    name: ClassVar[str] = "sieve"

    def step(self, state: Beliefs, batch: Batch) -> Decision:
        _, belief, changed = self.look(state, batch)
        label = observed(batch)
        agrees = (belief * label).sum(-1) >= 0.5
        early = state.visits < self.warm
        weights = agrees | early | (belief.amax(-1) >= self.sure)
        targets = torch.where((agrees | early).unsqueeze(-1), label, belief)
        return Decision(weights & batch.valid, changed, targets=targets, confidence=agrees.to(label.dtype))


register(Belief)
register(Sieve)


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
        self.chosen, self.data, self.seed, self.device = chosen, data, seed, data.x.device
        self.labels = labels if chosen.labels == "observed" else data.y
        self.model = make_model(RECIPE.network, data.inputs, data.classes, seed).to(self.device)
        self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.criterion = Selection(chosen.method, warmup=0, rows=len(labels), classes=data.classes).to(self.device)
        self.views = None
        if views:
            settings = {name: getattr(chosen, name) for name in ("decay", "alpha", "changes", "consistency", "balance")}
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
        done = step / (chosen.epochs * self.steps) * chosen.rounds % 1
        if chosen.schedule == "step":
            return chosen.rate * RECIPE.decay_factor ** int(done * RECIPE.epochs / RECIPE.decay_every)
        return chosen.rate * min((done + 0.001) / 0.1, (1 - done) / 0.9)

    def train(self) -> None:
        """An epoch."""
        self.wait()
        started = time.perf_counter()
        if self.views is not None and self.epoch and self.epoch * self.chosen.rounds % self.chosen.epochs == 0:
            fresh = make_model(RECIPE.network, self.data.inputs, self.data.classes, self.seed + self.epoch)
            self.model.load_state_dict(fresh.state_dict())
            self.optimizer.state.clear()
            self.views.restart()
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--npz", type=Path, help="folder with c1.npz, c2.npz, c3.npz and cl.npz")
    source.add_argument("--labels", type=Path, help="Parquet file with the human labels; the images as cifar10")
    parser.add_argument("--column", default="worse_label", choices=["worse_label", "aggre_label"])
    parser.add_argument("--variants", nargs="+", default=["memory"], help=", ".join(VARIANTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, help="in place of the variant's own")
    parser.add_argument("--rows", type=int, help="the first so many rows alone, to try it out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("results/beyond/strong_views.jsonl"))
    given = parser.parse_args()
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


if __name__ == "__main__":
    main()
