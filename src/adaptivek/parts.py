"""Runs of a stack that follow the same rule, and what they must have in common."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from typing import Any, NamedTuple

import torch

from .jobs import Job
from .methods import parameters
from .objective import Memory, start
from .recipes import RunSpec
from .types import Selector, Task


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
