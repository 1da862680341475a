"""Runs of a stack that have the same method, and what all runs of a stack must have in common."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from ..backend.noise_found import noise_ratio
from ..method import Method, Task, parameters
from ..networks import stackable
from ..step import Memory, start
from .data import Split
from .prepare import Job
from .spec import Recipe, RunSpec


def shape(data: Split) -> tuple[object, ...]:
    """What the data of runs must have in common to be stacked; they must also have one recipe, but for warm-up."""
    return data.x.shape, data.classes, data.inputs


def check_alike(jobs: list[Job]) -> Recipe:
    """The recipe of runs that can be one stack; raises what keeps them from it."""
    if not jobs:
        raise ValueError("Stack: jobs must be at least one, got none")
    recipe = jobs[0].spec.recipe
    if len({(job.spec.recipe.without_warmup(), shape(job.data)) for job in jobs}) > 1:
        raise ValueError("Stack: jobs must have one recipe, but for warm-up, and one shape of data, got several")
    if any(job.spec.reforward for job in jobs):
        raise ValueError("Stack: reforward must be False (how many are kept is not known beforehand), got True")
    if recipe.views > 1:
        raise ValueError(f"Stack: views must be 1 (an averaged network judges each run), got {recipe.views}")
    if len(jobs) > 1 and not stackable(recipe.network):
        raise ValueError(f"Stack: jobs must be one at a time for {recipe.network}, got {len(jobs)}")
    methods = [job.spec.make_method() for job in jobs]
    frozen = [method.name for method in methods if method.freezes]
    if frozen:
        raise ValueError(f"Stack: method must be one that freezes no parts of a network, got {frozen[0]}")
    if len({restarts(job.spec) for job in jobs}) > 1:
        raise ValueError("Stack: jobs must restart with fresh weights in the same epochs, got several ways")
    if not stackable(recipe.network) and methods[0].networks > 1:
        raise ValueError(f"Stack: method must have one network for {recipe.network}, got {methods[0].name}")
    return recipe


@dataclass(frozen=True)
class Group:
    """Runs side by side that have the same method, but for its real numbers."""

    methods: list[Method[Any]]  #: of each run
    runs: slice
    warmups: list[int]  #: of each run, in steps

    @property
    def method(self) -> Method[Any]:
        """The first, for what they have in common."""
        return self.methods[0]


@dataclass(frozen=True)
class StackedGroup(Group):
    """A group of a stack, with what its methods remember."""

    networks: slice  #: those of these runs, one run after the other
    varying: dict[str, Tensor]  #: the parameters that differ, (runs,) each
    memory: Memory  #: of all runs, stacked

    def memory_of(self, run: int) -> Memory:
        """That of one run, in the same place: what is written there is written here."""
        return Memory(*(type(piece)(*(value[run] for value in piece)) for piece in self.memory))

    def noise_ratios(self) -> Tensor:
        """What the method of each run says, (runs,). Does not wait for the device."""

        def of_run(values: dict[str, Tensor], memory: Memory) -> Tensor:
            return noise_ratio(with_parameters(self.method, values), memory)

        return vmap(of_run)(self.varying, self.memory)


def group_key(job: Job) -> tuple[str, ...]:
    """The method of a run without its real numbers, which may differ within a group."""
    method = job.spec.make_method()
    others = {name: value for name, value in dataclasses.asdict(method).items() if not isinstance(value, float)}  # type: ignore[call-overload]
    return method.name, str(others)


def varying(methods: list[Method[Any]], device: torch.device) -> dict[str, Tensor]:
    """The parameters in which methods of one `group_key` differ, (methods,) each."""
    values = {name: [getattr(method, name) for method in methods] for name in parameters(methods[0])}
    return {name: torch.tensor(them, device=device) for name, them in values.items() if len(set(them)) > 1}


def with_parameters(method: Method[Any], values: Mapping[str, Tensor]) -> Method[Any]:
    """The method with these in place of its own: numbers that were checked when each method was built."""
    changed = copy.copy(method)
    for name, value in values.items():
        object.__setattr__(changed, name, value)
    return changed


def warmup_steps(job: Job) -> int:
    """Before the method of a run begins; 0 for one that wants no warm-up."""
    return job.spec.recipe.warmup_epochs * job.steps_per_epoch if job.spec.make_method().wants_warmup else 0


def in_groups(runs: list[Job], device: torch.device) -> list[StackedGroup]:
    """The groups of a stack of runs, which must be in the order of their `group_key`."""
    groups, first, network = [], 0, 0
    for _, members in itertools.groupby(runs, group_key):
        jobs = list(members)
        methods = [job.spec.make_method() for job in jobs]
        warmups = [warmup_steps(job) for job in jobs]
        memories = [
            start(method, Task(job.clean if method.privileged else None, len(job.labels), job.data.classes), steps)
            for method, job, steps in zip(methods, jobs, warmups, strict=True)
        ]
        memory = Memory(
            *(
                type(pieces[0])(*(torch.stack(values).to(device) for values in zip(*pieces, strict=True)))
                for pieces in zip(*memories, strict=True)
            )
        )
        last, last_network = first + len(jobs), network + len(jobs) * methods[0].networks
        groups.append(
            StackedGroup(
                methods, slice(first, last), warmups, slice(network, last_network), varying(methods, device), memory
            )
        )
        first, network = last, last_network
    return groups


def restarts(spec: RunSpec) -> tuple[int, ...]:
    """For each epoch, how many have passed since the last restart: one optimiser serves a whole stack."""
    method = spec.make_method()
    return tuple(method.epochs_since_restart(epoch) for epoch in range(spec.recipe.epochs))
