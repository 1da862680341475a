"""The only training loop: every command iterates a `Session` and gets a record per epoch."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .checks import check_choice, check_number
from .data import Split, load
from .methods import build
from .models import MODELS, make_model
from .noise import NOISES, Noise, corrupt
from .records import EpochRecord, measure
from .selection import Selection
from .types import Selector


@dataclass(frozen=True)
class Recipe:
    """How a network is trained on a data set. The defaults are those of the authors' MNIST notebook."""

    network: str = "notebook-cnn"
    epochs: int = 80
    warmup_epochs: int = 30
    batch_size: int = 10
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.05
    momentum: float = 0.0
    weight_decay: float = 0.0
    decay_every: int = 30
    decay_factor: float = 0.2

    def __post_init__(self) -> None:
        check_choice("Recipe", "network", self.network, MODELS)
        check_number("Recipe", "epochs", self.epochs, 1, whole=True)
        check_number("Recipe", "warmup_epochs", self.warmup_epochs, 0, whole=True)
        check_number("Recipe", "batch_size", self.batch_size, 1, whole=True)
        check_choice("Recipe", "optimizer", self.optimizer, ("sgd", "adam"))
        check_number("Recipe", "learning_rate", self.learning_rate, 0, open_low=True)
        check_number("Recipe", "momentum", self.momentum, 0, 1, open_high=True)
        check_number("Recipe", "weight_decay", self.weight_decay, 0)
        check_number("Recipe", "decay_every", self.decay_every, 1, whole=True)
        check_number("Recipe", "decay_factor", self.decay_factor, 0, 1, open_low=True)


RECIPES: dict[str, Recipe] = {
    # the notebook's, in 5/8 of the epochs: long enough for Vanilla to learn the wrong labels
    "digits": Recipe(network="digits-cnn", epochs=50, warmup_epochs=20, decay_every=20),
}


@dataclass(frozen=True)
class RunSpec:
    """All that decides a run. Two runs with equal specifications on one device give equal results."""

    dataset: str
    method: str = "adaptive-k"  #: name, with parameters if need be: "adaptive-k:threshold=mean"
    noise: str = "directed"
    noise_rate: float = 0.0
    exact_noise: bool = False  #: flip exactly the expected number of labels
    seed: int = 0
    reforward: bool = False  #: run the kept samples through the network again, as the notebook does
    recipe: Recipe = field(default_factory=Recipe)

    def __post_init__(self) -> None:
        check_number("RunSpec", "noise_rate", self.noise_rate, 0, 1)
        check_number("RunSpec", "seed", self.seed, 0, whole=True)
        self.make_noise()
        self.make_method()

    def make_noise(self) -> Noise:
        check_choice("RunSpec", "noise", self.noise, [name for name in NOISES if name != "matrix"])
        return NOISES[self.noise](rate=self.noise_rate)  # type: ignore[call-arg]

    def make_method(self) -> Selector[Any]:
        # as in the paper, methods that need the noise ratio are given the true one unless told otherwise
        return build(self.method, keep=1 - self.noise_rate) if self.noise_rate < 1 else build(self.method)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> RunSpec:
        return cls(**(fields | {"recipe": Recipe(**fields["recipe"])}))

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


class Session:
    """One run. Iterating it trains; each turn is an epoch and gives its record.

    Args:
        spec: what to run.
        data: the data set, if it is not one that `load` knows; its labels are taken as right.
        device: where; the GPU if there is one, unless told.
    """

    def __init__(self, spec: RunSpec, data: Split | None = None, device: str | torch.device = "auto") -> None:
        device = _find_device(device)
        data = load(spec.dataset) if data is None else data
        recipe, rows = spec.recipe, len(data.y)
        if rows < recipe.batch_size:
            raise ValueError(f"Recipe: batch_size must be at most the {rows} training rows, got {recipe.batch_size}")
        noisy, self.manifest = corrupt(
            data.y,
            spec.make_noise(),
            classes=data.classes,
            seed=spec.seed,
            exact=spec.exact_noise,
            features=data.x if spec.noise == "instance" else None,
        )
        self.spec, self.device, self.epoch, self.best = spec, device, 0, 0.0
        self.data = data.to(device)
        self.labels = noisy.to(device)
        self._clean = self.labels == self.data.y  # for records and the oracle alone
        self.steps_per_epoch = rows // recipe.batch_size  # an incomplete last batch is dropped, as in the notebook
        method = spec.make_method()
        warmup = recipe.warmup_epochs * self.steps_per_epoch if method.wants_warmup else 0
        self._rng = _seeded(spec.seed, self.device)
        with self._own_randomness():
            self.model = make_model(recipe.network, data.inputs, data.classes).to(device)
        self.criterion = Selection(method, warmup=warmup, clean=self._clean if method.privileged else None).to(device)
        self.optimizer = _make_optimizer(recipe, self.model)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, recipe.decay_every, recipe.decay_factor)

    def __iter__(self) -> Iterator[EpochRecord]:
        while self.epoch < self.spec.recipe.epochs:
            yield self._run_epoch()

    def _run_epoch(self) -> EpochRecord:
        started = time.perf_counter()
        selecting = self.epoch * self.steps_per_epoch >= self.criterion.warmup
        order = self._order()
        with self._own_randomness():
            self.model.train()
            steps = [self._step(rows, self.spec.reforward and selecting) for rows in order]
            self.scheduler.step()
        losses, weights, cuts = (torch.stack(column) for column in zip(*steps, strict=True))
        measured = measure(losses, weights, self._clean[order])  # waits for the device, once an epoch
        seconds = time.perf_counter() - started
        accuracy = self.evaluate()
        self.epoch += 1
        self.best = max(self.best, accuracy)
        return EpochRecord(
            epoch=self.epoch,
            selecting=selecting,
            test_accuracy=accuracy,
            best_test_accuracy=self.best,
            threshold=float(cuts.mean()) if selecting else math.nan,
            noise_ratio=1 - measured["kept_share"] if selecting else math.nan,
            true_noise_ratio=1 - float(self._clean.float().mean()),
            samples_per_second=order.numel() / seconds,
            **measured,
        )

    def _step(self, rows: Tensor, reforward: bool) -> tuple[Tensor, Tensor, Tensor]:
        x, y = self.data.x[rows], self.labels[rows]
        losses = self.criterion.loss(self.model(x), y)
        loss = self.criterion.reduce(losses, index=rows)
        weights = self.criterion.weights
        assert weights is not None
        if reforward and bool((kept := weights > 0).any()):
            loss = self.criterion.loss(self.model(x[kept]), y[kept]).mean()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        cut = self.criterion.method.cut(self.criterion.memory.state)
        return losses.detach(), weights, losses.new_tensor(math.nan) if cut is None else cut.clone()

    @torch.no_grad()
    def evaluate(self) -> float:
        """Accuracy on the test set."""
        self.model.eval()
        hits = [
            (self.model(x).argmax(1) == y).sum()
            for x, y in zip(torch.split(self.data.x_test, 2_000), torch.split(self.data.y_test, 2_000), strict=True)
        ]
        return float(torch.stack(hits).sum()) / len(self.data.y_test)

    def state_dict(self) -> dict[str, Any]:
        """All that changes while training; tensors and plain values, safe to load with weights only."""
        parts = {name: getattr(self, name).state_dict() for name in ("model", "criterion", "optimizer", "scheduler")}
        return parts | {"epoch": self.epoch, "best": self.best, "rng": self._rng}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in ("model", "criterion", "optimizer", "scheduler"):
            getattr(self, name).load_state_dict(state[name])
        self.epoch, self.best, self._rng = state["epoch"], state["best"], state["rng"]

    def _order(self) -> Tensor:
        """Rows of each batch of this epoch, (steps, batch): a function of seed and epoch alone."""
        order = np.random.default_rng([self.spec.seed, self.epoch]).permutation(len(self.labels))
        size = self.spec.recipe.batch_size
        return torch.from_numpy(order[: self.steps_per_epoch * size]).view(-1, size).to(self.device)

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """Run with this session's random state, then give the caller's back untouched."""
        on_gpu = self.device.type == "cuda"
        with torch.random.fork_rng([self.device] if on_gpu else []):
            torch.set_rng_state(self._rng["cpu"])
            if on_gpu:
                torch.cuda.set_rng_state(self._rng["cuda"], self.device)
            yield
            self._rng = {"cpu": torch.get_rng_state()}
            if on_gpu:
                self._rng["cuda"] = torch.cuda.get_rng_state(self.device)


def _find_device(device: str | torch.device) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:  # the latter where torch was built without CUDA
        reason = str(error).partition("\n")[0]
        raise ValueError(f"Session: device must be auto or one that is here, got {device!r}: {reason}") from None
    return found


def _seeded(seed: int, device: torch.device) -> dict[str, Tensor]:
    """Random states as they are right after seeding."""
    state = {"cpu": torch.Generator().manual_seed(seed).get_state()}
    if device.type == "cuda":
        state["cuda"] = torch.Generator(device).manual_seed(seed).get_state()
    return state


def _make_optimizer(recipe: Recipe, model: torch.nn.Module) -> torch.optim.Optimizer:
    if recipe.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay)
    return torch.optim.SGD(model.parameters(), recipe.learning_rate, recipe.momentum, weight_decay=recipe.weight_decay)
