"""One run of benchmarks/real.py: on a GPU a whole training step is one CUDA graph."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from real_encoder import Encoder
from real_settings import NETWORKS, OWN, WARMUP, Job, Recipe, version
from torch import Tensor, nn

import adaptivek
from adaptivek.methods import build
from adaptivek.networks import make_model
from adaptivek.noise import NOISES, corrupt
from adaptivek.support.device import find_device
from adaptivek.support.streams import stream

DECAY = 0.99  # of the moving average of the weights, the same for every method
HIDDEN = 128  # units of the perceptron
EAGER_STEPS = 3  # before a graph is recorded, for what libraries set up on first use
TEST_ROWS = 512


class Data(NamedTuple):
    """What `prepare` has made for one network of one data set."""

    x: Tensor
    x_test: Tensor
    labels: Tensor | None  #: observed, where the data has noise of its own
    gold: Tensor  #: trusted
    y_test: Tensor  #: trusted
    classes: int
    vocabulary: int


@functools.lru_cache(maxsize=2)
def load(path: Path) -> Data:
    with np.load(path) as file:
        arrays = dict(file)
    x, x_test = (_inputs(arrays, key) for key in ("x", "x_test"))
    labels, gold, y_test = (
        torch.from_numpy(arrays[key].astype(np.int64)) if key in arrays else None
        for key in ("labels", "gold", "y_test")
    )
    assert gold is not None
    assert y_test is not None
    return Data(x, x_test, labels, gold, y_test, int(arrays["classes"]), int(arrays.get("vocabulary", 0)))


def _inputs(arrays: dict[str, np.ndarray], key: str) -> Tensor:
    if key in arrays:
        kept = arrays[key]
        return torch.from_numpy(kept.astype(np.float32 if kept.dtype.kind == "f" else np.int64))
    table = np.zeros(arrays[f"{key}_shape"], np.float32)
    table[arrays[f"{key}_rows"], arrays[f"{key}_columns"]] = arrays[f"{key}_values"]
    return torch.from_numpy(table)


@functools.lru_cache(maxsize=1)
def encoder_weights(path: Path) -> tuple[dict[str, Tensor], int]:
    with np.load(path) as file:
        weights = {name: torch.from_numpy(file[name]) for name in file if name != "heads"}
        return weights, int(file["heads"])


def make_network(name: str, data: Data, folder: Path, seed: int) -> nn.Module:
    """The seed decides all that is new in it."""
    if name == "text-bag":
        return make_model("text-bag", data.vocabulary, data.classes, seed)
    torch.manual_seed(seed)
    if name == "encoder":
        weights, heads = encoder_weights(folder / "encoder.npz")
        return Encoder(weights, heads, data.classes)
    return nn.Sequential(nn.Linear(data.x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, data.classes))


def observed(job: Job, data: Data) -> Tensor:
    """The labels that a method sees."""
    if job.setting.noise == OWN:
        assert data.labels is not None
        return data.labels
    noise = NOISES[job.setting.noise](rate=job.setting.rate)
    return corrupt(data.gold, noise, classes=data.classes, seed=job.seed)[0]


def train(job: Job, folder: Path, device: str = "auto", graph: bool = True) -> dict[str, Any]:
    """The line of a run: accuracies in per cent after each epoch, of the weights and of their average."""
    began, place = time.perf_counter(), find_device(device)
    setting, data = job.setting, load(folder / f"{job.setting.network}-{job.setting.data}.npz")
    recipe, labels = NETWORKS[setting.network], observed(job, data)
    clean = labels == data.gold
    noisy = 1 - float(clean.float().mean())
    model = make_network(setting.network, data, folder, job.seed).to(place)
    steps = len(labels) // recipe.batch_size
    criterion = make_criterion(job.method, clean, data.classes, noisy, steps * setting.epochs).to(place)
    loop = Loop(model, criterion, data.x.to(place), labels.to(place), recipe, graph)
    x_test, y_test = data.x_test.to(place), data.y_test.to(place)
    found: dict[str, list[float]] = {"accuracy": [], "balanced": [], "averaged_accuracy": [], "averaged_balanced": []}
    torch.manual_seed(job.seed)  # of dropout
    for epoch in range(setting.epochs):
        criterion.start_epoch(epoch)
        order = stream(job.seed, "order", epoch).permutation(len(labels))[: steps * recipe.batch_size]
        at = range(epoch * steps, (epoch + 1) * steps)
        rates = [recipe.learning_rate_at(step, steps * setting.epochs, epoch) for step in at]
        loop.epoch(torch.from_numpy(order).view(steps, -1), torch.tensor(rates))
        plain = accuracies(predict(model, x_test, recipe), y_test, data.classes)
        with loop.average.in_use():
            averaged = accuracies(predict(model, x_test, recipe), y_test, data.classes)
        for key, value in zip(found, (*plain, *averaged), strict=True):
            found[key].append(round(100 * value, 2))
    ratio = criterion.noise_ratio if criterion.method.leaves_out else math.nan
    return {
        **job.as_dict(), "version": version(job.method), **found,
        "noise_ratio": None if math.isnan(ratio) else round(ratio, 4),
        "true_noise_ratio": round(noisy, 4), "rows": len(labels), "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip


def make_criterion(text: str, clean: Tensor, classes: int, noisy: float, steps: int) -> adaptivek.Selection:
    """As a user would, with what the method needs to be told."""
    method = build(text, noisy)
    return adaptivek.Selection(
        method,
        warmup=round(WARMUP * steps) if method.wants_warmup else 0,
        rows=len(clean),
        classes=classes,
        clean=clean if method.privileged else None,
        cuda_graph=False,  # it is part of a larger one
    )


class Loop:
    """Training steps in the same memory each time, as a recorded CUDA graph must have it."""

    def __init__(
        self,
        model: nn.Module,
        criterion: adaptivek.Selection,
        x: Tensor,
        labels: Tensor,
        recipe: Recipe,
        graph: bool,
    ) -> None:
        self.model, self.criterion, self.x, self.labels, self.recipe = model, criterion, x, labels, recipe
        device = x.device
        self.cuda = device.type == "cuda"
        self._record = graph and self.cuda
        self._graph: torch.cuda.CUDAGraph | None = None
        steps = len(x) // recipe.batch_size
        self.order = torch.zeros(steps, recipe.batch_size, dtype=torch.int64, device=device)
        self.rates = torch.zeros(steps, device=device)
        self.now = torch.zeros(1, dtype=torch.int64, device=device)
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=torch.zeros((), device=device),  # a tensor: a recorded step reads it anew
            weight_decay=recipe.weight_decay,
            fused=True,
            capturable=self.cuda,
        )
        self.rate = self.optimizer.param_groups[0]["lr"]
        self.average = adaptivek.EMA(model.parameters(), DECAY)
        self.steps = 0

    def epoch(self, order: Tensor, rates: Tensor) -> None:
        """Train on batches of these rows, (steps, batch size), at these learning rates."""
        self.model.train()
        self.order.copy_(order)
        self.rates.copy_(rates)
        self.now.zero_()
        for _ in range(len(order)):
            self._advance()
            self.steps += 1

    def _advance(self) -> None:
        if self._graph is not None:
            self._graph.replay()
        elif not self._record:
            self._step()
        elif self.steps < EAGER_STEPS:
            _aside(self._step)
        else:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._step()
            self._graph.replay()  # recording has not run it

    def _step(self) -> None:
        rows = self.order.index_select(0, self.now)[0]
        self.rate.copy_(self.rates.index_select(0, self.now)[0])
        self.optimizer.zero_grad()
        with precision(self.recipe, self.x.device):
            logits = self.model(self.x[rows])
        self.criterion(logits.float(), self.labels[rows], rows).backward()
        self.optimizer.step()
        self.average.update()
        self.now += 1


def precision(recipe: Recipe, device: torch.device) -> torch.autocast:
    """Of forward passes."""
    return torch.autocast(device.type, torch.bfloat16, enabled=recipe.bfloat16)


def _aside(function: Callable[[], None]) -> None:
    """On a stream of its own, as has to be before a graph is recorded."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function()
    torch.cuda.current_stream().wait_stream(side)


@torch.no_grad()
def predict(model: nn.Module, x: Tensor, recipe: Recipe) -> Tensor:
    model.eval()
    with precision(recipe, x.device):
        return torch.cat([model(part).argmax(1) for part in x.split(TEST_ROWS)])


def accuracies(predicted: Tensor, y: Tensor, classes: int) -> tuple[float, float]:
    """Accuracy, and balanced accuracy: the mean over the classes that occur."""
    hit = predicted == y
    number = torch.bincount(y, minlength=classes)
    right = torch.bincount(y, weights=hit.double(), minlength=classes)
    return float(hit.double().mean()), float((right / number)[number > 0].mean())
