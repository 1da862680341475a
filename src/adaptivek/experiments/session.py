"""The plain training loop: one run, one step after the other. Iterating a `Session` gives a record per epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..criterion import Selection
from ..method import Method, outputs
from ..networks import without_head
from ..networks.dropout import dropout_layers, set_keys
from ..networks.views import augment, distort
from ..support.device import find_device
from ..support.threads import flops, suited, using
from ..training.ema import EMA
from ..training.networks import Networks
from .data import Split
from .prepare import Draws, draws, fresh_networks
from .prepare import Job as Job
from .prepare import prepare as prepare
from .records import Detail, EpochRecord, Reached, Steps, epoch_record, look_closer, measure, pace
from .spec import Recipe, RunSpec


class Session:
    """One run. Iterating it trains; each turn is an epoch and gives its record.

    Args:
        spec: what to run.
        data: the data set, if it is not one that `load` knows; its labels are taken as right.
        device: where; the GPU if there is one, unless told.
        root: folder of data sets, see `load`.
    """

    def __init__(
        self,
        spec: RunSpec,
        data: Split | None = None,
        device: str | torch.device = "auto",
        root: str | Path | None = None,
    ) -> None:
        self.device = find_device(device)
        self.job = prepare(spec, data, root)
        self.spec, self.manifest, self.steps_per_epoch = spec, self.job.manifest, self.job.steps_per_epoch
        self.data = self.job.data.to(self.device)
        self.labels, self._clean = self.job.labels.to(self.device), self.job.clean.to(self.device)
        self._rows, self._held = self.job.rows.to(self.device), self.job.held.to(self.device)
        self.epoch, self.reached = 0, Reached()
        self.details: list[Detail] = []
        recipe, method = spec.recipe, spec.make_method()
        fresh = fresh_networks(self.job)
        self.model = (fresh[0] if len(fresh) == 1 else Networks(fresh)).to(self.device)
        self.criterion = Selection(
            method,
            warmup=recipe.warmup_epochs * self.steps_per_epoch if method.wants_warmup else 0,
            rows=len(self.labels),
            classes=self.data.classes,
            clean=self._clean if method.privileged else None,
        ).to(self.device)
        self.optimizer = make_optimizer(recipe, self.model.parameters())
        self.average = EMA(self.model.parameters(), recipe.average) if recipe.average else None
        self._chosen: dict[str, Tensor] = {}  # weights of the epoch that counts, where rows are held out
        batch = self.data.x[: recipe.batch_size]
        self.threads = suited(flops(self.model, batch)) if self.device.type == "cpu" else 0  #: 0: they do not matter

    def __iter__(self) -> Iterator[EpochRecord]:
        while self.epoch < self.spec.recipe.epochs:
            with using(self.threads or torch.get_num_threads()):
                record = self._run_epoch()
            yield record

    def _run_epoch(self) -> EpochRecord:
        started = time.perf_counter()
        selecting = self.epoch * self.steps_per_epoch >= self.criterion.warmup
        drawn = Draws(*(part.to(self.device) for part in draws(self.job, len(dropout_layers(self.model)), self.epoch)))
        method = self.criterion.method
        self.criterion.start_epoch(self.epoch, self._full_pass() if method.full_pass else None)
        if self.epoch > 0 and method.epochs_since_restart(self.epoch) == 0:
            self._begin_anew()
        for group in self.optimizer.param_groups:
            group["lr"] = self.spec.recipe.learning_rate_at(method.epochs_since_restart(self.epoch))
        self.model.train()
        done = [self._step(*step, self.spec.reforward and selecting) for step in zip(*drawn, strict=True)]
        losses, weights, confidence, thresholds = (torch.stack(column) for column in zip(*done, strict=True))
        steps = Steps(losses, weights, confidence, self._clean[drawn.order], thresholds)
        measured = {name: float(value) for name, value in measure(steps).items()}  # waits for the device
        rate = pace(drawn.order, started)
        self.epoch += 1
        if self.epoch in self.spec.recipe.stages():
            self.details.append(look_closer(self.epoch, steps))
        accuracy, validation = self.evaluate(), self._validate()
        before, self.reached = self.reached, self.reached.after(accuracy, validation)
        if self.reached.validation > before.validation:
            self._chosen = self._weights()
        return epoch_record(self.epoch, selecting, self.reached, validation, self.job.noise, rate, measured)

    def _step(
        self, rows: Tensor, keys: Tensor, moves: Tensor, bends: Tensor, reforward: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x, y = self.data.x[self._rows[rows]], self.labels[rows]
        if self.spec.recipe.augment:
            x = augment(x, moves)
        set_keys(self.model, keys[0])
        method = self.criterion.method
        output = (
            self._output(x) if method.views == 1 else torch.stack([self._judged(x), self._output(distort(x, bends))])
        )
        loss = self.criterion(output, y, rows)
        losses = self.criterion.loss(output.detach() if outputs(method) == 1 else output[0].detach(), y)
        weights, confidence = recorded(method, self.criterion.weights), recorded(method, self.criterion.confidence)
        if reforward and bool((kept := weights > 0).any()):
            set_keys(self.model, keys[1])
            again = self.criterion.loss(self._output(x[kept]), y[kept])
            loss = (again * weights[kept]).sum() / weights.sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        if self.average is not None:
            self.average.update()
        threshold = self.criterion.method.loss_threshold(self.criterion.memory.state)
        return losses, weights, confidence, losses.new_tensor(math.nan) if threshold is None else threshold.clone()

    def _output(self, x: Tensor) -> Tensor:
        with autocast(self.spec.recipe, self.device):
            output: Tensor = self.model(x)
        return output

    @torch.no_grad()
    def _judged(self, x: Tensor) -> Tensor:
        """Logits of images that are not learned from, without dropout."""
        self.model.eval()
        output = self._output(x)
        self.model.train()
        return output

    def _begin_anew(self) -> None:
        """With the weights of the beginning, and an optimiser that knows nothing."""
        for module, fresh in zip(networks(self.model), fresh_networks(self.job), strict=True):
            module.load_state_dict(fresh.state_dict())
        self.optimizer = make_optimizer(self.spec.recipe, self.model.parameters())
        if self.average is not None:
            self.average.restart()

    @torch.no_grad()
    def _full_pass(self) -> Tensor:
        """Of all training rows, the losses on the labels given, or the features."""
        self.model.eval()
        if self.criterion.method.full_pass == "features":
            with without_head(self.model):
                return torch.cat([self._output(self.data.x[rows]) for rows in torch.split(self._rows, 2_000)])
        parts = zip(torch.split(self._rows, 2_000), torch.split(self.labels, 2_000), strict=True)
        return torch.cat([self.criterion.loss(self._output(self.data.x[rows]), y) for rows, y in parts])

    def evaluate(self) -> float:
        """Accuracy on the test set, of the averaged weights if the recipe has them averaged."""
        return self._accuracy(self.data.x_test, self.data.y_test)

    def _validate(self) -> float:
        """The same on the rows held out, with their noisy labels; NaN if there are none."""
        if not len(self._held):
            return math.nan
        return self._accuracy(self.data.x[self._held], self.job.held_labels.to(self.device))

    @torch.no_grad()
    def _accuracy(self, x_test: Tensor, y_test: Tensor) -> float:
        self.model.eval()
        parts = zip(torch.split(x_test, 2_000), torch.split(y_test, 2_000), strict=True)
        with self._averaged():
            hits = [(self._output(x).argmax(1) == y).sum() for x, y in parts]
        return float(torch.stack(hits).sum()) / len(y_test)

    def _averaged(self) -> AbstractContextManager[None]:
        return nullcontext() if self.average is None else self.average.in_use()

    def _weights(self) -> dict[str, Tensor]:
        with self._averaged():
            return {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def final_weights(self) -> dict[str, Tensor]:
        """Those that the reported accuracy is of."""
        return self._chosen or self._weights()

    def state_dict(self) -> dict[str, Any]:
        """All that changes while training; tensors and plain values, safe to load with weights only.

        No random state: every draw is a function of the seed and the epoch.
        """
        parts = {name: part.state_dict() for name, part in self._parts().items()}
        return parts | {"epoch": self.epoch, "reached": list(self.reached), "chosen": self._chosen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.epoch, self.reached = state["epoch"], Reached(*state["reached"])
        self._chosen = {name: value.to(self.device) for name, value in state["chosen"].items()}

    def _parts(self) -> dict[str, Any]:
        parts = {"model": self.model, "criterion": self.criterion, "optimizer": self.optimizer}
        return parts if self.average is None else parts | {"average": self.average}


def networks(model: nn.Module) -> list[nn.Module]:
    return list(model.networks) if isinstance(model, Networks) else [model]


def recorded(method: Method[Any], weights: Tensor | None) -> Tensor:
    """Of weights with several outputs of each sample, (..., outputs, B), those that go into the records: of the
    first network, or of the view that is learned from."""
    assert weights is not None  # there has been a step
    return weights if outputs(method) == 1 else weights[..., 0 if method.networks > 1 else -1, :]


def autocast(recipe: Recipe, device: torch.device) -> torch.autocast:
    """The precision of the forward pass."""
    enabled = recipe.precision_on(device.type) == "bfloat16"
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


def make_optimizer(
    recipe: Recipe, parameters: Iterable[nn.Parameter], recorded_on: torch.device | None = None
) -> torch.optim.Optimizer:
    """The optimiser of a recipe; for a CUDA graph on ``recorded_on``, if that is where its steps are replayed."""
    rate: float | Tensor = recipe.learning_rate
    options: dict[str, Any] = {}
    if recorded_on is not None:  # one kernel for all, with a learning rate that a graph can look up
        rate, options = torch.tensor(rate, device=recorded_on), {"fused": True}
    if recipe.optimizer == "adam":
        capturable = recorded_on is not None
        return torch.optim.Adam(parameters, rate, weight_decay=recipe.weight_decay, capturable=capturable, **options)
    return torch.optim.SGD(parameters, rate, recipe.momentum, weight_decay=recipe.weight_decay, **options)
