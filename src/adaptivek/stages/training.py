"""The pieces of two stages: cross-trained predictions of every row, and a network trained on all rows from there."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..auditing.data import AuditData
from ..auditing.networks import maker
from ..auditing.predictions import Predictions
from ..auditing.schedules import find_schedule
from ..auditing.tokens import TokenModel
from ..auditing.training import Plan, Run, copied, make_optimizer
from ..criterion import Selection
from ..networks.views import augment
from ..support.streams import stream
from ..support.threads import flops, suited, using

Rows = NDArray[np.int64]
#: called after every batch
Step = Callable[[], None]
PREDICT_BATCH = 1_000


@dataclass(frozen=True)
class Task:
    """Data, network and plan: all that the stages share."""

    data: AuditData
    model: nn.Module | None  #: the user's, of which copies are trained; None: the one for this kind of data
    plan: Plan
    device: torch.device

    @property
    def classes(self) -> int:
        return len(self.data.classes)

    def network(self, seed: int) -> nn.Module:
        """A fresh one."""
        model = self.model
        if model is not None and self.data.tokens:
            return TokenModel(copy.deepcopy(model), self.data.tokens)
        return maker(self.data.kind, self.data.inputs, self.classes, model)(seed)

    def part(self, rows: Rows) -> Task:
        """The same for some rows only."""
        fetch, labels = self.data.fetch, self.data.labels[rows]
        return replace(self, data=replace(self.data, fetch=lambda places: fetch(rows[places]), labels=labels))

    def steps(self, rounds: int) -> int:
        """Batches of so many cross-trainings and one training."""
        rows = len(self.data.labels)
        return self.plan.epochs * (rounds * max(1, rows // (2 * self.plan.batch_size)) + self.batches())

    def batches(self) -> int:
        return max(1, len(self.data.labels) // self.plan.batch_size)


def cross_predictions(task: Task, rounds: int, step: Step) -> Tensor:
    """Predictions of every row by a network that has not seen it; each round begins with those of the last."""
    found: Tensor | None = None
    for number in range(rounds):
        run = Run(
            task.data.fetch,
            task.data.labels,
            task.classes,
            lambda seed, first=2 * number: task.network(seed + first),  # type: ignore[misc]
            task.plan,
            str(task.device),
            shared=task.model is not None,
            start=found,
        )
        while run.done < task.plan.epochs:
            run.epoch(step)
        found = torch.from_numpy(Predictions(*run.best.tables()).of_all(task.classes))
    assert found is not None
    return found


def train(task: Task, start: Tensor | None, step: Step) -> nn.Module:
    """A fresh network on all rows: plainly, or by the default method, whose memory begins with ``start``."""
    plan, rows = task.plan, len(task.data.labels)
    model = task.network(plan.seed).to(task.device)
    criterion = Selection("vanilla") if start is None else Selection(start=start, distributed=False)
    criterion.to(task.device)
    labels = torch.from_numpy(task.data.labels).to(task.device)
    optimizer = make_optimizer(plan, [weight for weight in model.parameters() if weight.requires_grad])
    rate, steps = find_schedule("fit", plan.schedule), task.batches()
    model.train()
    with _randomness(task), using(_threads(task, model)):
        for epoch in range(plan.epochs):
            order = stream(plan.seed, "fit order", epoch).permutation(rows)
            for at, batch in enumerate(np.array_split(order, steps)):
                for group in optimizer.param_groups:
                    group["lr"] = plan.learning_rate * rate(epoch * steps + at, plan.epochs * steps)
                index, x = torch.from_numpy(batch).to(task.device), task.data.fetch(batch).to(task.device)
                if plan.augment:
                    moves = torch.stack([torch.randint(high, (len(batch),)) for high in (9, 9, 2)], 1)
                    x = augment(x, moves.to(task.device))
                optimizer.zero_grad()
                criterion(logits(model, x, plan), labels[index], index).backward()
                optimizer.step()
                step()
    return model.eval()


@torch.no_grad()
def predict(model: nn.Module, fetch: Callable[[Rows], Tensor], rows: Rows, plan: Plan, device: torch.device) -> Tensor:
    """(rows, classes) probabilities, on the CPU."""
    model.eval()
    parts = [rows[at : at + PREDICT_BATCH] for at in range(0, len(rows), PREDICT_BATCH)]
    found = [logits(model, fetch(part).to(device), plan).softmax(1).cpu() for part in parts]
    return torch.cat(found) if found else torch.zeros(0, 0)


def logits(model: nn.Module, x: Tensor, plan: Plan) -> Tensor:
    """In single precision, whatever the network gives them in."""
    halved = x.device.type == "cuda" and plan.precision == "auto"
    with torch.autocast("cuda", torch.bfloat16) if halved else nullcontext():
        output = model(x)
    output = output["logits"] if isinstance(output, dict) else getattr(output, "logits", output)
    found: Tensor = output.float()
    return found


@contextmanager
def _randomness(task: Task) -> Iterator[None]:
    """Within, dropout and augmentation follow from the seed; the caller's randomness is left alone."""
    with torch.random.fork_rng([task.device] if task.device.type == "cuda" else []):
        torch.manual_seed(zlib.crc32(f"{task.plan.seed} fit".encode()))
        yield


def _threads(task: Task, model: nn.Module) -> int:
    if task.device.type != "cpu":
        return torch.get_num_threads()
    some = np.arange(min(task.plan.batch_size, len(task.data.labels)))
    return suited(flops(copied(model, model.parameters()), task.data.fetch(some)))
