"""The paper's 28 settings: what is missing of them, the runs, and the tables of docs/results.md.

    python benchmarks/paper.py missing
    python benchmarks/paper.py run --datasets mnist fashion-mnist      # what is there is not done again
    python benchmarks/paper.py run --phase hold-out                    # plain training, to see when it memorises
    python benchmarks/paper.py run --phase rule                        # plain epochs by that instead of 30 of 80
    python benchmarks/paper.py prune                                   # remove what newer runs have replaced
    python benchmarks/paper.py docs                                    # print the tables into results.md and bench.md

Besides the paper's five methods there are this library's own two and ELR. Results of the fixed share of plain training
are in results/paper. Those of the rule are in results/paper-plain: Vanilla with a tenth of the rows held out finds,
for each noise rate, the epoch that does best on their noisy labels. The earliest of a data set is where its plain
training ends. Nothing there looks at clean labels, the test rows or the result of a method.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import paper_stages
import paper_tables
import sensitivity
import text_recipes
from measurements import read_lines, with_stand_ins

from adaptivek.experiments.bench import Grid, bench
from adaptivek.experiments.executors import Settings
from adaptivek.experiments.spec import PAPER_DATASETS, PAPER_METHODS, RunSpec
from adaptivek.experiments.store import Store

ROOT = Path(__file__).parents[1]
FIXED, BY_RULE = ROOT / "results" / "paper", ROOT / "results" / "paper-plain"
METHODS = (*PAPER_METHODS, "label-memory", "label-posterior", "label-agreement", "elr")
LATE = ("vanilla+mkl", "adaptive-k")  # the methods that begin with plain training
HELD_OUT = 0.1
PAGE, RECIPES_PAGE = ROOT / "docs" / "results.md", ROOT / "docs" / "bench.md"


def fixed(grid: Grid) -> list[RunSpec]:
    """With 30 of 80 parts of plain training, as in the notebook."""
    return grid.specs()


def held_out(grid: Grid) -> list[RunSpec]:
    """Vanilla alone, told by held-out rows when it begins to memorise."""
    return dataclasses.replace(grid, methods=("vanilla",)).specs(hold_out=HELD_OUT)


def by_rule(grid: Grid) -> list[RunSpec]:
    """The methods with a plain phase, for as long as `plain_epochs` says; of data sets for which that is known."""
    late = dataclasses.replace(grid, methods=[name for name in LATE if name in grid.methods])
    found = {name: plain_epochs(name) for name in grid.datasets}
    return [
        spec
        for name, epochs in found.items()
        if epochs is not None
        for spec in dataclasses.replace(late, datasets=(name,)).specs(warmup_epochs=epochs)
    ]


PHASES = {"fixed": (fixed, FIXED), "hold-out": (held_out, BY_RULE), "rule": (by_rule, BY_RULE)}


def plain_epochs(dataset: str, folder: Path = BY_RULE) -> int | None:
    """Of the epochs that do best on held-out noisy labels, one for each noise rate, the earliest; None if not run."""
    peaks = held_out_peaks(dataset, folder)
    return min(peaks.values(), default=None)


def held_out_peaks(dataset: str, folder: Path = BY_RULE) -> dict[float, int]:
    """For each noise rate, the epoch in which Vanilla does best on held-out noisy labels, mean over the seeds."""
    store, curves = Store(folder), dict[float, list[list[float]]]()
    for spec in held_out(Grid(datasets=(dataset,))):
        result = store.read(spec)
        if result is not None and not result.failure:
            curves.setdefault(spec.noise_rate, []).append([record.validation_accuracy for record in result.epochs])
    means = {rate: [statistics.mean(epoch) for epoch in zip(*found, strict=True)] for rate, found in curves.items()}
    return {rate: 1 + curve.index(max(curve)) for rate, curve in means.items()}


def missing(grid: Grid) -> str:
    """A line for each data set of which runs are missing, and how many results newer ones have replaced."""
    lines = []
    for phase, (specs, folder) in PHASES.items():
        store, wanted = Store(folder), specs(grid)
        lost = Counter((spec.dataset, spec.method) for spec in wanted if store.read(spec) is None)
        lines.append(f"{phase}: {sum(lost.values())} of {len(wanted)} runs are missing")
        for dataset in grid.datasets:
            counts = [f"{method} {number}" for (name, method), number in lost.items() if name == dataset]
            lines += [f"  {dataset}: {', '.join(counts)}"] if counts else []
    lines.append(f"{len(outdated())} results have been replaced by newer ones: `prune` removes them")
    return "\n".join(lines)


def outdated() -> list[Path]:
    """Results of recipes or methods that are no more, for which there is one of today. Until then they stay."""
    wanted = {folder: dict[Path, RunSpec]() for folder in (FIXED, BY_RULE)}
    for specs, folder in PHASES.values():
        wanted[folder] |= {Store(folder).path(spec): spec for spec in specs(Grid(methods=METHODS))}
    found = []
    for folder, paths in wanted.items():
        store = Store(folder)
        there = {_run(spec) for path, spec in paths.items() if path.exists()}
        old = {store.runs / f"{result.identity}.json.gz": result.spec for result in store.read_all()}
        found += [path for path, spec in old.items() if path not in paths and _run(spec) in there]
    return sorted(found)


def _run(spec: RunSpec) -> tuple[object, ...]:
    """A run, whatever its recipe."""
    return spec.dataset, spec.method, spec.noise_rate, spec.seed, spec.recipe.hold_out


def texts() -> dict[str, str]:
    """What stands between the marks of the page."""
    stored, ruled = Store(FIXED).read_all(), Store(BY_RULE).read_all()
    results = with_stand_ins(stored)
    return {
        "status": paper_tables.status(results) + paper_tables.standing_in(stored),
        "claims": paper_tables.claims(results),
        "summary": paper_tables.summary(results),
        "by-dataset": paper_tables.by_dataset(results),
        "figures": paper_tables.figures(results),
        "plain": paper_tables.plain(results, ruled, {name: held_out_peaks(name) for name in PAPER_DATASETS}),
        "sensitivity": sensitivity.section(sensitivity.OUT, PAGE.parent),
        "stages": paper_stages.table(read_lines(paper_stages.OUT), results),
        **paper_tables.tables(results),
        "missing": paper_tables.missing(results),
    }


def run(grid: Grid, phase: str, settings: Settings) -> None:
    specs, folder = PHASES[phase]
    wanted, started = specs(grid), time.perf_counter()
    if not wanted:
        print("nothing to run: `--phase hold-out` comes first")
    for number, result in enumerate(bench(wanted, folder, settings=settings, retry_failed=True), 1):
        spec, seconds = result.spec, time.perf_counter() - started
        end = result.failure or f"{100 * result.epochs[-1].test_accuracy:.2f}"
        print(
            f"{number} of {len(wanted)}, {seconds:.0f} s: {spec.dataset} {spec.noise_rate:g} {spec.method} "
            f"seed {spec.seed}: {end}",
            flush=True,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("missing", "run", "prune", "docs"))
    parser.add_argument("--phase", choices=PHASES, default="fixed")
    parser.add_argument("--datasets", nargs="+", default=PAPER_DATASETS)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--noise-rates", nargs="+", type=float, default=Grid.noise_rates)
    parser.add_argument("--seeds", type=int, default=Grid.seeds)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data-root", type=Path)
    given = parser.parse_args(arguments)
    grid = Grid(given.datasets, noise_rates=given.noise_rates, methods=given.methods, seeds=given.seeds)
    if given.what == "missing":
        print(missing(grid))
    elif given.what == "run":
        run(grid, given.phase, Settings(given.device, given.data_root))
    elif given.what == "prune":
        for path in outdated():
            path.unlink()
            print(f"removed {path}")
    else:
        for page, tables in ((PAGE, texts()), (RECIPES_PAGE, {"text-recipes": text_recipes.table()})):
            changed = paper_tables.refresh(page, tables)
            print(f"{page.relative_to(ROOT)}: {'changed' if changed else 'as it was'}")


if __name__ == "__main__":
    main()
