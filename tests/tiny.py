"""A small task and a plain loop on it, for frameworks to be compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import nn
from torch.utils.data import Dataset

import adaptivek
from adaptivek.experiments.data import load
from adaptivek.method import outputs, trains_plainly

from .reference import ONE_EACH

ROWS, CLASSES, SIZE = 72, 5, 12  # rows, classes, samples in a batch
CLEAN = torch.arange(ROWS) % 3 > 0

METHOD_OF = {text: adaptivek.METHODS[text.partition(":")[0]] for text in ONE_EACH}
#: of methods that a framework treats alike, one; and none that has the network run over all rows, or wants its own loop
IN_FRAMEWORKS = list(
    {
        (
            method.privileged,
            method.needs_rows,
            method.needs_logits,
            method.needs_epochs,
            method.own_loss,
        ): text
        for text, method in reversed(METHOD_OF.items())
        if not method.full_pass and trains_plainly(method)
    }.values()
)


def answered(method: adaptivek.Method | type[adaptivek.Method], logits: torch.Tensor) -> torch.Tensor:
    """Logits (..., B, classes) as a method wants them: beside them those of a second network or view, if it has one."""
    return logits if outputs(method) == 1 else torch.stack([logits, logits.roll(1, -1) * 0.9], -3)


def swept(
    method: adaptivek.Method | type[adaptivek.Method], rows: int, seed: int = 0, classes: int = CLASSES
) -> torch.Tensor:
    """What a full pass over the training set may give: a loss for each row, features or logits."""
    size = {"features": (rows, 3), "logits": (rows, classes)}.get(method.full_pass, (rows,))
    return torch.rand(size, generator=torch.Generator().manual_seed(seed)) * 4


STARTED = "label-memory that begins with predictions"


def make(text: str, warmup: int = 2) -> adaptivek.Selection:
    if text == STARTED:
        predictions = torch.randn(ROWS, CLASSES, generator=torch.Generator().manual_seed(0)).softmax(1)
        return adaptivek.Selection(warmup=warmup, start=predictions)
    truth = {"clean": CLEAN} if text == "oracle" else {}
    return adaptivek.Selection(text, warmup=warmup, rows=ROWS, classes=CLASSES, **truth)


def judge(
    criterion: adaptivek.Selection, logits: torch.Tensor, labels: torch.Tensor, rows: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """A step of the criterion; the sum of the losses by its own measure, each times its weight, and of the weights."""
    logits = answered(criterion.method, logits)
    inputs = adaptivek.Inputs(logits=logits, labels=labels, rows=rows)
    _, outcome = adaptivek.train_step(criterion.method, criterion.memory, inputs)
    criterion(logits, labels, rows)
    return (outcome.losses * criterion.weights).sum(), criterion.weights.sum(-1).max()  # as many for each network


class Begun(NamedTuple):
    begun: torch.Tensor


@dataclass(frozen=True)
class CountsEpochs(adaptivek.Method[Begun]):
    """Keeps everything and counts the epochs that it is told of."""

    name: ClassVar[str] = "counts-epochs"
    needs_epochs: ClassVar[bool] = True

    def init(self, task: adaptivek.Task) -> Begun:
        return Begun(torch.zeros(()))

    def step(self, state: Begun, batch: adaptivek.Batch) -> adaptivek.Decision:
        return adaptivek.Decision(batch.valid)

    def start_epoch(self, state: Begun, epoch: int, full_pass: torch.Tensor | None) -> Begun:
        return Begun(state.begun + 1)


class Net(nn.Module):
    """Takes and gives dicts, as Hugging Face's models do."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, CLASSES))

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        return {"logits": self.layers(x)}


class Rows(Dataset):
    """Inputs far apart, so that some losses are high; dicts, as Hugging Face has them."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(ROWS, 6, generator=generator) * 8
        self.y = torch.randint(CLASSES, (ROWS,), generator=generator)

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        return {"x": self.x[row], "labels": self.y[row]}


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


class Recorder:
    """What was kept at each step, in order, and in how many steps some label was doubted but not all of them."""

    def __init__(self, criterion: adaptivek.Selection) -> None:
        self.kept: list[list[bool]] = []
        self.partial = 0
        reduce = criterion._run
        self.criterion = criterion

        def run(*args: object) -> torch.Tensor:
            loss = reduce(*args)
            self.kept.append((criterion.confidence > 0).flatten().tolist())
            self.partial += 0 < float(criterion.confidence.sum()) < criterion.confidence.numel()
            return loss

        criterion._run = run


def plain_loop(
    text: str, epochs: int, window: int = 1, half: torch.dtype | None = None
) -> tuple[Net, adaptivek.Selection, list[list[bool]]]:
    """Rows in order; steps of ``window`` batches, normalised by what was kept, sums first and divided once."""
    data, model, criterion = Rows(), Net(), make(text)
    step, kept = optimizer(model), []
    starts = list(range(0, ROWS, SIZE))
    for epoch in range(epochs):
        if criterion.method.needs_epochs:
            criterion.start_epoch(epoch)
        for at in range(0, len(starts), window):
            total, number = torch.zeros(()), torch.zeros(())
            for start in starts[at : at + window]:
                rows = torch.arange(start, start + SIZE)
                with torch.autocast("cpu", half, enabled=half is not None):
                    logits = model(data.x[rows])["logits"]
                part, weight = judge(criterion, logits, data.y[rows], rows)
                kept.append((criterion.confidence > 0).tolist())
                total, number = total + part, number + weight
            step.zero_grad()
            (total / number.clamp(min=1)).backward()
            step.step()
    return model, criterion, kept


def distance(found: nn.Module, expected: nn.Module) -> float:
    """Between what two networks have learned since they were made, relative to the second."""
    start, a, b = (
        torch.cat([p.detach().cpu().flatten() for p in model.parameters()]) for model in (Net(), found, expected)
    )
    assert torch.isfinite(a).all()
    assert not torch.equal(a, start)
    return ((a - b).norm() / (b - start).norm()).item()


def digits_accuracy(text: str, labels: torch.Tensor, epochs: int) -> float:
    """Test accuracy of a perceptron that learns digits with these labels by a method, long enough to memorise them."""
    data = load("digits")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = adaptivek.Selection(text, rows=len(labels), classes=10)
    for _ in range(epochs):
        for index in torch.randperm(len(labels)).split(16):
            optimizer.zero_grad()
            criterion(model(data.x[index]), labels[index], index).backward()
            optimizer.step()
    return (model.eval()(data.x_test).argmax(1) == data.y_test).float().mean().item()
