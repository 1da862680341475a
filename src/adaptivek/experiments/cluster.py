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
    gpu = _on_gpus(cluster, settings)
    # a node with a GPU shows a task the one it may use; without GPUs no task takes one
    device = "auto" if gpu else "cpu" if settings.device == "auto" else settings.device
    root = settings.root or (Path(given) if (given := os.environ.get("ADAPTIVEK_DATA")) else None)
    room = _room(cluster, settings, gpu)
    units = stacks(work, root, LARGEST_STACK["cuda"], room) if gpu else iter(lambda: work.take(1), ())
    options = {"num_cpus": 1, "num_gpus": settings.gpu_share if gpu else 0, "max_retries": RETRIES}
    task = cluster.remote(**options)(_in_task)
    # beside this process, so that no other node takes it along; told anew by the tasks if it is lost all the same
    here = cluster.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        cluster.get_runtime_context().get_node_id(), soft=True
    )
    board = cluster.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=here)(Board).remote()
    running: dict[Any, tuple[int, Unit]] = {}
    started = done = seen = 0
    words = ""
    try:
        while True:
            while len(running) < room and (unit := next(units, None)):
                reference = task.remote(started, unit, device, root, settings.imports, board)
                running[reference] = started, unit
                started += 1
            if not running:
                return
            ended, _ = cluster.wait(list(running), num_returns=1, timeout=LOOK)
            ours = {number for number, _ in running.values()}
            said = {number: each for number, each in cluster.get(board.read.remote()).items() if number in ours}
            # fewer than before if a task began anew
            now = done + sum(epochs for _, epochs in said.values())
            settings.tick(now - seen)
            seen = now
            alive = {node["NodeID"] for node in cluster.nodes() if node["Alive"]}
            if words != (words := _words([node for node, _ in said.values() if node in alive])):
                settings.tell(words)
            for reference in ended:
                number, unit = running.pop(reference)
                epochs = sum(spec.recipe.epochs for spec in unit)  # also of runs that failed early
                settings.tick(epochs - said.get(number, ("", 0))[1])
                done, seen = done + epochs, seen + epochs - said.get(number, ("", 0))[1]
                try:
                    yield from cluster.get(reference)
                except cluster.exceptions.RayError as error:
                    yield from (failed(spec, settings.device, reason(error)) for spec in unit)
            room = _room(cluster, settings, gpu)  # nodes come and go
    finally:
        for reference in running:
            cluster.cancel(reference, force=True)
        cluster.kill(board)


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
