"""The runs of benchmarks/two_stages.py: cross-training by the library's audit, then a fresh network."""

from __future__ import annotations

import argparse
import dataclasses
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from real_settings import NETWORKS, OWN, Job, Setting
from real_train import Loop, accuracies, load, make_criterion, make_network, observed, predict
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import adaptivek
from adaptivek import AuditResult, Selection
from adaptivek.experiments.data import load as load_images
from adaptivek.experiments.session import Session
from adaptivek.experiments.spec import RECIPES, RunSpec
from adaptivek.methods import default
from adaptivek.networks import make_model
from adaptivek.support.device import find_device
from adaptivek.support.streams import stream

#: how each network is cross-trained; the audit's own plans for such data, and the recipe of a pre-trained one
PLANS: dict[str, dict[str, Any]] = {
    "text-bag": {"epochs": 10, "batch_size": 64, "learning_rate": 7e-4},
    "perceptron": {"epochs": 20, "batch_size": 32, "learning_rate": 1e-3},
    "encoder": {
        "epochs": 3, "batch_size": 32, "learning_rate": 5e-5, "schedule": "linear", "weight_decay": 0.01,
    },
    "cifar10n": {
        "epochs": 40, "batch_size": 256, "learning_rate": 0.1, "optimizer": "sgd", "weight_decay": 5e-4,
        "augment": True,
    },
}  # fmt: skip
SECOND = 1_000  #: added to the seed of the weights of each further cross-training


class Cell(ABC):
    """One setting and seed: labels, and how to train on them."""

    x: Tensor
    labels: Tensor  #: as they are observed
    gold: Tensor  #: for the Oracle and for measuring
    classes: int

    def __init__(self, name: str, seed: int, given: argparse.Namespace) -> None:
        self.seed, self.given, self.device = seed, given, find_device(given.device)
        self.plan = dict(PLANS[name.split("/")[0]])
        if given.audit_epochs:
            self.plan["epochs"] = given.audit_epochs

    @property
    def noise(self) -> float:
        return float((self.labels != self.gold).float().mean())

    @abstractmethod
    def network(self, seed: int) -> nn.Module:
        """A fresh one."""

    @abstractmethod
    def train(self, way: str, audit: AuditResult | None) -> dict[str, Any]:
        """Test accuracy in per cent of a fresh network, at the last epoch."""

    def audit(self, earlier: AuditResult | None) -> AuditResult:
        """Cross-train, from the labels or from an earlier audit."""
        seed = self.seed + (0 if earlier is None else SECOND)
        return adaptivek.audit(
            TensorDataset(self.x, self.labels), None, self.network(seed),
            start=earlier, device=str(self.device), seed=self.seed, **self.plan,
        )  # fmt: skip

    def held_out(self, audit: AuditResult) -> float:
        """Per cent of the rows of which the network that has not seen them knows the trusted label."""
        return round(100 * float((audit.predictions.argmax(1) == self.gold.numpy()).mean()), 2)


class Real(Cell):
    """A network and data set of benchmarks/real.py."""

    def __init__(self, name: str, seed: int, given: argparse.Namespace) -> None:
        super().__init__(name, seed, given)
        network, source, *rate = name.split("/")
        self.recipe = NETWORKS[network]
        noise = ("symmetric", float(rate[0])) if rate else (OWN, 0.0)
        self.setting = Setting(network, source, *noise, given.epochs or self.recipe.epochs[0])
        data = load(given.folder / f"{network}-{source}.npz")
        self.job, self.classes = Job(self.setting, "vanilla", seed), data.classes
        some = slice(given.rows)
        self.x, self.labels, self.gold = data.x[some], observed(self.job, data)[some], data.gold[some]
        self.data = data._replace(x_test=data.x_test[some], y_test=data.y_test[some])

    def network(self, seed: int) -> nn.Module:
        return make_network(self.setting.network, self.data, self.given.folder, seed)

    def train(self, way: str, audit: AuditResult | None) -> dict[str, Any]:
        labels, rows = self.labels, torch.arange(len(self.labels))
        criterion = make_criterion("vanilla", labels == self.gold, self.classes, 0.0, 1)
        if way in ("default", "oracle"):
            method = {"default": default(False), "oracle": "oracle"}[way]
            criterion = make_criterion(method, labels == self.gold, self.classes, self.noise, 1)
        elif way == "left-out":
            rows = torch.from_numpy(np.flatnonzero(~audit.is_issue))
            criterion = make_criterion("vanilla", labels[rows] == 0, self.classes, 0.0, 1)
        elif way == "suggested":
            labels = torch.from_numpy(audit.suggested_label)
        elif way == "targets":
            labels = torch.from_numpy(audit.targets)
        elif way in ("two-stages", "two-rounds"):
            criterion = Selection(start=audit, cuda_graph=False)
        elif way == "two-rounds-agreement":
            criterion = Selection("label-agreement", start=audit, cuda_graph=False)
        return self._fresh(criterion, labels[rows], rows)

    def _fresh(self, criterion: Selection, labels: Tensor, rows: Tensor) -> dict[str, Any]:
        recipe, epochs, data, place = self.recipe, self.setting.epochs, self.data, self.device
        model, steps = self.network(self.seed).to(place), len(rows) // recipe.batch_size
        loop = Loop(model, criterion.to(place), self.x[rows].to(place), labels.to(place), recipe, graph=True)
        torch.manual_seed(self.seed)  # of dropout
        for epoch in range(epochs):
            criterion.start_epoch(epoch)
            order = stream(self.seed, "order", epoch).permutation(len(rows))[: steps * recipe.batch_size]
            at = range(epoch * steps, (epoch + 1) * steps)
            rates = [recipe.learning_rate_at(step, steps * epochs, epoch) for step in at]
            loop.epoch(torch.from_numpy(order).view(steps, -1), torch.tensor(rates))
        key = int(self.setting.metric == "balanced")
        x_test, y_test = data.x_test.to(place), data.y_test.to(place)
        plain = accuracies(predict(model, x_test, recipe), y_test, self.classes)[key]
        with loop.average.in_use():
            averaged = accuracies(predict(model, x_test, recipe), y_test, self.classes)[key]
        return {"accuracy": round(100 * plain, 2), "averaged": round(100 * averaged, 2)}


class Images(Cell):
    """CIFAR-10 with the labels of people, and the network and recipe that `adaptivek bench` has for it."""

    def __init__(self, name: str, seed: int, given: argparse.Namespace) -> None:
        super().__init__(name, seed, given)
        data = load_images("cifar10", root=given.data_root)
        data = data._replace(x_test=data.x_test[: given.rows], y_test=data.y_test[: given.rows])
        self.gold, self.data, self.classes = data.y[: given.rows], data, 10
        self.labels = human_labels(given.labels, name.split("/")[1])[: given.rows]
        # on the device, where both stages take batches from
        self.x = data.x[: given.rows].to(self.device, memory_format=torch.channels_last)
        self.recipe = dataclasses.replace(RECIPES["cifar10"], epochs=given.epochs or RECIPES["cifar10"].epochs)

    def network(self, seed: int) -> nn.Module:
        return make_model(self.recipe.network, 3, 10, seed).to(memory_format=torch.channels_last)

    def train(self, way: str, audit: AuditResult | None) -> dict[str, Any]:
        labels, rows, method, start = self.labels, torch.arange(len(self.labels)), "vanilla", None
        if way == "oracle":
            rows = rows[self.labels == self.gold]
        elif way == "left-out":
            rows = torch.from_numpy(np.flatnonzero(~audit.is_issue))
        elif way == "suggested":
            labels = torch.from_numpy(audit.suggested_label)
        elif way == "default":
            method = default(False)
        elif way in ("two-stages", "two-rounds"):
            method, start = default(True), torch.from_numpy(audit.predictions)
        elif way != "plain":
            raise ValueError(f"two_stages: ways must be others than {way} for cells of cifar10n")
        split = self.data._replace(x=self.x[rows.to(self.x.device)], y=labels[rows])
        *_, last = Session(
            RunSpec("cifar10", method, seed=self.seed, recipe=self.recipe), split, self.device, start=start
        )
        return {"accuracy": round(100 * last.test_accuracy, 2)}


def human_labels(path: Path, column: str) -> Tensor:
    """A column of a Parquet file, or of arrays in an .npz file."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return torch.from_numpy(file[column].astype(np.int64))
    import pyarrow.parquet as parquet

    return torch.tensor(parquet.read_table(path).column(column).to_pylist())


def make_cell(name: str, seed: int, given: argparse.Namespace) -> Cell:
    kind = Images if name.startswith("cifar10n/") else Real
    return kind(name, seed, given)
