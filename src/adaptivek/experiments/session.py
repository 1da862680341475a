"""The plain training loop: one run, one step after the other. Iterating a `Session` gives a record per epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..criterion import Selection
from ..method import Method, outputs
from ..networks import in_last_parts
from ..networks.dropout import set_keys
from ..networks.views import augment, distort
from ..support.device import find_device
from ..support.threads import flops, suited
from ..training.mixup import mix
from ..training.networks import Networks
from ..training.views import StrongViews
from .data import Split
from .groups import Group, warmup_steps
from .loop import Loop, Predict, autocast, recorded
from .prepare import Draws, fresh_network, fresh_networks
from .prepare import prepare as prepare
from .records import Detail, EpochRecord, Reached
from .spec import RunSpec


class Session(Loop):
    """One run. Iterating it trains; each turn is an epoch and gives its record.

    Args:
        spec: what to run.
        data: the data set, if it is not one that `load` knows; its labels are taken as clean.
        device: where; the GPU if there is one, unless told.
        root: folder of data sets, see `load`.
        start: (rows, classes) predictions that the memory begins with, see `Selection`.
    """

    def __init__(
        self,
        spec: RunSpec,
        data: Split | None = None,
        device: str | torch.device = "auto",
        root: str | Path | None = None,
        start: Tensor | None = None,
    ) -> None:
        found = find_device(device)  # before data is loaded
        if spec.audit and start is None:
            raise ValueError("Session: start must be the predictions of the audit that the run begins with, got None")
        self.job = prepare(spec, data, root)
        super().__init__([self.job], found)
        self.spec, self.manifest, self.labels = spec, self.job.manifest, self._labels[0]
        method, fresh = spec.make_method(), fresh_networks(self.job)
        warmup = warmup_steps(self.job)
        self.groups = [Group([method], slice(0, 1), [warmup])]
        self.model = (fresh[0] if len(fresh) == 1 else Networks(fresh)).to(self.device)
        self.criterion = Selection(
            method,
            warmup=warmup,
            rows=len(self.labels),
            classes=self.job.data.classes,
            clean=self._clean[0] if method.privileged else None,
            start=None if start is None else start[self.job.rows],
        ).to(self.device)
        self.views = StrongViews(self.model, self.criterion) if self.recipe.views > 1 else None
        self._make_optimizer(list(self.model.parameters()))
        self._chosen: dict[str, Tensor] = {}  # weights of the epoch that counts, where rows are held out
        batch = self._x[: self.recipe.batch_size]
        self.threads = suited(flops(self.model, batch)) if self.device.type == "cpu" else 0

    def __iter__(self) -> Iterator[EpochRecord]:
        return (record for (record,) in self._epochs())

    @property
    def details(self) -> list[Detail]:
        return self._details[0]

    def _train(self, drawn: list[Draws]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        reforward = self.spec.reforward and self._selecting(self.groups[0].warmups[0])
        mine = Draws(*(values.to(self.device) for values in drawn[0]))
        done = [self._step(Draws(*step), reforward) for step in zip(*mine, strict=True)]
        losses, weights, confidence, thresholds = (torch.stack(column)[None] for column in zip(*done, strict=True))
        return losses, weights, confidence, thresholds

    def _step(self, drawn: Draws, reforward: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """A step, of which ``drawn`` has all that is random."""
        rows, method = drawn.order, self.criterion.method
        x, y = self._x[self._rows[0, rows]], self.labels[rows]
        if self.recipe.augment:
            x = augment(x, drawn.moves)
        if method.mixing:
            y = F.one_hot(y, self.job.data.classes).float()
            x, y = (mix(values, drawn.partners, drawn.shares) for values in (x, y))
        set_keys(self.model, drawn.keys[0])
        if self.views is not None:
            with autocast(self.recipe, self.device):
                loss = self.views.loss(x, y, rows, drawn.chances, drawn.partners, drawn.shares)
            assert self.views.weak_logits is not None
            losses = self.criterion.loss(self.views.weak_logits, y)
        else:
            output = self._outputs(x, drawn)
            loss = self.criterion(output, y, rows)
            losses = self.criterion.loss(output.detach() if outputs(method) == 1 else output[0].detach(), y)
        weights, confidence = recorded(method, self.criterion.weights), recorded(method, self.criterion.confidence)
        if reforward and bool((kept := weights > 0).any()):
            set_keys(self.model, drawn.keys[1])
            again = self.criterion.loss(self._output(x[kept]), y[kept])
            loss = (again * weights[kept]).sum() / weights.sum()
        self._update_weights(loss)
        if self.views is not None:
            self.views.update()
        threshold = method.loss_threshold(self.criterion.memory.state)
        return losses, weights, confidence, losses.new_tensor(math.nan) if threshold is None else threshold.clone()

    def _outputs(self, x: Tensor, drawn: Draws) -> Tensor:
        """Logits of a batch, of both views if the method has two."""
        if self.criterion.method.views == 1:
            return self._output(x)
        weak = self._weak_logits(self._predictor(self._runs), x)[0]
        return torch.stack([weak, self._output(distort(x, drawn.bends))])

    def _output(self, x: Tensor) -> Tensor:
        with autocast(self.recipe, self.device):
            output: Tensor = self.model(x)
        return output

    def _predictor(self, runs: Tensor, features: bool = False) -> Predict:
        return lambda x: self._output(x if x.dim() == self._x.dim() else x[0])[None]

    def _start_epoch(self, group: Group, full_pass: Tensor | None) -> None:
        if group.method.freezes:
            self._freeze(group.method)
        self.criterion.start_epoch(self.epoch, None if full_pass is None else full_pass[0])

    def _freeze(self, method: Method[Any]) -> None:
        """Freeze what the method wants frozen in this epoch; what is trained alone from now on gets fresh weights."""
        number, network = method.parts_alone(self.epoch), self.recipe.network
        if number and number != method.parts_alone(self.epoch - 1):
            weights = fresh_network(self.job, 1 + number).state_dict()
            alone = {name: value for name, value in weights.items() if in_last_parts(network, number, name)}
            self.model.load_state_dict(alone, strict=False)
            self.optimizer.state.clear()  # momentum of weights that are no more, or frozen
        for name, weight in self.model.named_parameters():
            # one without a gradient is left out by the optimiser, weight decay and all
            weight.requires_grad_(not number or in_last_parts(network, number, name))

    def _load_weights(self, fresh: list[nn.Module]) -> None:
        for mine, other in zip(networks(self.model), fresh, strict=True):
            mine.load_state_dict(other.state_dict())

    def _keep_weights(self, run: int) -> None:
        self._chosen = self._weights()

    def _noise_ratios_told(self) -> list[float]:
        return [self.criterion.noise_ratio]

    def evaluate(self) -> float:
        """Accuracy on the test set, of the averaged weights if the recipe has them averaged."""
        with self._averaged():
            return float(self._test()[0])

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
        stateful = {name: module.state_dict() for name, module in self._stateful().items()}
        return stateful | {"epoch": self.epoch, "reached": list(self._reached[0]), "chosen": self._chosen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, module in self._stateful().items():
            module.load_state_dict(state[name])
        self.epoch, self._reached = state["epoch"], [Reached(*state["reached"])]
        self._chosen = {name: value.to(self.device) for name, value in state["chosen"].items()}

    def _stateful(self) -> dict[str, Any]:
        stateful = {"model": self.model, "criterion": self.criterion, "optimizer": self.optimizer}
        others = {"average": self.average, "views": self.views}
        return stateful | {name: module for name, module in others.items() if module is not None}


def networks(model: nn.Module) -> list[nn.Module]:
    return list(model.networks) if isinstance(model, Networks) else [model]
