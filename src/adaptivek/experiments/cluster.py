"""Runs as tasks of a Ray cluster: which cluster, how many at once, how far they are.

A task is one run, or on GPUs a stack of runs. Ray places it, and places it anew when its worker or its node is lost.
Results come to this process, which alone writes them. So the nodes need the package, modules that are to be imported
and the data, each where it is here, and nothing of the results.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..support.device import find_device
from ..support.modules import import_modules
from .executors import LARGEST_STACK, Settings, Unit, Work, failed, reason, stacks, train_unit
from .store import Result

LOOK = 0.5  # seconds between two looks at how far the tasks are
RETRIES = 3  # of a task whose worker or node is lost


@contextmanager
def connected(settings: Settings) -> Iterator[Any]:
    """Ray, in the cluster that this process is in already; that of the address; or one of this machine alone."""
    try:
        import ray
    except ImportError:
        raise ImportError("the engine ray needs Ray: pip install 'adaptivek[ray]'") from None
    if ray.is_initialized():
        yield ray
        return
    address = settings.address or os.environ.get("RAY_ADDRESS", "")
    where: dict[str, Any] = {"address": address}
    if not address:  # workers: a cluster of so many, whatever else runs on this machine
        number = settings.workers or None
        where = {"address": "local" if number else None, "num_cpus": number, "include_dashboard": False}
    try:
        _reach(address)
        ray.init(log_to_driver=False, logging_level=logging.WARNING, **where)
    except (OSError, RuntimeError, ValueError) as error:
        if not address:
            raise
        wanted = "bench: address must be that of a Ray cluster that is running, such as 10.0.0.1:6379"
        raise ValueError(f"{wanted}, got {address!r}: {reason(error)}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Raise if nothing answers at an address; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


class Board:
    """How far each task is, as told by the tasks themselves from wherever they are; an actor."""

    def __init__(self) -> None:
        self._said: dict[int, tuple[str, int]] = {}

    def say(self, task: int, node: str, epochs: int) -> None:
        self._said[task] = node, epochs

    def read(self) -> dict[int, tuple[str, int]]:
        return self._said


def as_tasks(cluster: Any, work: Work, settings: Settings) -> Iterator[Result]:
    """Hand out tasks, as many as there is room for, and give the results as they come."""
    gpu = _on_gpus(cluster, settings)
    # a node with a GPU shows a task the one it may use; without GPUs no task takes one
    device = "auto" if gpu else "cpu" if settings.device == "auto" else settings.device
    root = settings.root or (Path(given) if (given := os.environ.get("ADAPTIVEK_DATA")) else None)
    room = _room(cluster, settings, gpu)
    units = stacks(work, root, LARGEST_STACK["cuda"], room) if gpu else iter(lambda: work.take(1), ())
    options = {"num_cpus": 1, "num_gpus": settings.gpu_share if gpu else 0, "max_retries": RETRIES}
    task, board = cluster.remote(**options)(_in_task), _make_board(cluster)
    running: dict[Any, tuple[int, Unit]] = {}
    epochs: dict[int, int] = {}  # that each task has done
    told, words = 0, ""
    try:
        while True:
            while len(running) < room and (unit := next(units, None)):
                number = len(epochs)
                running[task.remote(number, unit, device, root, settings.imports, board)] = number, unit
                epochs[number] = 0
            if not running:
                if words:  # else nobody was at work when it was last told
                    settings.tell("")
                return
            ended, _ = cluster.wait(list(running), num_returns=1, timeout=LOOK)
            said = cluster.get(board.read.remote())
            at_work = {number: said[number] for number, _ in running.values() if number in said}
            epochs |= {number: done for number, (_, done) in at_work.items()}  # fewer, if a task began anew
            finished = [(reference, *running.pop(reference)) for reference in ended]
            epochs |= {number: sum(spec.recipe.epochs for spec in unit) for _, number, unit in finished}
            settings.tick(sum(epochs.values()) - told)
            told = sum(epochs.values())
            alive = {node["NodeID"] for node in cluster.nodes() if node["Alive"]}
            if words != (words := _words([node for node, _ in at_work.values() if node in alive])):
                settings.tell(words)
            for reference, _, unit in finished:
                try:
                    yield from cluster.get(reference)
                except cluster.exceptions.RayError as error:
                    yield from (failed(spec, settings.device, reason(error)) for spec in unit)
            room = _room(cluster, settings, gpu)  # nodes come and go
    finally:
        for reference in running:
            cluster.cancel(reference, force=True)
        cluster.kill(board)


def _make_board(cluster: Any) -> Any:
    """Beside this process, so that no other node takes it along; if it is lost all the same, tasks fill it again."""
    here = cluster.get_runtime_context().get_node_id()
    beside = cluster.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=True)
    options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": beside}
    return cluster.remote(**options)(Board).remote()


def _on_gpus(cluster: Any, settings: Settings) -> bool:
    there = cluster.cluster_resources().get("GPU", 0) >= 1
    if settings.device != "auto" and settings.gpu and not there:
        raise ValueError(f"bench: device must be auto or cpu for a cluster without a GPU, got {settings.device!r}")
    return there and (settings.device == "auto" or find_device(settings.device).type == "cuda")


def _room(cluster: Any, settings: Settings, gpu: bool) -> int:
    """Tasks that the nodes there are now have room for; at least one, which waits for a node."""
    has = cluster.cluster_resources()
    room = int(has.get("CPU", 0))
    if gpu:
        room = min(room, int(has.get("GPU", 0)) * int(1 / settings.gpu_share))
    return max(1, min(room, settings.workers or room))


def _words(busy: list[str]) -> str:
    """For the nodes of all tasks at work."""
    number = len(set(busy))
    return f"{len(busy)} at once on {number} node{'s' if number > 1 else ''}" if busy else ""


def _in_task(
    number: int, unit: Unit, device: str, root: Path | None, imports: tuple[str, ...], board: Any
) -> list[Result]:
    import ray

    node, done = ray.get_runtime_context().get_node_id(), 0

    def tick(epochs: int) -> None:
        nonlocal done
        done += epochs
        board.say.remote(number, node, done)

    tick(0)  # from the beginning, where a first try was lost
    import_modules(imports)
    return train_unit(unit, device, root, tick)
