"""One training run with a held-out prediction for every row.

The rows are split into halves. Two networks share the run, each trained on one half and predicting the other: together
they cost what one network on all rows does, and no row is predicted by a network that may have memorised its label.

Half-way the noise is estimated. From then on each network trains on label posteriors from the predictions of the other
(`label_posterior`), which are updated once. If no clear noise floor is in sight by then, or hard rows are mislabelled
more often, posteriors would repeat the networks' errors, and training goes on as before.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ..backend.checks import check_choice, check_number
from ..method import trains_plainly
from ..methods import build
from ..networks.views import augment
from ..support.files import whole
from ..support.streams import stream
from ..support.threads import flops, suited, using
from .best_epochs import EARLY, BestEpochs
from .criterion import EarlyLearning, criterion
from .dynamics import Codes, Dynamics
from .held_out import folds
from .label_posterior import label_posterior
from .noise_estimate import NoiseEstimate, estimate_noise
from .noise_floor import NoiseRatio
from .predictions import Predictions
from .schedules import Schedule, find_schedule, schedule_name

PREDICT_BATCH = 1_000
MEMORY = 400_000_000  #: bytes that the robust method may remember; beyond, one that remembers nothing
FEW_EPOCHS = 6  #: with fewer there is no second half
AT_ONCE = 50  #: steps that are recorded together, which is faster than one by one
MOST_REPEATS = 5  #: how often a row of a rare class is seen in an epoch, at most

#: the inputs of these rows
Fetch = Callable[[Codes], Tensor]


@dataclass(frozen=True)
class Plan:
    """How to train."""

    method: str = "auto"  #: see `adaptivek methods`; auto: ELR, or GCE where its memory would be too large
    epochs: int = 20
    batch_size: int = 32
    learning_rate: float = 1e-3
    optimizer: Literal["adam", "sgd"] = "adam"
    weight_decay: float = 0.0
    augment: bool = False  #: images: shifted by up to four pixels and mirrored at random
    seed: int = 0
    schedule: str | Schedule = "cosine"  #: of the learning rate: cosine, linear, constant, or a function of yours
    precision: Literal["auto", "float32"] = "auto"  #: auto: forward passes in bfloat16 on a GPU

    def __post_init__(self) -> None:
        check_number("audit", "epochs", self.epochs, 1, whole=True)
        check_number("audit", "batch_size", self.batch_size, 2, whole=True)
        check_number("audit", "learning_rate", self.learning_rate, 0, open_low=True)
        check_number("audit", "weight_decay", self.weight_decay, 0)
        check_number("audit", "seed", self.seed, 0, whole=True)
        check_choice("audit", "optimizer", self.optimizer, ("adam", "sgd"))
        check_choice("audit", "precision", self.precision, ("auto", "float32"))
        find_schedule("audit", self.schedule)
        method = build("elr" if self.method == "auto" else self.method)
        if method.privileged or method.full_pass or not trains_plainly(method):
            raise ValueError(
                "audit: method must be one that needs no truth, no full pass and one network, trained plainly, got "
                f"{self.method}"
            )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for records and checkpoints."""
        return asdict(self) | {"schedule": schedule_name(self.schedule)}

    def chosen(self, rows: int, classes: int, starts: bool = False) -> str:
        """The method, by the memory that it would need; the one that uses it best where it ``starts`` with some."""
        if self.method != "auto":
            return self.method
        if starts:
            return "label-memory"
        return "elr" if 4 * rows * classes <= MEMORY else "gce"


class Run:
    """Two networks, a half of the rows each. `epoch` trains one epoch; all that is random follows from the seed."""

    def __init__(
        self,
        fetch: Fetch,
        labels: Codes,
        classes: int,
        make_model: Callable[[int], nn.Module],
        plan: Plan,
        device: str,
        encoder: str | None = None,
        shared: bool = False,
        start: Tensor | None = None,
    ) -> None:
        self.fetch, self.classes, self.plan, self.device = fetch, classes, plan, torch.device(device)
        self.encoder = encoder  # what the inputs were made by, that none goes on with those of another
        self.labels = torch.from_numpy(labels).to(self.device)
        self.done = 0
        self.halves = folds(labels, 2, plan.seed, "audit halves")
        self.repeats = _repeats(labels, classes)
        self.steps = max(1, min(int(self.repeats[half].sum()) for half in self.halves) // plan.batch_size)
        self.dynamics = Dynamics(len(labels), classes, self.device)
        self.best = BestEpochs(len(labels), classes, self.device)
        first = make_model(plan.seed).to(self.device)
        # of a network of the user's, what is frozen is there once for both
        self.models = [first, twin(first) if shared else make_model(plan.seed + 1).to(self.device)]
        # one for both: most of a small network's step is what each call costs, not the arithmetic
        trained = [weight for model in self.models for weight in model.parameters() if weight.requires_grad]
        self.optimizer = make_optimizer(plan, trained)
        self.method = plan.chosen(len(labels), classes, start is not None)
        self.criterion = criterion(self.method, len(labels), classes, plan.epochs * self.steps, start)
        self.criterion.to(self.device)
        #: epochs after which label posteriors are set; none where the method keeps no table that they could go into
        updates = plan.epochs >= FEW_EPOCHS and isinstance(self.criterion, EarlyLearning)
        self.updates: tuple[int, ...] = (plan.epochs // 2, plan.epochs * 3 // 4) if updates else ()
        self.noise: NoiseEstimate | None = None  #: of half-way, if its floor was clear
        self.threads = 0  #: on a processor, chosen when training begins; 0: they do not matter

    def epoch(self, step: Callable[[], None] = lambda: None) -> None:
        """Train one epoch; ``step`` is called after every batch."""
        if self.device.type == "cpu" and not self.threads:
            some = np.arange(min(self.plan.batch_size, len(self.labels)))
            # tried on a copy, with the same weights: a network may count what it is shown
            self.threads = suited(flops(copied(self.models[0], self.models[0].parameters()), self.fetch(some)))
        with using(self.threads or torch.get_num_threads()):
            self._epoch(step)

    def _epoch(self, step: Callable[[], None]) -> None:
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(zlib.crc32(f"{self.plan.seed} {self.done}".encode()))
            self._train(step)
        if self._predicts_now() or self.done < EARLY:
            for model, half in zip(self.models, self.halves[::-1], strict=True):
                self._predict_held_out(model, half)
            self.best.end()
        self.done += 1
        if self.done in self.updates:
            self._update_posterior()

    def _predicts_now(self) -> bool:
        """Whether each network predicts the other half in this epoch.

        At an update and two epochs before; after the last update every third epoch. If there are no updates, every
        third epoch of the later half.
        """
        done, last = self.done + 1, self.updates[-1] if self.updates else (self.plan.epochs - 1) // 2
        before_update = any(update - done in (0, 2) for update in self.updates)
        return before_update or (done > last and (self.plan.epochs - done) % 3 == 0)

    def _update_posterior(self) -> None:
        """Estimate the noise the first time, and train on label posteriors if its floor is clear."""
        labels, held_out = self.labels.cpu().numpy(), Predictions(*self.dynamics.held_out.tables())
        first = self.done == self.updates[0]
        if first:
            noise = estimate_noise(held_out, labels, self.classes)
            self.noise = noise if noise.even else None
        if self.noise is not None:
            assert isinstance(self.criterion, EarlyLearning)
            ratio = self.noise.ratio.ratio
            for rows, posterior in label_posterior(held_out, labels, self.classes, ratio, self.plan.seed):
                self.criterion.set_posterior(rows, torch.from_numpy(posterior))
        if first or self.noise is not None:
            self.dynamics.reset_held_out()

    def _batches(self) -> Iterator[tuple[Codes, int]]:
        """The rows of each step, those of the first half first, and how many these are."""
        rng = stream(self.plan.seed, "audit order", self.done)
        # all of about one size: a network that normalises over the batch cannot take a single row
        parts = [
            np.array_split(rng.permutation(np.repeat(half, self.repeats[half])), self.steps) for half in self.halves
        ]
        for both in zip(*parts, strict=True):
            yield np.concatenate(both), len(both[0])

    def _train(self, step: Callable[[], None]) -> None:
        """A step is one of both networks."""
        self.criterion.start_epoch(self.done)
        for model in self.models:
            model.train()
        seen: list[tuple[Codes, Tensor]] = []
        rate_at = find_schedule("audit", self.plan.schedule)
        for at, (rows, first) in enumerate(self._batches()):
            passed = self.done * self.steps + at
            for group in self.optimizer.param_groups:
                group["lr"] = self.plan.learning_rate * rate_at(passed, self.plan.epochs * self.steps)
            index = torch.from_numpy(rows).to(self.device)
            x = self.fetch(rows).to(self.device)
            if self.plan.augment:
                x = augment(x, _moves(len(rows)).to(self.device))
            parts = (x[:first], x[first:])
            outputs = [self._output(model, part) for model, part in zip(self.models, parts, strict=True)]
            logits = torch.cat([output.detach() for output in outputs])
            gradient = self.criterion.gradient(logits, self.labels[index], index)
            self.optimizer.zero_grad()
            torch.autograd.backward(outputs, (gradient[:first], gradient[first:]))
            self.optimizer.step()
            seen.append((rows, logits))
            if len(seen) == AT_ONCE or at + 1 == self.steps:
                self._record(seen)
                seen = []
            step()

    def _record(self, seen: list[tuple[Codes, Tensor]]) -> None:
        """The logits of some steps, each row once."""
        rows, places = np.unique(np.concatenate([rows for rows, _ in seen]), return_index=True)
        index, at = (torch.from_numpy(numbers).to(self.device) for numbers in (rows, places))
        logits = torch.cat([logits for _, logits in seen])
        if not bool(logits.isfinite().all()):
            raise ValueError(
                "audit: the network must give finite logits, got NaN or infinite ones: try a smaller learning_rate, or "
                "look for extreme values in the inputs"
            )
        self.dynamics.add_step(index, logits[at], self.labels[index])

    @torch.no_grad()
    def _predict_held_out(self, model: nn.Module, rows: Codes) -> None:
        model.eval()
        for start in range(0, len(rows), PREDICT_BATCH):
            part = rows[start : start + PREDICT_BATCH]
            x = self.fetch(part).to(self.device)
            p = self._output(model, x).softmax(1)
            if self.plan.augment:  # it was trained on mirrored ones too
                p = (p + self._output(model, x.flip(-1)).softmax(1)) / 2
            index = torch.from_numpy(part).to(self.device)
            self.best.add(index, p, self.labels[index])
            if self._predicts_now():
                self.dynamics.add_held_out(index, p)

    def _output(self, model: nn.Module, x: Tensor) -> Tensor:
        halved = self.device.type == "cuda" and self.plan.precision == "auto"
        with torch.autocast("cuda", torch.bfloat16, enabled=halved) if halved else nullcontext():
            output = model(x)
        output = output["logits"] if isinstance(output, dict) else getattr(output, "logits", output)
        if not isinstance(output, Tensor) or output.shape != (len(x), self.classes):
            shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise ValueError(f"audit: model must give logits of shape {(len(x), self.classes)}, got {shape}")
        return output.float()

    def identity(self) -> dict[str, Any]:
        """What a checkpoint must agree with."""
        return {
            "plan": self.plan.as_dict(),
            "encoder": self.encoder,
            "classes": self.classes,
            "labels": zlib.crc32(self.labels.cpu().numpy().tobytes()),
        }

    @property
    def _parts(self) -> list[Any]:
        return [*self.models, self.optimizer, self.criterion]

    def save(self, path: Path) -> None:
        """Write all that changes while training; there whole or not at all."""
        parts = [part.state_dict() for part in self._parts]
        dynamics = self.dynamics.state_dict()
        noise = None if self.noise is None else [*self.noise.ratio, self.noise.assumption]
        state = {"parts": parts, "done": self.done, "dynamics": dynamics, "noise": noise, "identity": self.identity()}
        state["best"] = self.best.state_dict()
        with whole(path) as partial:
            torch.save(state, partial)

    def load(self, path: Path) -> None:
        try:
            state = torch.load(path, weights_only=True, map_location="cpu")
            same, noise = state["identity"] == self.identity() and "best" in state, state["noise"]
        except Exception as error:  # whatever a file that is no checkpoint makes torch raise
            raise ValueError(f"audit: {path} must be a checkpoint to resume from: {error}") from None
        if not same:
            raise ValueError(f"audit: {path} is of other data or settings: give those again, or leave out --resume")
        for part, saved in zip(self._parts, state["parts"], strict=True):
            part.load_state_dict(saved)
        self.dynamics.load_state_dict(state["dynamics"])
        self.best.load_state_dict(state["best"])
        self.done = state["done"]
        if noise is not None:
            assert isinstance(self.criterion, EarlyLearning)
            self.noise = NoiseEstimate(NoiseRatio(*noise[:3]), even=True, assumption=noise[3])
            self.criterion.uses_posterior = True


def _repeats(labels: Codes, classes: int) -> Codes:
    """How often each row is seen in an epoch: once, more often in rare classes, which would not be learned at all."""
    counts = np.bincount(labels, minlength=classes)
    often = np.sqrt(np.median(counts[counts > 0]) / np.maximum(counts, 1)).round().clip(1, MOST_REPEATS)
    repeated: Codes = often.astype(np.int64)[labels]
    return repeated


def make_optimizer(plan: Plan, weights: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    if plan.optimizer == "adam":
        return torch.optim.AdamW(weights, plan.learning_rate, weight_decay=plan.weight_decay, fused=True)
    return torch.optim.SGD(weights, plan.learning_rate, 0.9, weight_decay=plan.weight_decay, nesterov=True, fused=True)


def twin(model: nn.Module) -> nn.Module:
    """A copy with weights of its own where they are trained; those that are frozen, it shares."""
    return copied(model, (weight for weight in model.parameters() if not weight.requires_grad))


def copied(model: nn.Module, shared: Iterable[nn.Parameter]) -> nn.Module:
    """A copy that shares these weights."""
    return copy.deepcopy(model, {id(weight): weight for weight in shared})


def _moves(rows: int) -> Tensor:
    return torch.stack([torch.randint(high, (rows,)) for high in (9, 9, 2)], 1)
