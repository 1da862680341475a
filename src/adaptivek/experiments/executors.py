"""Ways to carry out many runs: in worker processes, stacked into one program, or as tasks of a Ray cluster.

An engine takes runs from a `Work` and gives their results as they come. A run has the same result in each, to
the precision of the arithmetic.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from ..backend.checks import check_choice, check_number
from ..networks import make_model, stackable
from ..support.device import find_device
from ..support.modules import import_modules
from ..support.threads import flops, processors
from .data import Split, load
from .groups import restarts, shape
from .prepare import prepare
from .provenance import provenance_of
from .records import EpochRecord
from .session import Session
from .spec import RECIPES, Recipe, RunSpec, recipe_by_kind
from .stack import Stack
from .store import Result

#: runs in a stack: more gain little on a GPU, and fall out of a processor's cache
LARGEST_STACK = {"cuda": 256, "cpu": 16}
#: a forward pass of fewer floating-point operations takes less time than starting its operations
LAUNCH_BOUND = 5_000_000

Unit = tuple[RunSpec, ...]  # runs that are trained as one


class Work(Protocol):
    """Runs that wait to be done. What is taken is locked against other processes."""

    def __len__(self) -> int: ...

    def take(self, limit: int, alike: Callable[[RunSpec], object] | None = None) -> Unit:
        """Up to ``limit`` runs, all the same to ``alike``."""


@dataclass(frozen=True)
class Settings:
    """What an engine needs to know beside the runs."""

    device: str = "auto"
    root: Path | None = None
    workers: int = 0  #: processes; 0: one for each core
    imports: tuple[str, ...] = ()  #: modules that every process imports first: those of methods of one's own
    tick: Callable[[int], object] = lambda epochs: None  #: told of progress, in epochs of single runs
    tell: Callable[[str], object] = lambda words: None  #: told where runs are at work, when that changes
    address: str = ""  #: of a Ray cluster; RAY_ADDRESS if empty
    gpu_share: float = 1.0  #: of a GPU, for each task of a Ray cluster

    def __post_init__(self) -> None:
        find_device(self.device)
        check_number("bench", "workers", self.workers, 0, whole=True)
        check_number("bench", "gpu_share", self.gpu_share, 0.01, 1)

    @property
    def gpu(self) -> bool:
        return find_device(self.device).type == "cuda"

    @property
    def processes(self) -> int:
        return self.workers or processors()

    @property
    def threads(self) -> int:
        """That each of these may have at most."""
        return max(1, processors() // self.processes)


def local(work: Work, settings: Settings) -> Iterator[Result]:
    """Each run by itself, in worker processes of this machine."""
    yield from _in_processes(iter(lambda: work.take(1), ()), settings)


def stacked(work: Work, settings: Settings) -> Iterator[Result]:
    """Runs of one shape as one program: on a GPU in this process, otherwise in worker processes."""
    if settings.gpu:
        for unit in stacks(work, settings.root, LARGEST_STACK["cuda"], 1):
            yield from train_unit(unit, settings.device, settings.root, settings.tick)
    else:
        yield from _in_processes(stacks(work, settings.root, LARGEST_STACK["cpu"], settings.processes), settings)


def stacks(work: Work, root: Path | None, largest: int, at_once: int) -> Iterator[Unit]:
    """The work in stacks, which are no larger than leaves something for each of those trained at once."""

    def alike(spec: RunSpec) -> object:
        if not stackable(spec.recipe.network) or spec.reforward or spec.recipe.views > 1:
            return spec  # like no other
        return spec.recipe.without_warmup(), restarts(spec), _shape(*_source(spec, root))

    limit = min(largest, -(-len(work) // at_once))  # rounded up
    return iter(lambda: work.take(limit, alike), ())


def ray(work: Work, settings: Settings) -> Iterator[Result]:
    """Each run, or on GPUs each stack of runs, as a task of a Ray cluster."""
    from .cluster import as_tasks, connected

    with connected(settings) as cluster:
        yield from as_tasks(cluster, work, settings)


ENGINES: dict[str, Callable[[Work, Settings], Iterator[Result]]] = {"local": local, "stacked": stacked, "ray": ray}


def choose(name: str, specs: Iterable[RunSpec], settings: Settings) -> str:
    """The engine of that name; for ``auto`` the one that is faster here."""
    check_choice("bench", "engine", name, ["auto", *ENGINES])
    if name != "ray" and (settings.address or settings.gpu_share != 1):
        raise ValueError(f"bench: address and gpu_share are for the engine ray, got them with the engine {name}")
    if name != "auto":
        return name
    if settings.gpu:
        return "stacked"
    kinds = {(spec.dataset, spec.recipe): spec for spec in specs}.values()
    return "stacked" if all(_launch_bound(spec, settings.root) for spec in kinds) else "local"


def _launch_bound(spec: RunSpec, root: Path | None) -> bool:
    if not stackable(spec.recipe.network):
        return False
    data = load_once(spec, root)
    model = make_model(spec.recipe.network, data.inputs, data.classes)
    return flops(model, data.x[: spec.recipe.batch_size]) < LAUNCH_BOUND


def load_once(spec: RunSpec, root: Path | None) -> Split:
    """The data of a run; runs on the same data share it."""
    return _load(*_source(spec, root))


def find_recipe(dataset: str, root: Path | None, text: str = "", label: str = "") -> Recipe:
    """That of a data set which has one; for others by what they are, for which they are loaded."""
    return RECIPES.get(dataset) or recipe_by_kind(_load(dataset, 0, root, text, label))


Source = tuple[str, int, Path | None, str, str]


def _source(spec: RunSpec, root: Path | None) -> Source:
    return spec.dataset, spec.seed, root, spec.text, spec.label


@functools.lru_cache(maxsize=8)
def _load(dataset: str, seed: int, root: Path | None, text: str, label: str) -> Split:
    return load(dataset, seed=seed, root=root, text=text, label=label)


@functools.cache
def _shape(*source: Any) -> object:
    return shape(_load(*source))


def train_unit(
    unit: Unit, device: str = "auto", root: Path | None = None, tick: Callable[[int], object] = lambda epochs: None
) -> list[Result]:
    """Train a unit. What goes wrong with a run becomes its result; a stack that fails is halved to find out whose."""
    started = time.perf_counter()
    try:
        return _train_unit(unit, device, root, tick, started)
    except Exception as error:
        if len(unit) == 1:
            return [failed(unit[0], device, reason(error), time.perf_counter() - started)]
    # outside of the handler, which would keep the failed stack in memory
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    half = len(unit) // 2
    return [result for runs in (unit[:half], unit[half:]) for result in train_unit(runs, device, root, tick)]


def _train_unit(
    unit: Unit, device: str, root: Path | None, tick: Callable[[int], object], started: float
) -> list[Result]:
    jobs = [prepare(spec, load_once(spec, root)) for spec in unit]
    histories: list[list[EpochRecord]] = [[] for _ in unit]
    epochs: Iterable[list[EpochRecord]]
    if len(unit) == 1 and (find_device(device).type != "cuda" or not _for_a_stack(unit[0])):
        session = Session(unit[0], jobs[0].data, device)
        epochs, details, threads = ([record] for record in session), [session.details], session.threads
    else:
        stack = Stack(jobs, device)
        epochs, details, threads = stack, stack.details, stack.threads
    for records in epochs:
        for history, record in zip(histories, records, strict=True):
            history.append(record)
        tick(len(unit))
    seconds, kind = time.perf_counter() - started, "stacked" if len(unit) > 1 else "alone"
    provenance = provenance_of(unit[0].recipe, find_device(device), threads)
    return [
        Result(spec, history, detail, seconds, kind, _lost(history), provenance)
        for spec, history, detail in zip(unit, histories, details, strict=True)
    ]


def failed(spec: RunSpec, device: str, why: str, seconds: float = 0.0) -> Result:
    provenance = provenance_of(spec.recipe, find_device(device))
    return Result(spec, seconds=seconds, failure=why, provenance=provenance)


def _for_a_stack(spec: RunSpec) -> bool:
    """Whether a stack can train it, if only as a stack of one."""
    method = spec.make_method()
    if spec.reforward or spec.recipe.views > 1:
        return False
    return not method.freezes and (stackable(spec.recipe.network) or method.networks == 1)


def _lost(history: list[EpochRecord]) -> str:
    """Why a run that came to its end is no result: its weights are not numbers."""
    lost = [record.epoch for record in history if not record.train_loss < float("inf")]  # NaN: no loss was finite
    return f"every loss was NaN or infinite from epoch {lost[0]} on" if lost else ""


def reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def _in_processes(units: Iterator[Unit], settings: Settings) -> Iterator[Result]:
    """Train units in worker processes, as many at a time as there are workers."""
    number = settings.processes
    context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads in an unknown state
    counter = context.Value("q", 0)
    seen = 0

    def pool(size: int) -> ProcessPoolExecutor:
        initial = settings.threads, counter, os.getpid(), settings.imports
        return ProcessPoolExecutor(size, context, initializer=_begin_worker, initargs=initial)

    executor = pool(number)
    running: dict[Future[list[Result]], Unit] = {}
    lost: list[Unit] = []
    try:
        while True:
            while not lost and len(running) < number and (unit := next(units, None)):
                try:
                    running[executor.submit(_in_worker, unit, settings.device, settings.root)] = unit
                except BrokenProcessPool:
                    lost.append(unit)
            if not running and not lost:
                return
            done, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
            settings.tick(counter.value - seen)
            seen = counter.value
            broken = bool(lost) or any(isinstance(future.exception(), BrokenProcessPool) for future in done)
            # a broken pool has ended every unit, so that waiting for all of them takes no time
            for future in list(running) if broken else done:
                unit = running.pop(future)
                if isinstance(future.exception(), BrokenProcessPool):
                    lost.append(unit)
                else:
                    yield from future.result()
            if broken:
                # a worker was killed, and took the pool with it: each unit that was lost in a pool of its own
                for unit in lost:
                    with pool(1) as single:
                        yield from _survive(single, unit, settings)
                lost.clear()
                executor.shutdown()
                executor = pool(number)
    finally:
        executor.shutdown(cancel_futures=True)


def _survive(executor: ProcessPoolExecutor, unit: Unit, settings: Settings) -> list[Result]:
    try:
        return executor.submit(_in_worker, unit, settings.device, settings.root).result()
    except BrokenProcessPool:
        why = "the process that trained it was killed, twice: out of memory?"
        return [failed(spec, settings.device, why) for spec in unit]


_counter: Any = None


def _begin_worker(threads: int, counter: Any, parent: int, imports: tuple[str, ...]) -> None:
    global _counter
    _counter = counter
    torch.set_num_threads(threads)
    # a worker whose parent was killed would wait for work for ever
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    import_modules(imports)


def _leave_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _in_worker(unit: Unit, device: str, root: Path | None) -> list[Result]:
    def tick(epochs: int) -> None:
        with _counter.get_lock():
            _counter.value += epochs

    return train_unit(unit, device, root, tick)
