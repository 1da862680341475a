"""`adaptivek train`: one run, in a folder of its own."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import torch
import tyro
from rich.table import Table

from ..methods import default
from ..support.modules import import_modules
from ..support.terminal import out, progress_bar, trained_on
from .imports import Imports
from .live import look, number
from .overrides import Overrides
from .show import show_data

if TYPE_CHECKING:
    from ..experiments.records import EpochRecord


def train(
    dataset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")],
    /,
    folder: Annotated[Path, tyro.conf.arg(name="out", metavar="DIR")],
    overrides: Annotated[Overrides, tyro.conf.arg(name="")],
    method: str | None = None,
    noise: Literal["directed", "symmetric", "pair-flip", "instance"] = "directed",
    noise_rate: float = 0.0,
    exact_noise: bool = False,
    seed: int = 0,
    reforward: bool = False,
    device: str = "auto",
    data_root: Path | None = None,
    text: str = "",
    label: str = "",
    audit: Path | None = None,
    imports: Imports = (),
) -> None:
    """Train one network and write what happened.

    DIR gets the configuration, a record per epoch (JSON lines), which labels are noisy, and the
    final weights (safetensors). The same command on the same DIR goes on where it was stopped.

    Args:
        dataset: digits (bundled with scikit-learn, no download), mnist, fashion-mnist, cifar10, imdb, sarcasm,
            hotel, 20newsgroups, a data set of the Hugging Face Hub (owner/name), or a folder
        folder: folder for the results
        overrides: replaces fields of the recipe
        method: see `adaptivek methods`; parameters go behind a colon: "mkl:keep=0.7". Unless given label-agreement,
            or label-memory with an audit
        noise: the kind of label noise that is added
        noise_rate: share of the training labels to flip
        exact_noise: flip exactly that share, instead of each label with that chance
        seed: decides the noise, the initial weights, the order of batches and dropout
        reforward: run the kept samples through the network a second time, as the paper's notebook does
        device: where to train: auto, cpu, cuda
        data_root: folder of data sets; ADAPTIVEK_DATA unless given
        text: data of your own: the column that holds the texts or images; found if not given
        label: data of your own: the column that holds the labels; found if not given
        audit: the folder of an audit of these rows: the method's memory begins with its predictions
    """
    import_modules(imports)

    from ..auditing.targets import load_audit
    from ..experiments.executors import find_recipe, load_once
    from ..experiments.folder import run
    from ..experiments.spec import RunSpec

    recipe = dataclasses.replace(find_recipe(dataset, data_root, text, label), **overrides)
    method = method or default(audit is not None)
    spec = RunSpec(dataset, method, noise, noise_rate, exact_noise, seed, reforward, recipe, text=text, label=label)
    data = load_once(spec, data_root)
    start = None
    if audit is not None:
        if noise_rate:
            raise ValueError(f"train: noise_rate must be 0 with an audit, which does not know it, got {noise_rate}")
        found = load_audit(audit)
        start = torch.from_numpy(found.of_labels("train", data.y.numpy()))
        spec = dataclasses.replace(spec, audit=found.fingerprint())
    show_data(dataset, data)
    records: list[EpochRecord] = []
    with progress_bar(lambda: look(records)) as progress:
        task = progress.add_task("epochs", total=recipe.epochs, status="")
        for record in run(spec, folder, data, device, start=start):
            records.append(record)
            phase = "selecting" if record.selecting else "warming up"
            progress.update(
                task, advance=1, status=f"{phase}  accuracy {record.test_accuracy:.3f}  kept {record.kept_share:.2f}"
            )
    record = records[-1]  # a recipe has at least one epoch
    table = Table("test accuracy", "best on test", "kept", "precision", "recall", "noise found", "noise true")
    table.add_row(
        *(number(value) for value in (record.test_accuracy, record.best_test_accuracy, record.kept_share)),
        *(number(value) for value in (record.precision, record.recall, record.noise_ratio_told)),
        number(record.true_noise_ratio),
    )
    out.print(table)
    provenance = json.loads((folder / "made.json").read_text())
    out.print(trained_on(provenance["device"], provenance["threads"]), highlight=False)
    out.print(f"written to {folder}", highlight=False)
