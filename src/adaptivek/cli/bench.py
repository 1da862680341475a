"""`adaptivek bench`: many runs, and the report on them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ..support.modules import import_modules
from ..support.terminal import out, progress_bar
from .imports import Imports
from .overrides import Overrides
from .show import show_data, show_report


def bench(
    folder: Annotated[str, tyro.conf.arg(name="out", metavar="DIR")],
    overrides: Annotated[Overrides, tyro.conf.arg(name="")],
    preset: Literal["demo", "paper"] = "demo",
    datasets: tuple[str, ...] = (),
    noises: tuple[str, ...] = (),
    noise_rates: tuple[float, ...] = (),
    methods: tuple[str, ...] = (),
    ratio_errors: tuple[float, ...] = (),
    seeds: int | None = None,
    engine: Literal["auto", "local", "stacked", "ray"] = "auto",
    workers: int = 0,
    address: str = "",
    gpu_share: float = 1.0,
    device: str = "auto",
    data_root: Path | None = None,
    text: str = "",
    label: str = "",
    retry_failed: bool = False,
    imports: Imports = (),
) -> None:
    """Compare methods over data sets, noise and seeds, and write a report.

    Every combination is one run. DIR gets a file for each and report.html. The same command on the same DIR goes
    on where it was stopped; several may work on one DIR at once.

    Args:
        folder: folder for the results, here or like s3://bucket/runs
        overrides: replaces fields of every recipe
        preset: what the lists are unless given: demo (digits, minutes) or paper (its 420 runs)
        datasets: data sets, such as digits mnist imdb, a Hub id, or a folder
        noises: the kinds of label noise that are added: directed, symmetric, pair-flip, instance
        noise_rates: shares of the training labels to flip
        methods: see `adaptivek methods`; "all" for every one
        ratio_errors: methods that must be told the noise ratio are told it with these errors, such as -0.2 0 0.2
        seeds: number of seeds, from 0
        engine: local (a process for each run), stacked (many runs as one program), ray (a cluster), or auto
        workers: worker processes; 0: one for each core. On a cluster: runs or stacks at once; 0: as many as it has room
        address: engine ray: of a running cluster; RAY_ADDRESS unless given, otherwise a cluster of this machine alone
        gpu_share: engine ray: of a GPU for each run or stack; 0.25 puts four on one GPU
        device: where to train: auto, cpu, cuda
        data_root: folder of data sets; ADAPTIVEK_DATA unless given
        text: data of your own: the column that holds the texts or images; found if not given
        label: data of your own: the column that holds the labels; found if not given
        retry_failed: do runs again that have failed before
    """
    import_modules(imports)

    from ..experiments.bench import PRESETS, Grid
    from ..experiments.bench import bench as carry_out
    from ..experiments.executors import Settings, load_once
    from ..experiments.spec import RECIPES
    from ..methods import METHODS

    grid = PRESETS[preset]
    grid = Grid(
        datasets=datasets or grid.datasets,
        noises=noises or grid.noises,
        noise_rates=noise_rates or grid.noise_rates,
        methods=tuple(METHODS) if methods == ("all",) else methods or grid.methods,
        seeds=grid.seeds if seeds is None else seeds,
        ratio_errors=ratio_errors or grid.ratio_errors,
        text=text,
        label=label,
    )
    specs = grid.specs(data_root, **overrides)
    for spec in {spec.dataset: spec for spec in specs}.values():
        if spec.dataset not in RECIPES:
            show_data(spec.dataset, load_once(spec, data_root))
    done = failed = 0
    where = ""
    settings = Settings(device, data_root, workers, imports, address=address, gpu_share=gpu_share)
    if not settings.gpu and engine != "ray":
        each = f"{settings.threads} thread{'s' if settings.threads > 1 else ''}"
        out.print(f"{settings.processes} worker processes, each with {each} at most", highlight=False)
    with progress_bar() as progress:
        # the bar counts epochs of single runs, so that it moves while a stack of many is trained
        bar = progress.add_task("runs", total=sum(spec.recipe.epochs for spec in specs), status="")

        def show(words: str) -> None:
            nonlocal where
            where = words
            status = f"{done} of {len(specs)}", f"{failed} failed" if failed else "", where
            progress.update(bar, status=", ".join(filter(None, status)))

        show(where)
        settings = dataclasses.replace(settings, tick=lambda epochs: progress.advance(bar, epochs), tell=show)
        for result in carry_out(specs, folder, engine, settings, retry_failed):
            done, failed = done + 1, failed + bool(result.failure)
            show(where)
    show_report(folder, folder)
