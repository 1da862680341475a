"""An epoch, written once: for one run alone (`session`) and for many side by side (`stack`)."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ..method import Method, outputs
from ..networks import without_head
from ..networks.dropout import dropout_layers
from ..step import cross_entropy
from ..support.optimizers import make_optimizer
from ..support.threads import using
from ..training.ema import EMA
from .groups import Group
from .prepare import Draws, Job, draws, fresh_networks
from .records import Detail, EpochRecord, Reached, Steps, epoch_record, look_closer, measure, pace
from .spec import Recipe

TEST_ROWS = 2_000  # at a time

#: from inputs, (rows, ...) for all runs or (runs, rows, ...), to logits without dropout, (runs, rows, classes)
Predict = Callable[[Tensor], Tensor]


class Loop(ABC):
    """Runs trained epoch by epoch. Every tensor has an axis for the runs in front, also where there is but one.

    A subclass builds the networks, and says how a batch goes through them.

    Args:
        jobs: the runs, in the order of their groups; of one recipe, but for warm-up, and one shape of data.
        device: where.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    average: EMA | None  #: of the weights, if the recipe has them averaged
    threads: int  #: on a processor; 0 on a GPU, where they do not matter
    groups: Sequence[Group]

    def __init__(self, jobs: list[Job], device: torch.device) -> None:
        self.jobs, self.device, self.recipe = jobs, device, jobs[0].spec.recipe
        self.epoch, self.steps_per_epoch = 0, jobs[0].steps_per_epoch
        self._details = [list[Detail]() for _ in jobs]
        self._reached = [Reached()] * len(jobs)
        splits = list({id(job.data): job.data for job in jobs}.values())
        split_of = torch.tensor([next(i for i, one in enumerate(splits) if one is job.data) for job in jobs])
        self._tests = [
            (split.x_test.to(device), split.y_test.to(device), (split_of == i).nonzero().flatten().to(device))
            for i, split in enumerate(splits)
        ]
        self._x = (splits[0].x if len(splits) == 1 else torch.cat([split.x for split in splits])).to(device)
        # where the rows of each run are in that
        offset = split_of.unsqueeze(1) * len(splits[0].x)
        self._rows = (torch.stack([job.rows for job in jobs]) + offset).to(device)
        self._held_out = (torch.stack([job.held_out for job in jobs]) + offset).to(device)
        self._held_out_labels = torch.stack([job.held_out_labels for job in jobs]).to(device)
        self._labels = torch.stack([job.labels for job in jobs]).to(device)
        self._clean = torch.stack([job.clean for job in jobs]).to(device)
        self._runs = torch.arange(len(jobs), device=device)
        self._layers = list(dropout_layers(fresh_networks(jobs[0])[0]))  # of dropout, in each network

    # how a batch goes through the networks

    @abstractmethod
    def _train(self, drawn: list[Draws]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Do the steps of an epoch: the losses, weights and confidences, (runs, steps, batch), and the thresholds."""

    @abstractmethod
    def _predictor(self, runs: Tensor, features: bool = False) -> Predict:
        """What the first network of each of these runs predicts; for ``features``, its head has been taken off."""

    @abstractmethod
    def _start_epoch(self, group: Group, full_pass: Tensor | None) -> None:
        """Tell the methods of a group that an epoch begins; ``full_pass`` has an entry for each run."""

    @abstractmethod
    def _load_weights(self, fresh: list[nn.Module]) -> None:
        """Take over the weights of these networks: those of the first run, then those of the next."""

    @abstractmethod
    def _keep_weights(self, run: int) -> None:
        """Called when a run has done better on its held-out rows than ever before."""

    @abstractmethod
    def _noise_ratios_told(self) -> list[float]:
        """What the method of each run says of the noise ratio."""

    # what an epoch is

    def _epochs(self) -> Iterator[list[EpochRecord]]:
        """Train. Each turn is an epoch, and gives the record of every run."""
        while self.epoch < self.recipe.epochs:
            with using(self.threads or torch.get_num_threads()):
                records = self._run_epoch()
            yield records

    def _run_epoch(self) -> list[EpochRecord]:
        started = time.perf_counter()
        drawn = [draws(job, len(self._layers) * job.spec.make_method().networks, self.epoch) for job in self.jobs]
        for group in self.groups:
            self._start_epoch(group, self._full_pass(group) if group.method.full_pass else None)
        age = self.groups[0].method.epochs_since_restart(self.epoch)  # the same in all groups
        if self.epoch > 0 and age == 0:
            self._restart()
        self._set_learning_rate(self.recipe.learning_rate_at(age))
        self.model.train()
        losses, weights, confidence, thresholds = self._train(drawn)
        order = torch.stack([run.order for run in drawn]).to(self.device)
        clean = self._clean.gather(1, order.flatten(1)).view_as(order)
        steps = Steps(losses, weights, confidence, clean, thresholds)
        columns = {name: values.tolist() for name, values in measure(steps).items()}  # waits for the device
        columns["noise_ratio_told"] = self._noise_ratios_told()
        rate = pace(order, started)
        with self._averaged():
            accuracies, validations = self._test().tolist(), self._validate().tolist()
        selecting = [self._selecting(warmup) for group in self.groups for warmup in group.warmups]
        self.epoch += 1
        records = []
        for run, job in enumerate(self.jobs):
            if self.epoch in job.spec.recipe.stages():
                self._details[run].append(look_closer(self.epoch, Steps(*(values[run] for values in steps))))
            before = self._reached[run]
            reached = self._reached[run] = before.after(accuracies[run], validations[run])
            if reached.validation > before.validation:
                self._keep_weights(run)
            measured = {name: values[run] for name, values in columns.items()}
            records.append(
                epoch_record(self.epoch, selecting[run], reached, validations[run], job.noise, rate, measured)
            )
        return records

    def _selecting(self, warmup: int) -> bool:
        """Whether a warm-up of so many steps is over."""
        return self.epoch * self.steps_per_epoch >= warmup

    def _fresh_networks(self) -> list[nn.Module]:
        return [network for job in self.jobs for network in fresh_networks(job)]

    def _make_optimizer(self, weights: list[nn.Parameter], graph_on: torch.device | None = None) -> None:
        recipe = self.recipe
        self.optimizer = make_optimizer(
            recipe.optimizer,
            weights,
            recipe.learning_rate,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
            graph_on=graph_on,
        )
        self.average = EMA(weights, recipe.average) if recipe.average else None

    def _set_learning_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _update_weights(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if self.average is not None:
            self.average.update()

    @torch.no_grad()
    def _restart(self) -> None:
        """Begin again from fresh weights, with an optimiser that knows nothing; in the same memory."""
        self._load_weights(self._fresh_networks())
        for state in self.optimizer.state.values():
            for value in state.values():
                if isinstance(value, Tensor):
                    value.zero_()
        if self.average is not None:
            self.average.restart()

    def _averaged(self) -> AbstractContextManager[None]:
        """Within, the networks have their averaged weights, if the recipe has them averaged."""
        return nullcontext() if self.average is None else self.average.in_use()

    # what the networks make of data that is not trained on at the moment

    @torch.no_grad()
    def _weak_logits(self, predict: Predict, x: Tensor) -> Tensor:
        """Logits of the weak view in the midst of training: of images as they are, without dropout."""
        self.model.eval()
        logits = predict(x).float()
        self.model.train()
        return logits

    @torch.no_grad()
    def _full_pass(self, group: Group) -> Tensor:
        """Of all training rows of a group, (runs, rows): the losses, or (runs, rows, size): the features or logits."""
        self.model.eval()
        wanted, runs, found = group.method.full_pass, self._runs[group.runs], list[Tensor]()
        features = wanted == "features"
        predict = self._predictor(runs, features)
        with without_head(self.model) if features else nullcontext():
            for rows, labels in in_turn(self._rows[runs], self._labels[runs], axis=1):
                output = predict(self._x[rows]).float()
                if wanted == "losses":
                    output = cross_entropy(output.flatten(0, 1), labels.flatten()).view(labels.shape)
                found.append(output)
        return torch.cat(found, 1)

    @torch.no_grad()
    def _test(self) -> Tensor:
        """Accuracy of every run on its test set."""
        self.model.eval()
        accuracies = torch.zeros(len(self.jobs), dtype=torch.float64, device=self.device)
        for x_test, y_test, runs in self._tests:
            predict, hits = self._predictor(runs), torch.zeros(len(runs), dtype=torch.int64, device=self.device)
            for x, y in in_turn(x_test, y_test, axis=0):
                hits += (predict(x).argmax(-1) == y).sum(-1)
            accuracies[runs] = hits.double() / len(y_test)
        return accuracies

    @torch.no_grad()
    def _validate(self) -> Tensor:
        """Accuracy of every run on its held-out rows, with their noisy labels; NaN if there are none."""
        runs, number = self._held_out.shape
        if not number:
            return torch.full((runs,), math.nan)
        self.model.eval()
        predict, hits = self._predictor(self._runs), torch.zeros(runs, dtype=torch.int64, device=self.device)
        for rows, labels in in_turn(self._held_out, self._held_out_labels, axis=1):
            hits += (predict(self._x[rows]).argmax(-1) == labels).sum(-1)
        return hits.double() / number


def in_turn(x: Tensor, y: Tensor, axis: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Both, some of their rows at a time; rows are this axis."""
    return zip(torch.split(x, TEST_ROWS, axis), torch.split(y, TEST_ROWS, axis), strict=True)


def recorded(method: Method[Any], weights: Tensor | None) -> Tensor:
    """Of weights with several outputs of each sample, (..., outputs, B), those that go into the records: of the
    first network, or of the view that is learned from."""
    assert weights is not None  # there has been a step
    return weights if outputs(method) == 1 else weights[..., 0 if method.networks > 1 else -1, :]


def autocast(recipe: Recipe, device: torch.device) -> torch.autocast:
    """The precision of the forward pass."""
    enabled = recipe.precision_on(device.type) == "bfloat16"
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)
