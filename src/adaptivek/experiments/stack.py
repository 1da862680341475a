"""Many runs trained as one program: parameters, labels and orders stacked, one launch for all of them.

Runs of one data set differ in labels, order, dropout and method only. A small network leaves a GPU idle while
its kernels are launched one by one; a hundred of them side by side, recorded as a CUDA graph, do not.
A network that fills the GPU by itself goes through here too, as a stack of one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from ..networks import Conv2d, make_model, stackable
from ..networks.dropout import set_keys
from ..networks.views import augment, distort
from ..step import Inputs, Memory, begin_epoch, cross_entropy, remember, train_step
from ..support.device import find_device
from ..support.threads import flops, suited
from ..training.mixup import mix
from .groups import Group, StackedGroup, check_alike, group_key, in_groups, with_parameters
from .loop import TEST_ROWS, Loop, Predict, autocast, recorded
from .prepare import Draws, Job
from .records import Detail, EpochRecord

EAGER_STEPS = 3  # before a graph is recorded, for what libraries set up on first use


class Stack(Loop):
    """Runs trained together. Iterating it gives, for each epoch, the record of every run.

    A run comes out the same alone or in any company, to the precision of the arithmetic.

    Args:
        jobs: the runs, made ready by `prepare`; of one `shape`. None of them may ask for `reforward`.
        device: where; the GPU if there is one, unless told.
        cuda_graph: on a GPU, record the step once and replay it.
    """

    groups: list[StackedGroup]

    def __init__(self, jobs: list[Job], device: str | torch.device = "auto", cuda_graph: bool = True) -> None:
        found = find_device(device)
        check_alike(jobs)
        # runs of one group side by side; `_places` has the run of each of the caller's jobs
        order = sorted(range(len(jobs)), key=[group_key(job) for job in jobs].__getitem__)
        self._places = sorted(range(len(jobs)), key=order.__getitem__)
        super().__init__([jobs[place] for place in order], found)
        self._gpu = self.device.type == "cuda"
        self._record_graph = cuda_graph and self._gpu
        self._graph: torch.cuda.CUDAGraph | None = None
        self.groups = in_groups(self.jobs, self.device)
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
        self.threads = 0 if self._gpu else suited(flops(self.model, self._x[:size]) * len(self._run_of))

    def __iter__(self) -> Iterator[list[EpochRecord]]:
        return ([records[run] for run in self._places] for records in self._epochs())

    @property
    def details(self) -> list[list[Detail]]:
        return [self._details[run] for run in self._places]

    def _build_networks(self) -> None:
        data, recipe = self.jobs[0].data, self.recipe
        fresh = self._fresh_networks()
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
        self._make_optimizer(list(self._parameters.values()), self.device if self._gpu else None)

    def _load_weights(self, fresh: list[nn.Module]) -> None:
        if stackable(self.recipe.network):
            for name, value in stack_module_state(fresh)[0].items():
                self._parameters[name].copy_(value)
        else:
            self.model.load_state_dict(fresh[0].state_dict())

    def _start_epoch(self, group: Group, full_pass: Tensor | None) -> None:
        assert isinstance(group, StackedGroup)
        for run, method in enumerate(group.methods):
            begin_epoch(method, group.memory_of(run), self.epoch, None if full_pass is None else full_pass[run])

    def _keep_weights(self, run: int) -> None:
        """Records are all that is asked of a stack."""

    def _noise_ratios_told(self) -> list[float]:
        return torch.cat([group.noise_ratios() for group in self.groups]).tolist()

    def _train(self, drawn: list[Draws]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        self._take(drawn)
        for _ in range(self.steps_per_epoch):
            self._advance()
        losses, weights, confidence = (x.transpose(0, 1) for x in (self._losses, self._weights, self._confidence))
        return losses, weights, confidence, self._thresholds.t()

    def _take(self, drawn: list[Draws]) -> None:
        """What is random in an epoch, into the same memory each time: a recorded graph knows addresses only."""
        self._order = self._fill("_order", torch.stack([run.order for run in drawn], 1))
        keys = [
            run.keys[:, 0].view(self.steps_per_epoch, number, len(self._layers), 2)
            for run, number in zip(drawn, self._numbers, strict=True)
        ]
        self._keys = self._fill("_keys", torch.cat(keys, 1))
        self._moves = self._fill("_moves", torch.stack([run.moves for run in drawn], 1))
        for number, group in enumerate(self.groups):
            for name in ("bends", "partners", "shares"):
                values = torch.stack([getattr(run, name) for run in drawn[group.runs]], 1)
                setattr(self, f"_{name}_{number}", self._fill(f"_{name}_{number}", values))
        self._now.zero_()

    def _fill(self, name: str, value: Tensor) -> Tensor:
        filled: Tensor | None = getattr(self, name, None)
        return value.to(self.device) if filled is None else filled.copy_(value)

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
        rows, keys, moves = (drawn.index_select(0, self._now)[0] for drawn in (self._order, self._keys, self._moves))
        x, labels = self._x[self._rows.gather(1, rows)[self._run_of]], self._labels.gather(1, rows)
        if self.recipe.augment:
            x = augment(x.flatten(0, 1), moves[self._run_of].flatten(0, 1)).view_as(x)
        weak = {number: self._weak(number, x) for number, group in enumerate(self.groups) if group.method.views > 1}
        mixed = {
            number: self._mix(number, x, labels) for number, group in enumerate(self.groups) if group.method.mixing
        }
        logits = self._output(x, keys).float()
        plain = cross_entropy(logits.flatten(0, 1), labels[self._run_of].flatten()).view(logits.shape[:-1])
        main, total, columns = plain.detach()[self._first], plain.new_zeros(()), []
        for number, group in enumerate(self.groups):
            seen = logits[group.networks]
            if group.method.networks > 1:
                seen = seen.view(-1, group.method.networks, *seen.shape[1:])
            if number in weak:
                own = weak[number]
                main[group.runs] = cross_entropy(own.flatten(0, 1), labels[group.runs].flatten()).view(own.shape[:-1])
                seen = torch.stack([own, seen], 1)
            given, losses = {"labels": labels[group.runs]}, plain[group.networks]
            if number in mixed:
                given = {"targets": mixed[number]}
                losses = cross_entropy(seen.flatten(0, 1), mixed[number].flatten(0, 1)).view(losses.shape)
                main[group.runs] = losses.detach()
            given = given | {"logits": seen} if group.method.needs_logits else {"losses": losses}
            means, *found = self._decide(group, given | {"rows": rows[group.runs]})
            total = total + means.sum()  # no run has a say in another's gradient
            columns.append(found)
        self._update_weights(total)
        self._losses.index_copy_(0, self._now, main[None])
        for record, column in zip(
            (self._weights, self._confidence, self._thresholds), zip(*columns, strict=True), strict=True
        ):
            record.index_copy_(0, self._now, torch.cat(column)[None])
        self._now += 1

    def _decide(self, group: StackedGroup, given: dict[str, Tensor]) -> tuple[Tensor, ...]:
        """A step of a group, each run with its own parameters and memory: losses, weights, confidences, thresholds."""

        def one(values: dict[str, Tensor], memory: Memory, given: dict[str, Tensor]) -> tuple[Tensor, ...]:
            method = with_parameters(group.method, values)
            loss, outcome = train_step(method, memory, Inputs(**given))
            remember(method, memory, outcome)
            threshold = method.loss_threshold(memory.state)
            weights, confidence = recorded(method, outcome.weights), recorded(method, outcome.confidence)
            return loss, weights, confidence, loss.detach() * math.nan if threshold is None else threshold.clone()

        return vmap(one)(group.varying, group.memory, given)

    def _weak(self, number: int, x: Tensor) -> Tensor:
        """Logits of the weak view of a group; in ``x`` its images are the strong one from now on."""
        networks = self.groups[number].networks
        weak, bends = x[networks].clone(), getattr(self, f"_bends_{number}").index_select(0, self._now)[0]
        x[networks] = distort(weak.flatten(0, 1), bends.flatten(0, 1)).view_as(weak)
        parameters = {name: value[networks] for name, value in self._parameters.items()}
        return self._weak_logits(functools.partial(self._predict, parameters), weak)

    def _mix(self, number: int, x: Tensor, labels: Tensor) -> Tensor:
        """What a group that mixes is to learn, (runs, batch, classes); in ``x`` its inputs are mixed from now on."""
        group, classes = self.groups[number], self.jobs[0].data.classes
        partners, shares = (
            getattr(self, f"_{name}_{number}").index_select(0, self._now)[0] for name in ("partners", "shares")
        )
        x[group.networks] = vmap(mix)(x[group.networks], partners, shares)
        return vmap(mix)(F.one_hot(labels[group.runs], classes).float(), partners, shares)

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

    def _predictor(self, runs: Tensor, features: bool = False) -> Predict:
        parameters = {name: value[self._first[runs]] for name, value in self._parameters.items()}
        # compiled, a network has its head for good
        return functools.partial(self._predict, parameters, plainly=features)

    def _predict(self, parameters: Mapping[str, Tensor], x: Tensor, plainly: bool = False) -> Tensor:
        """Logits without dropout, (runs, rows, classes), uncompiled where ``plainly``."""
        each = x.dim() > self._x.dim()  # or all runs have the same rows
        with autocast(self.recipe, self.device):
            if not stackable(self.recipe.network):
                run = self.model.forward if plainly else self.model
                return run(x[0] if each else x)[None]  # type: ignore[no-any-return]
            return vmap(self._one, (0, None, 0 if each else None))(parameters, {}, x)

    @torch.no_grad()
    def predicted(self) -> Tensor:
        """How often each run predicts each class on its test set, (runs, classes), in the order the jobs were given."""
        self.model.eval()
        found = torch.zeros(len(self.jobs), self.jobs[0].data.classes, dtype=torch.int64)
        for x_test, _, runs in self._tests:
            for run in runs:
                predict = self._predictor(run[None])
                for x in torch.split(x_test, TEST_ROWS):
                    classes = predict(x).argmax(-1).flatten().cpu()
                    found[run] += torch.bincount(classes, minlength=found.shape[1])
        return found[self._places]


@functools.lru_cache(maxsize=1)
def _compiled(network: str, inputs: int, classes: int, device: torch.device) -> nn.Module:
    """A large network, compiled. Kept for the runs to come, which only load their own weights into it:
    compiling takes longer than an epoch."""
    model = make_model(network, inputs, classes).to(device)
    if device.type == "cuda":
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        model.compile()
    return model
