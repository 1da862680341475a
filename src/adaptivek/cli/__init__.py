"""The command line: each command is a call into one module."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from .. import __version__

try:
    import tyro
    from rich.console import Console
    from rich.table import Table

    from ..auditing.command import audit
    from ..support.terminal import out, progress_bar, trained_on
    from .overrides import Overrides as Overrides
except ImportError:
    sys.exit("the adaptivek command needs more than the library: pip install 'adaptivek[cli]'")

if TYPE_CHECKING:
    from ..experiments.data import Split

DESCRIPTION = f"""\
Train good models on badly labelled data (adaptivek {__version__}).

Wrong labels have high loss. After some plain training, Adaptive-k keeps only the samples of each
mini-batch whose loss is at most a threshold that a moving average supplies: no noise ratio to guess,
no second model. The share it leaves out tells how noisy the data is.

  adaptivek audit reviews.csv --label sentiment --out audit   which labels are wrong, and how many
  adaptivek train digits --noise-rate 0.4 --out runs/first    train with 40 % wrong labels
  adaptivek bench --out results/demo                          compare the methods, with a report
  adaptivek methods                                           the methods to choose from
  adaptivek report runs/bench                                 tables and figures of many runs, on one page
  adaptivek theory --out theory                               which method has the smaller error, and why
"""


def train(
    dataset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")],
    /,
    folder: Annotated[Path, tyro.conf.arg(name="out", metavar="DIR")],
    overrides: Annotated[Overrides, tyro.conf.arg(name="")],
    method: str = "label-memory",
    noise: Literal["directed", "symmetric", "pair-flip", "instance"] = "directed",
    noise_rate: float = 0.0,
    exact_noise: bool = False,
    seed: int = 0,
    reforward: bool = False,
    device: str = "auto",
    data_root: Path | None = None,
    text: str = "",
    label: str = "",
) -> None:
    """Train one network and write what happened.

    DIR gets the configuration, a record per epoch (JSON lines), which labels were made wrong, and the
    final weights (safetensors). The same command on the same DIR goes on where it was stopped.

    Args:
        dataset: digits (bundled with scikit-learn, no download), mnist, fashion-mnist, cifar10, imdb, sarcasm,
            hotel, 20newsgroups, a data set of the Hugging Face Hub (owner/name), or a folder
        folder: folder for the results
        overrides: replaces parts of the recipe
        method: see `adaptivek methods`; parameters go behind a colon: "mkl:keep=0.7"
        noise: how labels are made wrong
        noise_rate: share of the training labels to make wrong
        exact_noise: flip exactly that share, instead of each label with that chance
        seed: decides the noise, the initial weights, the order of batches and dropout
        reforward: run the kept samples through the network a second time, as the paper's notebook does
        device: where to train: auto, cpu, cuda
        data_root: folder of data sets; ADAPTIVEK_DATA unless given
        text: data of your own: the column that holds the texts or images; found if not given
        label: data of your own: the column that holds the labels; found if not given
    """
    from ..experiments.executors import find_recipe, load_once
    from ..experiments.folder import run
    from ..experiments.spec import RunSpec

    recipe = dataclasses.replace(find_recipe(dataset, data_root, text, label), **overrides)
    spec = RunSpec(dataset, method, noise, noise_rate, exact_noise, seed, reforward, recipe, text=text, label=label)
    data = load_once(spec, data_root)
    _tell(dataset, data)
    record = None
    with progress_bar() as progress:
        task = progress.add_task("epochs", total=recipe.epochs, status="")
        for record in run(spec, folder, data, device):
            phase = "selecting" if record.selecting else "warming up"
            progress.update(
                task, advance=1, status=f"{phase}  accuracy {record.test_accuracy:.3f}  kept {record.kept_share:.2f}"
            )
    assert record is not None  # a recipe has at least one epoch
    table = Table("test accuracy", "best on test", "kept", "precision", "recall", "noise found", "noise true")
    table.add_row(
        *(f"{value:.3f}" for value in (record.test_accuracy, record.best_test_accuracy, record.kept_share)),
        *(f"{value:.3f}" for value in (record.precision, record.recall, record.noise_ratio, record.true_noise_ratio)),
    )
    out.print(table)
    made = json.loads((folder / "made.json").read_text())
    out.print(trained_on(made["device"], made["threads"]), highlight=False)
    out.print(f"written to {folder}", highlight=False)


def bench(
    folder: Annotated[Path, tyro.conf.arg(name="out", metavar="DIR")],
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
    device: str = "auto",
    data_root: Path | None = None,
    text: str = "",
    label: str = "",
    retry_failed: bool = False,
) -> None:
    """Compare methods over data sets, noise and seeds, and write a report.

    Every combination is one run. DIR gets a file for each and report.html. The same command on the same DIR goes
    on where it was stopped; several may work on one DIR at once.

    Args:
        folder: folder for the results
        overrides: replaces parts of every recipe
        preset: what the lists are unless given: demo (digits, minutes) or paper (its 420 runs)
        datasets: data sets, such as digits mnist imdb, a Hub id, or a folder
        noises: how labels are made wrong: directed, symmetric, pair-flip, instance
        noise_rates: shares of the training labels to make wrong
        methods: see `adaptivek methods`; "all" for every one
        ratio_errors: methods that must be told the noise ratio are told it with these errors, such as -0.2 0 0.2
        seeds: number of seeds, from 0
        engine: local (a process for each run), stacked (many runs as one program), ray (a cluster), or auto
        workers: worker processes; 0: one for each core
        device: where to train: auto, cpu, cuda
        data_root: folder of data sets; ADAPTIVEK_DATA unless given
        text: data of your own: the column that holds the texts or images; found if not given
        label: data of your own: the column that holds the labels; found if not given
        retry_failed: do runs again that have failed before
    """
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
            _tell(spec.dataset, load_once(spec, data_root))
    done = failed = 0
    settings = Settings(device, data_root, workers)
    if not settings.gpu:
        each = f"{settings.threads} thread{'s' if settings.threads > 1 else ''}"
        out.print(f"{settings.processes} worker processes, each with {each} at most", highlight=False)
    with progress_bar() as progress:
        # the bar counts epochs of single runs, so that it moves while a stack of many is trained
        bar = progress.add_task("runs", total=sum(spec.recipe.epochs for spec in specs), status=f"0 of {len(specs)}")
        settings = dataclasses.replace(settings, tick=lambda epochs: progress.advance(bar, epochs))
        for result in carry_out(specs, folder, engine, settings, retry_failed):
            done, failed = done + 1, failed + bool(result.failure)
            status = f"{done} of {len(specs)}" + (f", {failed} failed" if failed else "")
            progress.update(bar, status=status)
    _report(folder, folder)


def methods() -> None:
    """List the methods: a line, what each needs, its parameters and its paper.

    What they need beyond plain training: truth (which labels are wrong), the noise ratio, warm-up (plain epochs
    first), logits (and not losses alone), rows (the number of each sample), epochs (to be told when one begins),
    a full pass (a forward pass over the training set per epoch), more networks or views of an image than one.
    The passes are the forwards and backwards of a step.
    """
    from ..methods import METHODS, defaults, needs, passes

    table = Table("method", "what it does", "needs", "passes", "parameters", "from", box=None, pad_edge=False)
    for name, method in METHODS.items():
        values = "\n".join(f"{key}={value}" for key, value in defaults(method).items())
        cost = " + ".join(map(str, passes(method)))
        table.add_row(name, method.summary, ", ".join(needs(method)), cost, values, method.paper)
    out.print(table)


def theory(
    folder: Annotated[Path, tyro.conf.arg(name="out", metavar="DIR")],
    mu1: float = 0.0,
    sigma1: float = 1.0,
    mu2: float = 5.0,
    sigma2: float = 2.0,
    tau: float = 0.4,
    n: int = 10,
    k: int = 6,
    run: Annotated[Path | None, tyro.conf.arg(metavar="RUN_DIR")] = None,
) -> None:
    """Compute the paper's theory for losses like yours.

    Prints the error of plain training, MKL and Adaptive-k and what follows from the model; DIR gets the
    figures (SVG and PNG) and theory.html. The defaults are the paper's.

    Args:
        folder: folder for the figures and the page
        mu1: mean of the clean losses
        sigma1: standard deviation of the clean losses
        mu2: mean of the noisy losses
        sigma2: standard deviation of the noisy losses
        tau: noise ratio
        n: batch size of MKL
        k: how many of them MKL keeps
        run: folder of a run of `adaptivek train`, to lay predicted against measured
    """
    from ..experiments.records import read_records
    from ..theory.fit import fit_run
    from ..theory.page import Setting, report, write

    setting = Setting(mu1, sigma1, mu2, sigma2, tau, n, k)
    tables, pictures = report(setting, None if run is None else fit_run(read_records(run)))
    write(folder, tables, pictures)  # before printing, which a closed pipe may cut short
    for entry in tables:
        table = Table(*entry.header, title=entry.title, title_justify="left")
        for row in entry.rows:
            table.add_row(*row)
        out.print(table)
        out.print(f"{entry.note}\n", highlight=False)
    out.print(f"written to {folder}", highlight=False)


def report(
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    /,
    target: Annotated[Path | None, tyro.conf.arg(name="out", metavar="DIR")] = None,
    markdown: bool = False,
) -> None:
    """Show the results of many runs as one page.

    Prints the paper's claims counted over the settings that are there, and the table; writes report.html,
    which needs nothing beside it, table.csv and table.md.

    Args:
        folder: folder of results
        target: folder for the files, the same one by default
        markdown: print the tables as markdown and write nothing
    """
    from ..experiments.report.page import read
    from ..experiments.report.tables import failures, rows
    from ..experiments.report.text import markdown as as_markdown
    from ..experiments.report.text import notes

    if markdown:
        results, others = read(folder)
        sys.stdout.write(as_markdown(rows(results), failures(results), notes(results, others)))
    else:
        _report(folder, folder if target is None else target)


def _tell(dataset: str, data: Split) -> None:
    """What was taken of a data set."""
    rows = f"{len(data.y):,} rows to train on and {len(data.y_test):,} to test on, {data.classes} classes"
    kind = "texts" if data.vocabulary else "images"
    columns = "; {} from column {}, labels from column {}".format(kind, *data.columns) if all(data.columns) else ""
    out.print(f"{dataset}: {rows}{columns}", highlight=False, markup=False, soft_wrap=True)


def _report(folder: Path, target: Path) -> None:
    from ..experiments.report.page import read, write
    from ..experiments.report.tables import failures, rows
    from ..experiments.report.terminal import show
    from ..experiments.report.text import notes

    results, others = read(folder)
    page = write(results, target, others)  # before printing, which a closed pipe may cut short
    show(out, rows(results), len(failures(results)), notes(results, others))
    out.print(f"written to {page}", highlight=False, markup=False, soft_wrap=True)


def main(args: list[str] | None = None) -> None:
    """Entry point of the `adaptivek` command."""
    app = tyro.extras.SubcommandApp()
    app.command(audit)
    app.command(train)
    app.command(bench)
    app.command(methods)
    app.command(theory)
    app.command(report)
    try:
        app.cli(prog="adaptivek", description=DESCRIPTION, args=args)
    except (ValueError, ImportError, OSError) as error:
        # what the user gave is wrong, a file cannot be had, or an extra is missing: a line, not a traceback
        Console(stderr=True).print(f"adaptivek: {error}", style="red", highlight=False, markup=False)
        raise SystemExit(2) from None
    except KeyboardInterrupt as stop:
        Console(stderr=True).print(f"adaptivek: {str(stop) or 'stopped; the same command goes on'}", style="yellow")
        raise SystemExit(130) from None
