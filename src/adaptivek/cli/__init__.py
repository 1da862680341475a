"""The command line. Each command has a file here and is a call into one module; those of audit and stages are with
them."""

from __future__ import annotations

import sys

from .. import __version__

try:
    import tyro
    from rich.console import Console

    from ..auditing.command import audit
    from ..stages.command import fit, predict
    from .bench import bench
    from .completion import completion
    from .methods import methods
    from .report import report
    from .theory import theory
    from .train import train
except ImportError:
    sys.exit(
        "the adaptivek command needs more than the library: pip install 'adaptivek[cli]', or without installing: "
        "pipx run --spec 'adaptivek[all]' adaptivek"
    )

DESCRIPTION = f"""\
Train good models on badly labelled data (adaptivek {__version__}).

A network memorises noisy labels. The default method, label agreement, weighs each label against what the
network predicts for its row, and learns less from labels that lose once it has stopped learning: no noise
ratio to guess, no second network, no clean data. The audit finds noisy labels before you train.

  adaptivek audit reviews.csv --label sentiment --out audit   which labels are noisy, and how many
  adaptivek fit reviews.csv --label sentiment --out fitted    a network trained on what its labels are likely to be
  adaptivek predict fitted new.csv                            its predictions for new rows
  adaptivek train digits --noise-rate 0.4 --out runs/first    train with 40 % noisy labels
  adaptivek bench --out results/demo                          compare the methods, with a report
  adaptivek methods                                           the methods to choose from
  adaptivek report runs/bench                                 tables and figures of many runs, on one page
  adaptivek theory --out theory                               which method has the smaller error, and why
  adaptivek completion bash                                   lets your shell complete all of this
  adaptivek --version                                         the version of this program
"""


def main(args: list[str] | None = None) -> None:
    """Entry point of the `adaptivek` command."""
    args = sys.argv[1:] if args is None else args
    if args == ["--version"]:
        print(f"adaptivek {__version__}")
        return
    app = tyro.extras.SubcommandApp()
    for command in (audit, fit, predict, train, bench, methods, theory, report, completion):
        app.command(command)
    try:
        app.cli(prog="adaptivek", description=DESCRIPTION, args=args)
    except (ValueError, ImportError, OSError) as error:
        # what the user gave does not do, a file cannot be had, or an extra is missing: a line, not a traceback
        Console(stderr=True).print(f"adaptivek: {error}", style="red", highlight=False, markup=False)
        raise SystemExit(2) from None
    except KeyboardInterrupt as stop:
        Console(stderr=True).print(f"adaptivek: {str(stop) or 'stopped; the same command goes on'}", style="yellow")
        raise SystemExit(130) from None
