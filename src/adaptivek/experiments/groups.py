"""Runs of a stack that follow the same rule, and what they must have in common."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..method import Method, Task, parameters
from ..networks import stackable
from ..step import Memory, start
from .data import Split
from .prepare import Job
from .spec import Recipe, RunSpec


def shape(data: Split) -> tuple[object, ...]:
    """What the data of runs must have in common to be stacked; they must also have one recipe."""
    return data.x.shape, data.classes, data.inputs


def check_alike(jobs: list[Job]) -> Recipe:
    """The recipe of runs that can be one stack; raises what keeps them from it."""
    if not jobs:
        raise ValueError("Stack: jobs must be at least one, got none")
    recipe = jobs[0].spec.recipe
    if len({(job.spec.recipe, shape(job.data)) for job in jobs}) > 1:
        raise ValueError("Stack: jobs must have one recipe and one shape of data, got several")
    if any(job.spec.reforward for job in jobs):
        raise ValueError("Stack: reforward must be False (how many are kept is not known beforehand), got True")
    if len(jobs) > 1 and not stackable(recipe.network):
        raise ValueError(f"Stack: jobs must be one at a time for {recipe.network}, got {len(jobs)}")
    methods = [job.spec.make_method() for job in jobs]
    if len({ages(job.spec) for job in jobs}) > 1:
        raise ValueError("Stack: jobs must begin anew in the same epochs, got several ways")
    if not stackable(recipe.network) and methods[0].networks > 1:
        raise ValueError(f"Stack: method must have one network for {recipe.network}, got {methods[0].name}")
    return recipe


class Part(NamedTuple):
    """The runs of a stack that follow the same rule."""

    methods: list[Method[Any]]  #: of each run; they differ in real numbers only
    varying: dict[str, Tensor]  #: of these, those that differ, (runs,)
    runs: slice
    networks: slice  #: those of these runs, one run after the other
    warmup: int
    memory: Memory  #: of all runs, stacked

    @property
    def method(self) -> Method[Any]:
        """The first, for what they have in common."""
        return self.methods[0]

    def memory_of(self, run: int) -> Memory:
        """That of one run, in the same place: what is written there is written here."""
        return Memory(*(type(piece)(*(value[run] for value in piece)) for piece in self.memory))


def rule(job: Job) -> tuple[str, ...]:
    """The method of a run but for its real numbers, which may differ within a stack."""
    method = job.spec.make_method()
    others = {name: value for name, value in dataclasses.asdict(method).items() if not isinstance(value, float)}  # type: ignore[call-overload]
    return method.name, str(others)


def varying(methods: list[Method[Any]], device: torch.device) -> dict[str, Tensor]:
    """The parameters in which methods of one `rule` differ, (methods,) each."""
    values = {name: [getattr(method, name) for method in methods] for name in parameters(methods[0])}
    return {name: torch.tensor(them, device=device) for name, them in values.items() if len(set(them)) > 1}


def with_parameters(method: Method[Any], values: Mapping[str, Tensor]) -> Method[Any]:
    """The method with these in place of its own: numbers that were checked when each method was built."""
    changed = copy.copy(method)
    for name, value in values.items():
        object.__setattr__(changed, name, value)
    return changed


def in_parts(runs: list[Job], warmup: int, device: torch.device) -> list[Part]:
    """The parts of a stack of runs, which must be in the order of their `rule`; ``warmup`` is in steps."""
    parts, first, network = [], 0, 0
    for _, group in itertools.groupby(runs, rule):
        jobs = list(group)
        methods = [job.spec.make_method() for job in jobs]
        steps = warmup if methods[0].wants_warmup else 0
        memories = [
            start(method, Task(job.clean if method.privileged else None, len(job.labels), job.data.classes), steps)
            for method, job in zip(methods, jobs, strict=True)
        ]
        memory = Memory(
            *(
                type(pieces[0])(*(torch.stack(values).to(device) for values in zip(*pieces, strict=True)))
                for pieces in zip(*memories, strict=True)
            )
        )
        last, last_network = first + len(jobs), network + len(jobs) * methods[0].networks
        which = slice(first, last), slice(network, last_network)
        parts.append(Part(methods, varying(methods, device), *which, steps, memory))
        first, network = last, last_network
    return parts


def ages(spec: RunSpec) -> tuple[int, ...]:
    """How old the network is in each epoch: one optimiser serves a whole stack."""
    method = spec.make_method()
    return tuple(method.epochs_since_restart(epoch) for epoch in range(spec.recipe.epochs))
