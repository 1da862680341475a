"""Many runs trained as one program: parameters, labels and orders stacked, one launch for all of them.

Runs of one data set differ in labels, order, dropout and rule only. A small network leaves a GPU idle while
its kernels are launched one by one; a hundred of them side by side, recorded as a CUDA graph, do not.
A network that fills the GPU by itself goes through here too, as a stack of one.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from ..networks import Conv2d, make_model, stackable, without_head
from ..networks.dropout import dropout_layers, set_keys
from ..networks.views import augment, distort
from ..step import Inputs, Memory, begin_epoch, cross_entropy, remember, train_step
from ..support.device import find_device
from ..support.threads import flops, suited, using
from ..training.ema import EMA
from .groups import Part, check_alike, in_parts, rule, with_parameters
from .prepare import Job, draws, fresh_networks
from .records import Detail, EpochRecord, Reached, Steps, epoch_record, look_closer, measure, pace
from .session import autocast, make_optimizer, recorded

EAGER_STEPS = 3  # before a graph is recorded, for what libraries set up on first use
TEST_ROWS = 2_000  # at a time


class Stack:
    """Runs trained together. Iterating it gives, for each epoch, the record of every run.

    A run comes out the same alone or in any company, to the precision of the arithmetic.

    Args:
        jobs: the runs, made ready by `prepare`; of one `shape`. None of them may ask for `reforward`.
        device: where; the GPU if there is one, unless told.
        cuda_graph: on a GPU, record the step once and replay it.
    """

    def __init__(self, jobs: list[Job], device: str | torch.device = "auto", cuda_graph: bool = True) -> None:
        self.device = find_device(device)
        self.recipe = check_alike(jobs)
        self.epoch, self.details = 0, [list[Detail]() for _ in jobs]
        self._reached = [Reached()] * len(jobs)
        # runs of one rule side by side; `jobs` is in this order, `_places` leads back to the caller's
        self._places = sorted(range(len(jobs)), key=[rule(job) for job in jobs].__getitem__)
        self.jobs = [jobs[place] for place in self._places]
        self.steps_per_epoch = jobs[0].steps_per_epoch
        self._gpu = self.device.type == "cuda"
        self._record_graph = cuda_graph and self._gpu
        self._graph: torch.cuda.CUDAGraph | None = None

        splits = list({id(job.data): job.data for job in self.jobs}.values())
        self._split_of = [next(i for i, split in enumerate(splits) if split is job.data) for job in self.jobs]
        self._tests = [(split.x_test.to(self.device), split.y_test.to(self.device)) for split in splits]
        self._x = torch.cat([split.x for split in splits]).to(self.device)
        # where the rows of each run are in that
        offset = torch.tensor(self._split_of).unsqueeze(1) * len(jobs[0].data.x)
        self._where = (torch.stack([job.rows for job in self.jobs]) + offset).to(self.device)
        self._held = (torch.stack([job.held for job in self.jobs]) + offset).to(self.device)
        self._held_labels = torch.stack([job.held_labels for job in self.jobs]).to(self.device)
        self._labels = torch.stack([job.labels for job in self.jobs]).to(self.device)
        self._clean = torch.stack([job.clean for job in self.jobs]).to(self.device)

        self._parts = in_parts(self.jobs, self.recipe.warmup_epochs * self.steps_per_epoch, self.device)
        # the number of networks of each run, the run of each network, and the first network of each run
        self._numbers = [job.spec.make_method().networks for job in self.jobs]
        numbers = torch.tensor(self._numbers)
        self._run_of = torch.arange(len(jobs)).repeat_interleave(numbers).to(self.device)
        self._first = (numbers.cumsum(0) - numbers).to(self.device)
        self._build_networks()
        runs, size, steps = len(jobs), self.recipe.batch_size, self.steps_per_epoch
        self._now = torch.zeros(1, dtype=torch.int64, device=self.device)  # step of the epoch
        self._losses = torch.zeros(steps, runs, size, device=self.device)
        self._weights, self._confidence = torch.zeros_like(self._losses), torch.zeros_like(self._losses)
        self._thresholds = torch.full((steps, runs), math.nan, device=self.device)
        #: 0: they do not matter
        self.threads = 0 if self._gpu else suited(flops(self.model, self._x[:size]) * len(self._run_of))

    def __iter__(self) -> Iterator[list[EpochRecord]]:
        while self.epoch < self.recipe.epochs:
            with using(self.threads or torch.get_num_threads()):
                records = self._run_epoch()
            yield records

    def _build_networks(self) -> None:
        data, recipe = self.jobs[0].data, self.recipe
        fresh = self._fresh()
        if stackable(recipe.network):
            stacked, _ = stack_module_state(fresh)
            self.model = fresh[0].to(self.device)
            for module in self.model.modules():
                if isinstance(module, Conv2d):
                    module.as_product = self._gpu
            self._parameters = {name: nn.Parameter(value.detach().to(self.device)) for name, value in stacked.items()}
        else:
            self.model = _compiled(recipe.network, data.inputs, data.classes, self.device)
            self.model.load_state_dict(fresh[0].state_dict())
            self._parameters = dict(self.model.named_parameters())
        self._layers = list(dropout_layers(self.model))
        self.optimizer = make_optimizer(recipe, self._parameters.values(), self.device if self._gpu else None)
        self._average = EMA(self._parameters.values(), recipe.average) if recipe.average else None

    def _fresh(self) -> list[nn.Module]:
        return [network for job in self.jobs for network in fresh_networks(job)]

    @torch.no_grad()
    def _begin_anew(self) -> None:
        """With the weights of the beginning, and an optimiser that knows nothing; in the same memory."""
        fresh = self._fresh()
        if stackable(self.recipe.network):
            for name, value in stack_module_state(fresh)[0].items():
                self._parameters[name].copy_(value)
        else:
            self.model.load_state_dict(fresh[0].state_dict())
        for state in self.optimizer.state.values():
            for value in state.values():
                if isinstance(value, Tensor):
                    value.zero_()
        if self._average is not None:
            self._average.restart()

    def _run_epoch(self) -> list[EpochRecord]:
        started = time.perf_counter()
        drawn = [
            draws(job, number * len(self._layers), self.epoch)
            for job, number in zip(self.jobs, self._numbers, strict=True)
        ]
        # into the same memory each epoch: a recorded graph knows addresses only
        self._order = self._fill("_order", torch.stack([run.order for run in drawn], 1))
        keys = [
            run.keys[:, 0].view(self.steps_per_epoch, number, len(self._layers), 2)
            for run, number in zip(drawn, self._numbers, strict=True)
        ]
        self._keys = self._fill("_keys", torch.cat(keys, 1))
        self._moves = self._fill("_moves", torch.stack([run.moves for run in drawn], 1))
        for number, part in enumerate(self._parts):
            bends = torch.stack([run.bends for run in drawn[part.runs]], 1)
            setattr(self, f"_bends_{number}", self._fill(f"_bends_{number}", bends))
        self._now.zero_()
        for part in self._parts:
            found = self._full_pass(part) if part.method.full_pass else None
            for run, method in enumerate(part.methods):
                begin_epoch(method, part.memory_of(run), self.epoch, None if found is None else found[run])
        age = self._parts[0].method.epochs_since_restart(self.epoch)  # the same in all parts
        if self.epoch > 0 and age == 0:
            self._begin_anew()
        self._set_learning_rate(age)
        self.model.train()
        for _ in range(self.steps_per_epoch):
            self._advance()
        order = self._order.transpose(0, 1)
        clean = self._clean.gather(1, order.flatten(1)).view_as(order)
        losses, weights, confidence = (x.transpose(0, 1) for x in (self._losses, self._weights, self._confidence))
        steps = Steps(losses, weights, confidence, clean, self._thresholds.t())
        columns = {name: value.tolist() for name, value in measure(steps).items()}  # waits for the device
        rate = pace(order, started)
        with nullcontext() if self._average is None else self._average.in_use():
            accuracies, validations = self._evaluate().tolist(), self._validate().tolist()
        self.epoch += 1
        records: list[EpochRecord] = [None] * len(self.jobs)  # type: ignore[list-item]
        for part in self._parts:
            selecting = (self.epoch - 1) * self.steps_per_epoch >= part.warmup
            for run in range(part.runs.start, part.runs.stop):
                place, job = self._places[run], self.jobs[run]
                measured = {name: values[run] for name, values in columns.items()}
                self._reached[place] = self._reached[place].after(accuracies[run], validations[run])
                records[place] = epoch_record(
                    self.epoch, selecting, self._reached[place], validations[run], job.noise, rate, measured
                )
                if self.epoch in self.recipe.stages():
                    one = Steps(*(values[run] for values in steps))
                    self.details[place].append(look_closer(self.epoch, one))
        return records

    def _advance(self) -> None:
        """One step: recorded once there is nothing left to set up, and replayed from then on."""
        if self._graph is not None:
            self._graph.replay()
            return
        if not self._record_graph:
            self._step()
            return
        side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            self._step()
        torch.cuda.current_stream(self.device).wait_stream(side)
        if self.epoch * self.steps_per_epoch + int(self._now) == EAGER_STEPS:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._step()

    def _step(self) -> None:
        """Everything on the device, in the same memory each time, without a look at any value."""
        rows, keys, moves = (part.index_select(0, self._now)[0] for part in (self._order, self._keys, self._moves))
        x, labels = self._x[self._where.gather(1, rows)[self._run_of]], self._labels.gather(1, rows)
        if self.recipe.augment:
            x = augment(x.flatten(0, 1), moves[self._run_of].flatten(0, 1)).view_as(x)
        judged = {number: self._judge(number, x) for number, part in enumerate(self._parts) if part.method.views > 1}
        logits = self._output(x, keys).float()
        plain = cross_entropy(logits.flatten(0, 1), labels[self._run_of].flatten()).view(logits.shape[:-1])
        main, total, columns = plain.detach()[self._first], plain.new_zeros(()), []
        for number, part in enumerate(self._parts):
            seen = logits[part.networks]
            if part.method.networks > 1:
                seen = seen.view(-1, part.method.networks, *seen.shape[1:])
            if number in judged:
                weak = judged[number]
                main[part.runs] = cross_entropy(weak.flatten(0, 1), labels[part.runs].flatten()).view(weak.shape[:-1])
                seen = torch.stack([weak, seen], 1)
            given = {"losses": plain[part.networks]}
            if part.method.needs_logits:
                given = {"logits": seen, "labels": labels[part.runs]}
            means, *found = self._judged(part, given | {"rows": rows[part.runs]})
            total = total + means.sum()  # no run has a say in another's gradient
            columns.append(found)
        self.optimizer.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if self._average is not None:
            self._average.update()
        self._losses.index_copy_(0, self._now, main[None])
        for record, column in zip(
            (self._weights, self._confidence, self._thresholds), zip(*columns, strict=True), strict=True
        ):
            record.index_copy_(0, self._now, torch.cat(column)[None])
        self._now += 1

    def _judged(self, part: Part, given: dict[str, Tensor]) -> tuple[Tensor, ...]:
        """A step of some runs, each with its own parameters and memory: losses, weights, confidences, thresholds."""

        def one(values: dict[str, Tensor], memory: Memory, given: dict[str, Tensor]) -> tuple[Tensor, ...]:
            method = with_parameters(part.method, values)
            loss, outcome = train_step(method, memory, Inputs(**given))
            remember(method, memory, outcome)
            threshold = method.loss_threshold(memory.state)
            weights, confidence = recorded(method, outcome.weights), recorded(method, outcome.confidence)
            return loss, weights, confidence, loss.detach() * math.nan if threshold is None else threshold.clone()

        return vmap(one)(part.varying, part.memory, given)

    def _output(self, x: Tensor, keys: Tensor) -> Tensor:
        """Logits of every run on its own samples, (runs, batch, classes)."""
        with autocast(self.recipe, self.device):
            if not stackable(self.recipe.network):
                set_keys(self.model, keys[0])
                return self.model(x[0])[None]  # type: ignore[no-any-return]
            buffers = {f"{layer}.key": keys[:, i] for i, layer in enumerate(self._layers)}
            return vmap(self._one)(self._parameters, buffers, x)

    def _one(self, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> Tensor:
        output: Tensor = functional_call(self.model, {**parameters, **buffers}, (x,))
        return output

    @torch.no_grad()
    def _judge(self, number: int, x: Tensor) -> Tensor:
        """Logits of the images of a part as they are, without dropout; in ``x`` they are distorted from now on."""
        networks = self._parts[number].networks
        weak, bends = x[networks].clone(), getattr(self, f"_bends_{number}").index_select(0, self._now)[0]
        self.model.eval()
        found = self._test_output({name: value[networks] for name, value in self._parameters.items()}, weak, 0).float()
        self.model.train()
        x[networks] = distort(weak.flatten(0, 1), bends.flatten(0, 1)).view_as(weak)
        return found

    @torch.no_grad()
    def _full_pass(self, part: Part) -> Tensor:
        """Of all training rows of some runs, the losses, (runs, rows), or the features, (runs, rows, size)."""
        self.model.eval()
        runs, features, found = part.runs, part.method.full_pass == "features", []
        parameters = {name: value[self._first[runs]] for name, value in self._parameters.items()}
        for rows in torch.split(torch.arange(self._labels.shape[1], device=self.device), TEST_ROWS):
            x, labels = self._x[self._where[runs, rows]], self._labels[runs, rows]
            with without_head(self.model) if features else nullcontext():
                output = self._test_output(parameters, x, 0, plainly=features).float()
            if not features:
                output = cross_entropy(output.flatten(0, 1), labels.flatten()).view(labels.shape)
            found.append(output)
        return torch.cat(found, 1)

    @torch.no_grad()
    def _validate(self) -> Tensor:
        """Accuracy of every run on the rows it holds out, with their noisy labels; NaN if there are none."""
        self.model.eval()
        hits = torch.zeros(len(self.jobs), dtype=torch.float64, device=self.device)
        number = self._held.shape[1]
        parameters = {name: value[self._first] for name, value in self._parameters.items()}
        for rows in torch.split(torch.arange(number, device=self.device), TEST_ROWS) if number else ():
            found = self._test_output(parameters, self._x[self._held[:, rows]], 0).argmax(-1)
            hits += (found == self._held_labels[:, rows]).sum(-1)
        return hits / number if number else hits * math.nan

    @torch.no_grad()
    def _evaluate(self) -> Tensor:
        """Accuracy of every run on its test set."""
        self.model.eval()
        found = torch.zeros(len(self.jobs), dtype=torch.float64, device=self.device)
        for split, (x_test, y_test) in enumerate(self._tests):
            runs = torch.tensor([run for run, of in enumerate(self._split_of) if of == split], device=self.device)
            parameters = {name: value[self._first[runs]] for name, value in self._parameters.items()}
            hits = torch.zeros(len(runs), dtype=torch.int64, device=self.device)
            for x, y in zip(torch.split(x_test, TEST_ROWS), torch.split(y_test, TEST_ROWS), strict=True):
                hits += (self._test_output(parameters, x, None).argmax(-1) == y).sum(-1)
            found[runs] = hits.double() / len(y_test)
        return found

    @torch.no_grad()
    def predicted(self) -> Tensor:
        """How often each run predicts each class on its test set, (runs, classes), in the order the jobs were given."""
        self.model.eval()
        found = torch.zeros(len(self.jobs), self.jobs[0].data.classes, dtype=torch.int64)
        for run, split in enumerate(self._split_of):
            parameters = {name: value[self._first[run], None] for name, value in self._parameters.items()}
            for x in torch.split(self._tests[split][0], TEST_ROWS):
                answers = self._test_output(parameters, x, None).argmax(-1).flatten().cpu()
                found[self._places[run]] += torch.bincount(answers, minlength=found.shape[1])
        return found

    def _test_output(
        self, parameters: Mapping[str, Tensor], x: Tensor, runs: int | None, plainly: bool = False
    ) -> Tensor:
        """Logits without dropout, (runs, rows, classes); ``runs`` is the axis of x for them, if it has one.

        Uncompiled where ``plainly``.
        """
        with autocast(self.recipe, self.device):
            if not stackable(self.recipe.network):
                run = self.model.forward if plainly else self.model
                return run(x if runs is None else x[0])[None]  # type: ignore[no-any-return]
            return vmap(self._one, (0, None, runs))(parameters, {}, x)

    def _set_learning_rate(self, age: int) -> None:
        rate, group = self.recipe.learning_rate_at(age), self.optimizer.param_groups[0]
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate

    def _fill(self, name: str, value: Tensor) -> Tensor:
        held: Tensor | None = getattr(self, name, None)
        return value.to(self.device) if held is None else held.copy_(value)


@functools.lru_cache(maxsize=1)
def _compiled(network: str, inputs: int, classes: int, device: torch.device) -> nn.Module:
    """A large network, compiled. Kept for the runs to come, which only load their own weights into it:
    compiling takes longer than an epoch."""
    model = make_model(network, inputs, classes).to(device)
    if device.type == "cuda":
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        model.compile()
    return model
