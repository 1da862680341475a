"""Many runs, each done once: whatever was stopped goes on, and processes on one folder share the work."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..backend.checks import check_number
from ..methods import DEFAULT, told_noise_ratio
from ..support.modules import import_modules
from .executors import ENGINES, Settings, Unit, choose, find_recipe, load_once
from .prepare import check_recipe
from .spec import PAPER_DATASETS, PAPER_METHODS, PAPER_RATES, RunSpec
from .store import Result, Store


@dataclass(frozen=True)
class Grid:
    """Every combination of these. The defaults are the paper's."""

    datasets: Sequence[str] = PAPER_DATASETS
    noises: Sequence[str] = ("directed",)
    noise_rates: Sequence[float] = PAPER_RATES
    methods: Sequence[str] = PAPER_METHODS
    seeds: int = 3
    ratio_errors: Sequence[float] = (0.0,)  #: for methods that are told the noise ratio: added to it
    text: str = ""  #: the column of the texts or images of the data sets; found if not given
    label: str = ""  #: the column of the labels, likewise

    def __post_init__(self) -> None:
        check_number("bench", "seeds", self.seeds, 1, whole=True)

    def specs(self, root: Path | None = None, **changes: Any) -> list[RunSpec]:
        """The runs, those of one setting beside each other; ``changes`` replace fields of every recipe.

        Data that has no recipe of its own is loaded, from ``root`` if it is there, to find one by what it is.
        """
        recipes = {  # raises what is wrong with the changes
            name: dataclasses.replace(find_recipe(name, root, self.text, self.label), **changes)
            for name in self.datasets
        }
        return [
            RunSpec(
                dataset,
                method,
                noise,
                rate,
                seed=seed,
                recipe=recipes[dataset],
                ratio_error=error,
                text=self.text,
                label=self.label,
            )
            for dataset, noise, rate, seed, method in itertools.product(
                self.datasets, self.noises, self.noise_rates, range(self.seeds), self.methods
            )
            for error in (self.ratio_errors if told_noise_ratio(method) else (0.0,))
        ]


PRESETS = {"demo": Grid(datasets=("digits",), methods=(*PAPER_METHODS, DEFAULT)), "paper": Grid()}


class LockedWork:
    """The runs that are not done. Taking one locks it; a lock goes with its process, however that ends.

    Args:
        specs: the runs.
        store: where their results go.
        failed: results of some of them that are no reason not to do them again.
    """

    def __init__(self, specs: Iterable[RunSpec], store: Store, failed: Iterable[Result] = ()) -> None:
        self._store = store
        self._failed = {result.identity: result.to_json() for result in failed}
        self._waiting = {spec.identity(): spec for spec in specs}
        self._locks: dict[str, ExitStack] = {}

    def __len__(self) -> int:
        return len(self._waiting) - len(self._locks)

    def take(self, limit: int, alike: Callable[[RunSpec], object] | None = None) -> Unit:
        taken: list[RunSpec] = []
        for identity, spec in self._waiting.items():
            if len(taken) == limit:
                break
            if identity in self._locks or (taken and alike and alike(spec) != alike(taken[0])):
                continue
            lock = self._store.claim(spec)
            if lock is None:
                continue
            if self._result(spec) is not None:  # another process has finished it just now
                lock.close()
                continue
            self._store.set_aside(spec)
            self._locks[identity] = lock
            taken.append(spec)
        return tuple(taken)

    def finish(self, result: Result) -> None:
        identity = result.identity
        self._store.write(result)
        del self._waiting[identity]
        self._locks.pop(identity).close()

    def done_by_others(self) -> list[Result]:
        """Results that have come from other processes since the last call."""
        found = [result for spec in self._waiting.values() if (result := self._result(spec)) is not None]
        for result in found:
            del self._waiting[result.identity]
        return found

    def _result(self, spec: RunSpec) -> Result | None:
        """What there is, unless it is the failure that was there at the beginning."""
        result = self._store.read(spec)
        return None if result is None or result.to_json() == self._failed.get(result.identity) else result


def bench(
    specs: Iterable[RunSpec],
    folder: str | Path,
    engine: str = "auto",
    settings: Settings | None = None,
    retry_failed: bool = False,
) -> Iterator[Result]:
    """Do the runs that are not done yet, and give every result: first those already there, then as they come.

    Args:
        specs: what to run.
        folder: where the results are, see `Store`.
        engine: local, stacked, ray, or auto for the one that is faster here.
        settings: device, data folder, number of workers, modules to import, the cluster.
        retry_failed: do runs again that have failed before.
    """
    settings, store = settings or Settings(), Store(folder)
    settings = dataclasses.replace(settings, imports=import_modules(settings.imports))
    specs = list({spec.identity(): spec for spec in specs}.values())
    name = choose(engine, specs, settings)
    found = [result for spec in specs if (result := store.read(spec)) is not None]
    failed = [result for result in found if result.failure and retry_failed]
    there = [result for result in found if not (result.failure and retry_failed)]
    for result in there:
        settings.tick(result.spec.recipe.epochs)
        yield result
    done = {result.identity for result in there}
    waiting = [spec for spec in specs if spec.identity() not in done]
    # missing data, or a recipe that is not for it, is a mistake to hear of now, not a failed run
    for spec in {(spec.dataset, spec.seed, spec.recipe): spec for spec in waiting}.values():
        check_recipe(spec.recipe, load_once(spec, settings.root))
    if name == "stacked":
        waiting.sort(key=lambda spec: spec.method)  # runs of one method are faster together
    if waiting:
        store.check_writable()
    work = LockedWork(waiting, store, failed)
    while True:
        for result in ENGINES[name](work, settings):
            result = dataclasses.replace(result, engine=name)
            work.finish(result)
            yield result
        for result in work.done_by_others():
            settings.tick(result.spec.recipe.epochs)
            yield result
        if not len(work):
            break
        time.sleep(1)  # the rest is in other hands: it will be done there, or let go by a process that dies
