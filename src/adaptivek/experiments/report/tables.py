"""From results to the numbers of the report: rows of settings, ranks, the gap closed. Pure functions."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ...methods import DEFAULT as DEFAULT
from ...methods import METHODS
from ..spec import PAPER_DATASETS, PAPER_METHODS, RunSpec
from ..store import Result

#: accuracy of the last epoch, or the best one on the test set, as the paper reports it
Measure = Literal["last", "best"]
ORACLE, VANILLA, MKL, VANILLA_MKL, ADAPTIVE_K = PAPER_METHODS


class Stat(NamedTuple):
    """Mean and standard deviation over seeds; the latter is NaN for a single one."""

    mean: float
    std: float
    number: int


class Setting(NamedTuple):
    """What all methods of a row have in common."""

    dataset: str
    noise: str
    rate: float
    variant: str = ""  #: what else differs, where one data set was trained on in several ways

    def at_any_rate(self) -> Setting:
        return self._replace(rate=-1.0)


@dataclass(frozen=True)
class Cell:
    """One method in one setting, over its seeds."""

    results: tuple[Result, ...]  #: those that finished, by seed
    failed: int = 0
    missing: tuple[int, ...] = ()  #: seeds that other runs of the data set and noise have and this one has not finished

    @property
    def last(self) -> Stat:
        return stat(result.epochs[-1].test_accuracy for result in self.results)

    @property
    def best(self) -> Stat:
        return stat(result.epochs[-1].best_test_accuracy for result in self.results)

    @property
    def estimate(self) -> Stat | None:
        """The noise ratio of the last epoch, for methods that are told neither it nor which labels are clean."""
        found = [result.epochs[-1].noise_ratio for result in self.results if estimates(result)]
        known = [ratio for ratio in found if math.isfinite(ratio)]
        return stat(known) if known else None

    @property
    def truth(self) -> Stat:
        return stat(result.epochs[-1].true_noise_ratio for result in self.results)


@dataclass(frozen=True)
class Row:
    """A setting and its methods."""

    setting: Setting
    cells: dict[str, Cell]

    def has(self, *methods: str) -> bool:
        return all(method in self.cells and self.cells[method].results for method in methods)

    def stat(self, method: str, measure: Measure) -> Stat:
        cell = self.cells[method]
        return cell.last if measure == "last" else cell.best

    def distance(self, method: str, measure: Measure) -> float | None:
        """How far the method is below Oracle; negative above it, None where there is no Oracle."""
        if not self.has(ORACLE, method):
            return None
        return self.stat(ORACLE, measure).mean - self.stat(method, measure).mean

    def winners(self, measure: Measure) -> list[str]:
        """The best of the methods that do not know which labels are clean; several if equal."""
        means = {name: self.stat(name, measure).mean for name in self.cells if alone(name) != ORACLE and self.has(name)}
        return [name for name, mean in means.items() if mean == max(means.values())]

    def gap_closed(self, method: str, measure: Measure) -> float | None:
        """Share of the way from Vanilla to Oracle; None where Oracle is not ahead by more than the seeds vary."""
        if not self.has(ORACLE, VANILLA, method):
            return None
        oracle, vanilla = self.stat(ORACLE, measure), self.stat(VANILLA, measure)
        gap = oracle.mean - vanilla.mean
        # the spread of a difference; a single seed has none to show
        spread = math.hypot(*(0.0 if math.isnan(each.std) else each.std for each in (oracle, vanilla)))
        if gap <= 0 or gap < spread:
            return None
        return (self.stat(method, measure).mean - vanilla.mean) / gap


@dataclass(frozen=True)
class Failure:
    """A run that came to nothing."""

    spec: RunSpec
    column: str  #: of `method_of`
    reason: str


def stat(values: Iterable[float]) -> Stat:
    """Over the seeds; what is not a number makes the mean none either."""
    values = list(values)
    if not values:
        return Stat(math.nan, math.nan, 0)
    mean = math.fsum(values) / len(values)
    spread = statistics.stdev(values) if len(values) > 1 and math.isfinite(mean) else math.nan
    return Stat(mean, spread, len(values))


def estimates(result: Result) -> bool:
    """Whether the noise ratio of a run is an estimate of its own, by its confidence in the labels."""
    method = METHODS.get(result.ran.name)
    return method is not None and method.leaves_out and not method.clean_share and not method.privileged


def finished(result: Result) -> bool:
    return not result.failure and len(result.epochs) == result.spec.recipe.epochs


def current(results: Sequence[Result]) -> list[Result]:
    """Without those of a method as it was earlier for which the same run is there as it is now."""
    now = {result.spec for result in results if not result.apart}
    return [result for result in results if not result.apart or result.spec not in now]


def rows(results: Sequence[Result]) -> list[Row]:
    """A row for each setting, the paper's data sets first; a cell for each method, even if it has no run."""
    results = current(results)
    variants = _variants(results)
    grouped: dict[Setting, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        spec = result.spec
        setting = Setting(spec.dataset, spec.noise, float(spec.noise_rate), variants[result.identity])
        grouped[setting][method_of(result)].append(result)
    # what was meant to be run, as far as one can tell: in each setting what there is at any noise rate
    methods: dict[Setting, set[str]] = defaultdict(set)
    seeds: dict[Setting, set[int]] = defaultdict(set)
    for setting, found in grouped.items():
        methods[setting.at_any_rate()] |= found.keys()
        seeds[setting.at_any_rate()] |= {each.spec.seed for runs in found.values() for each in runs}
    table = []
    for setting in sorted(grouped, key=lambda each: (*dataset_order(each.dataset), each[1:])):
        alike = setting.at_any_rate()
        names = sorted(methods[alike], key=method_order)
        table.append(Row(setting, {name: _cell(grouped[setting][name], seeds[alike]) for name in names}))
    return table


def method_of(result: Result) -> str:
    """The column of a run: its method, in brackets what was combined with it, and what sets it apart from the method
    that has its name here."""
    spec = result.spec
    options = {
        f"ratio {100 * spec.ratio_error:+g} points": spec.ratio_error != 0,
        "strong views": spec.recipe.views > 1,
        f"averaged {spec.recipe.average:g}": spec.recipe.average > 0,
        f"stopped early {spec.recipe.hold_out:g}": spec.recipe.hold_out > 0,
        result.apart: bool(result.apart),
    }
    return spec.method + "".join(f" ({name})" for name, asked in options.items() if asked)


def alone(column: str) -> str:
    """The method of a column of `method_of`, without what was combined with it."""
    return column.partition(" (")[0]


def all_methods(table: Sequence[Row]) -> list[str]:
    return sorted({method for row in table for method in row.cells}, key=method_order)


def ranked(table: Sequence[Row]) -> list[tuple[str, float, int]]:
    """Methods, best first: how far each is above the middle one of its settings at the last epoch; in how many.

    A setting is data and noise here, whatever the recipe: a method may need another learning rate than the rest.
    """
    found: dict[Setting, dict[str, float]] = defaultdict(dict)
    for row in table:
        for method in row.cells:
            if row.has(method):
                found[row.setting._replace(variant="")][method] = row.stat(method, "last").mean
    above: dict[str, list[float]] = defaultdict(list)
    for means in found.values():
        middle = statistics.median(means.values())
        for method, mean in means.items():
            above[method].append(mean - middle)
    places = [(method, statistics.mean(points), len(points)) for method, points in above.items()]
    return sorted(places, key=lambda place: (-place[1], place[0]))


def foremost(table: Sequence[Row], most: int) -> list[str]:
    """The paper's five, the default and the best of the others: as many as there are colours, ``most``."""
    methods = all_methods(table)
    room = most - len(PAPER_METHODS)
    others = [method for method in methods if method not in PAPER_METHODS]
    if len(others) > room:
        best = [method for method, *_ in ranked(table) if method in others and method == alone(method)]
        others = sorted(best, key=lambda method: method != DEFAULT)[:room]
    return [method for method in methods if method in PAPER_METHODS or method in others]


def failures(results: Sequence[Result]) -> list[Failure]:
    """Every run that did not finish, and why."""
    found = [
        Failure(
            each.spec,
            method_of(each),
            each.failure or f"stopped after {len(each.epochs)} of {each.spec.recipe.epochs} epochs",
        )
        for each in current(results)
        if not finished(each)
    ]
    return sorted(found, key=lambda each: (each.spec.dataset, each.spec.noise_rate, each.spec.method, each.spec.seed))


def median_gap_closed(table: Sequence[Row], method: str, measure: Measure) -> float | None:
    """Over the settings with noise that have one."""
    found = [row.gap_closed(method, measure) for row in table if row.setting.rate > 0]
    known = [share for share in found if share is not None]
    return statistics.median(known) if known else None


def method_order(name: str) -> tuple[int, str]:
    """The paper's five first, in its order; what was combined with a method beside it."""
    base = alone(name)
    return (PAPER_METHODS.index(base) if base in PAPER_METHODS else len(PAPER_METHODS), name)


def dataset_order(name: str) -> tuple[int, str]:
    return (PAPER_DATASETS.index(name) if name in PAPER_DATASETS else len(PAPER_DATASETS), name)


def _cell(results: list[Result], seeds: set[int]) -> Cell:
    done = sorted((result for result in results if finished(result)), key=lambda result: result.spec.seed)
    missing = seeds - {result.spec.seed for result in done}
    return Cell(tuple(done), len(results) - len(done), tuple(sorted(missing)))


def _variants(results: Sequence[Result]) -> dict[str, str]:
    """For each run, what sets it apart from others on its data set beside noise, method and seed: mostly nothing."""
    ways: dict[str, list[dict[str, object]]] = defaultdict(list)
    fields = {}
    for result in results:
        spec = result.spec
        way = {**dataclasses.asdict(spec.recipe), "exact_noise": spec.exact_noise, "reforward": spec.reforward}
        del way["average"], way["hold_out"], way["views"]  # see `method_of`
        fields[result.identity] = spec.dataset, way
        ways[spec.dataset].append(way)
    differing = {
        dataset: [name for name in found[0] if len({way[name] for way in found}) > 1] for dataset, found in ways.items()
    }
    return {
        identity: ", ".join(f"{name.replace('_', ' ')} {way[name]}" for name in differing[dataset])
        for identity, (dataset, way) in fields.items()
    }
