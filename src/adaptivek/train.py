"""The plain training loop: one run, one step after the other. Iterating a `Session` gives a record per epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .averaging import Average
from .data import Split, load
from .dropout import draw_keys, dropout_layers, set_keys
from .models import make_model, without_head
from .noise import Manifest, corrupt
from .peers import Peers
from .recipes import Recipe, RunSpec
from .records import Detail, EpochRecord, Reached, Steps, epoch_record, look_closer, measure
from .selection import Selection
from .types import Selector, answers

PAD = 4  # pixels by which an augmented image may be shifted
CONTRASTS = 16  # that a distorted image may have, around its own


class Job(NamedTuple):
    """A run made ready: its data and its wrong labels."""

    spec: RunSpec
    data: Split
    labels: Tensor  #: (rows,) as the run sees them
    clean: Tensor  #: (rows,) bool, for records and the oracle alone
    manifest: Manifest
    rows: Tensor  #: (rows,) where they are in the data: all of it, unless some are held out
    held: Tensor  #: (held,) the rows of the data that are held out
    held_labels: Tensor  #: (held,) theirs, as wrong as the others

    @property
    def steps_per_epoch(self) -> int:
        return (
            len(self.labels) // self.spec.recipe.batch_size
        )  # an incomplete last batch is dropped, as in the notebook

    @property
    def noise(self) -> float:
        return 1 - float(self.clean.float().mean())


def prepare(spec: RunSpec, data: Split | None = None, root: str | Path | None = None) -> Job:
    """Load the data, unless it is given, and make its labels wrong."""
    data = load(spec.dataset, seed=spec.seed, root=root) if data is None else data
    rows = len(data.y)
    if rows < spec.recipe.batch_size:
        raise ValueError(f"Recipe: batch_size must be at most the {rows} training rows, got {spec.recipe.batch_size}")
    if spec.recipe.augment and data.x.dim() != 4:
        raise ValueError("Recipe: augment must be False for data that are not images, got True")
    if spec.make_method().views > 1 and data.x.dim() != 4:
        raise ValueError(f"RunSpec: method must be one without views for data that are not images, got {spec.method}")
    if spec.noise == "instance" and data.vocabulary:
        raise ValueError("RunSpec: noise must not be instance for texts: numbers of words are no features")
    features = data.x if spec.noise == "instance" else None
    labels, manifest = corrupt(
        data.y,
        spec.make_noise(),
        classes=data.classes,
        seed=spec.seed,
        exact=spec.exact_noise,
        features=features,
    )
    held, used = hold_back(rows, spec.recipe.hold_out, spec.seed)
    if len(used) < spec.recipe.batch_size or (spec.recipe.hold_out and not len(held)):
        raise ValueError(f"Recipe: hold_out must leave rows on both sides of {rows}, got {spec.recipe.hold_out}")
    return Job(spec, data, labels[used], (labels == data.y)[used], manifest, used, held, labels[held])


def hold_back(rows: int, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """The numbers of the rows to judge by, and of those to train on; all of these, in order, if the share is 0."""
    number = round(share * rows)
    order = np.random.default_rng([seed, 3]).permutation(rows) if number else np.arange(rows)
    return torch.from_numpy(order[:number]), torch.from_numpy(order[number:])


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
        self.model = (fresh[0] if len(fresh) == 1 else Peers(fresh)).to(self.device)
        self.criterion = Selection(
            method,
            warmup=recipe.warmup_epochs * self.steps_per_epoch if method.wants_warmup else 0,
            rows=len(self.labels),
            classes=self.data.classes,
            clean=self._clean if method.privileged else None,
        ).to(self.device)
        self.optimizer = make_optimizer(recipe, self.model.parameters())
        self.average = Average(self.model.parameters(), recipe.average) if recipe.average else None
        self._chosen: dict[str, Tensor] = {}  # weights of the epoch that counts, where rows are held out

    def __iter__(self) -> Iterator[EpochRecord]:
        while self.epoch < self.spec.recipe.epochs:
            yield self._run_epoch()

    def _run_epoch(self) -> EpochRecord:
        started = time.perf_counter()
        selecting = self.epoch * self.steps_per_epoch >= self.criterion.warmup
        drawn = Draws(*(part.to(self.device) for part in draws(self.job, len(dropout_layers(self.model)), self.epoch)))
        method = self.criterion.method
        self.criterion.start_epoch(self.epoch, self._sweep() if method.sweeps else None)
        if self.epoch > 0 and method.age(self.epoch) == 0:
            self._begin_anew()
        for group in self.optimizer.param_groups:
            group["lr"] = self.spec.recipe.learning_rate_at(method.age(self.epoch))
        self.model.train()
        done = [self._step(*step, self.spec.reforward and selecting) for step in zip(*drawn, strict=True)]
        losses, weights, cuts = (torch.stack(column) for column in zip(*done, strict=True))
        steps = Steps(losses, weights, self._clean[drawn.order], cuts)
        measured = {name: float(value) for name, value in measure(steps).items()}  # waits for the device
        rate = drawn.order.numel() / (time.perf_counter() - started)
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
    ) -> tuple[Tensor, Tensor, Tensor]:
        x, y = self.data.x[self._rows[rows]], self.labels[rows]
        if self.spec.recipe.augment:
            x = augment(x, moves)
        set_keys(self.model, keys[0])
        method = self.criterion.method
        output = (
            self._output(x) if method.views == 1 else torch.stack([self._judged(x), self._output(distort(x, bends))])
        )
        loss = self.criterion(output, y, rows)
        assert self.criterion.believed is not None
        losses = self.criterion.loss(output.detach() if answers(method) == 1 else output[0].detach(), y)
        weights = recorded(method, self.criterion.believed)
        if reforward and bool((kept := weights > 0).any()):
            set_keys(self.model, keys[1])
            loss = self.criterion.loss(self._output(x[kept]), y[kept]).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        if self.average is not None:
            self.average.update()
        cut = self.criterion.method.cut(self.criterion.memory.state)
        return losses, weights, losses.new_tensor(math.nan) if cut is None else cut.clone()

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
    def _sweep(self) -> Tensor:
        """Of all training rows, the losses on the labels given, or the features."""
        self.model.eval()
        if self.criterion.method.sweeps == "features":
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


class Draws(NamedTuple):
    """All that is random in an epoch; a function of seed and epoch alone, whatever trains the run."""

    order: Tensor  #: (steps, batch) rows of each mini-batch
    keys: Tensor  #: (steps, 2, layers, 2) for dropout, in a first and a second pass
    moves: Tensor  #: (steps, batch, 3) for augmentation: down, right, mirrored
    bends: Tensor  #: (steps, batch, 3) for distorted views: where a square is left out, down and right; contrast


def draws(job: Job, layers: int, epoch: int) -> Draws:
    seed, size, steps = job.spec.seed, job.spec.recipe.batch_size, job.steps_per_epoch
    order = np.random.default_rng([seed, epoch]).permutation(len(job.labels))[: steps * size]
    moves = np.zeros((steps, 1, 1), np.int64)
    if job.spec.recipe.augment:
        reach = [2 * PAD + 1, 2 * PAD + 1, 2]
        moves = np.random.default_rng([seed, epoch, 2]).integers(0, reach, (steps, size, 3))
    bends = np.zeros((steps, 1, 1), np.int64)
    if job.spec.make_method().views > 1:
        reach = [*job.data.x.shape[-2:], CONTRASTS + 1]
        bends = np.random.default_rng([seed, epoch, 4]).integers(0, reach, (steps, size, 3))
    return Draws(
        torch.from_numpy(order.reshape(steps, size)),
        draw_keys(layers, 2 * steps, [seed, epoch, 1]).view(steps, 2, layers, 2),
        torch.from_numpy(moves),
        torch.from_numpy(bends),
    )


def fresh_networks(job: Job) -> list[nn.Module]:
    """The networks of a run before their first step; the first is the same for all methods."""
    spec, data = job.spec, job.data
    return [
        make_model(spec.recipe.network, data.inputs, data.classes, spec.seed + 1_000_003 * peer)
        for peer in range(spec.make_method().networks)
    ]


def networks(model: nn.Module) -> list[nn.Module]:
    return list(model.networks) if isinstance(model, Peers) else [model]


def recorded(method: Selector[Any], weights: Tensor) -> Tensor:
    """Of weights with several answers to each sample, (..., answers, B), those that go into the records: of the
    first network, or of the view that is learned from."""
    return weights if answers(method) == 1 else weights[..., 0 if method.networks > 1 else -1, :]


def distort(x: Tensor, bends: Tensor) -> Tensor:
    """Images with a square of half their width left out and another contrast, both as told."""
    height, width = x.shape[-2:]
    down, right, contrast = bends.unbind(-1)
    row, column = torch.arange(height, device=x.device), torch.arange(width, device=x.device)
    hidden = ((row - down[:, None]).abs() <= height // 4)[:, :, None] & ((column - right[:, None]).abs() <= width // 4)[
        :, None, :
    ]
    factor = 0.5 + contrast / CONTRASTS
    return (x * factor[:, None, None, None]).where(~hidden[:, None], 0.0)


def augment(x: Tensor, moves: Tensor) -> Tensor:
    """Shift and mirror each image as told; what comes in at the edge mirrors what is there."""
    number, _, height, width = x.shape
    down, right, mirrored = moves.unbind(-1)
    padded = F.pad(x, [PAD] * 4, mode="reflect").permute(0, 2, 3, 1)  # channels last, where they stay together
    row = down[:, None] + torch.arange(height, device=x.device)
    column = torch.arange(width, device=x.device).expand(number, width)
    column = right[:, None] + torch.where(mirrored[:, None] > 0, width - 1 - column, column)
    image = torch.arange(number, device=x.device)[:, None, None]
    return padded[image, row[:, :, None], column[:, None, :]].permute(0, 3, 1, 2)


def autocast(recipe: Recipe, device: torch.device) -> torch.autocast:
    """The precision of the forward pass. A processor computes in float32: few are faster in bfloat16."""
    enabled = recipe.precision == "bfloat16" and device.type == "cuda"
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


def find_device(device: str | torch.device) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:  # the latter where torch was built without CUDA
        reason = str(error).partition("\n")[0]
        raise ValueError(f"device must be auto or one that is here, got {device!r}: {reason}") from None
    return found


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
