"""Runs of a stack that follow the same rule, and what they must have in common."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from typing import Any, NamedTuple

import torch

from .data import Split
from .jobs import Job
from .methods import parameters
from .models import stackable
from .objective import Memory, start
from .recipes import Recipe, RunSpec
from .types import Selector, Task


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

    method: Selector[Any]
    runs: slice
    networks: slice  #: those of these runs, one run after the other
    warmup: int
    memory: Memory


def rule(job: Job) -> tuple[str, ...]:
    """The method of a run but for its real numbers, which may differ within a stack."""
    method = job.spec.make_method()
    others = {name: value for name, value in dataclasses.asdict(method).items() if not isinstance(value, float)}  # type: ignore[call-overload]
    return method.name, str(others)


def merged(methods: list[Selector[Any]], device: torch.device) -> Selector[Any]:
    """One rule for runs whose rules differ in real numbers only: a tensor with one for each run takes their place.

    Far fewer launches than a rule each. The numbers were checked when the methods were built.
    """
    whole = copy.copy(methods[0])
    for name in parameters(type(whole)):
        values = [getattr(method, name) for method in methods]
        if any(value != values[0] for value in values):
            object.__setattr__(whole, name, torch.tensor(values, device=device))
    return whole


def in_parts(runs: list[Job], warmup: int, device: torch.device) -> list[Part]:
    """The parts of a stack of runs, which must be in the order of their `rule`; ``warmup`` is in steps."""
    parts, first, network = [], 0, 0
    for _, group in itertools.groupby(runs, rule):
        jobs = list(group)
        methods = [job.spec.make_method() for job in jobs]
        memories = [
            start(method, Task(job.clean if method.privileged else None, len(job.labels), job.data.classes))
            for method, job in zip(methods, jobs, strict=True)
        ]
        method = merged(methods, device)
        memory = Memory(
            *(
                type(pieces[0])(*(torch.stack(values).to(device) for values in zip(*pieces, strict=True)))
                for pieces in zip(*memories, strict=True)
            )
        )
        steps = warmup if method.wants_warmup else 0
        number = len(jobs) * method.networks
        parts.append(Part(method, slice(first, first + len(jobs)), slice(network, network + number), steps, memory))
        first, network = first + len(jobs), network + number
    return parts


def ages(spec: RunSpec) -> tuple[int, ...]:
    """How old the network is in each epoch: one optimiser serves a whole stack."""
    method = spec.make_method()
    return tuple(method.age(epoch) for epoch in range(spec.recipe.epochs))
