"""The audit: one training run, then the noise ratio, a score for each row and a page."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..backend.checks import check_choice
from ..support.device import find_device
from .data import AuditData
from .networks import NETWORKS, PLANS, maker, suited
from .predictions import Predictions
from .result import AuditResult
from .scoring import score_labels
from .sources import load
from .targets import Targets, rounded
from .text_embeddings import embed_texts
from .tokens import FINE_TUNING, TokenModel
from .training import Run

CHECKPOINT = "checkpoint.pt"
ADVICE = " A sentence encoder may help: encoder=..., or --encoder."  #: where nothing is learned from texts

#: told how many of how many batches are done
Progress = Callable[[int, int], None]


def audit(
    data: Any,
    labels: Any = None,
    model: nn.Module | None = None,
    *,
    text: str | None = None,
    encoder: str | Path | None = None,
    start: AuditResult | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    progress: Progress | None = None,
    encoding: Progress | None = None,
    **plan: Any,
) -> AuditResult:
    """The noise ratio of the labels, the noisy rows and their suggested labels, from one training run.

    Args:
        data: rows to learn from: an array or tensor (features, or images with four axes), a data frame, a list of
            texts, a torch `Dataset` of ``(input, label)``, a Hugging Face `Dataset` (tokenised, for a ``model`` that
            takes tokens), or the path of a CSV, Parquet or .npy file or of a folder of images.
        labels: the name of the label column, or one label for each row.
        model: your own network, that gives logits for a batch of inputs; copies of it are trained. By default one
            that suits the kind of data.
        text: the name of the text column; found if there is one.
        encoder: of texts: a sentence encoder that turns them into embeddings first, by its folder or its name on the
            Hub. Needs sentence-transformers.
        start: an earlier audit of the same rows: the networks begin with its predictions, and its noise ratio stays.
        folder: where checkpoints are kept while training, and to which the files are written at the end.
        resume: go on from the checkpoint in ``folder``.
        device: where to train: auto, cpu, cuda.
        progress: called after every batch with how many are done, and of how many.
        encoding: the same before training, while texts go through the encoder.
        plan: method, epochs, batch_size, learning_rate, schedule, optimizer, weight_decay, augment, precision, seed:
            see `training.Plan`.
    """
    started = time.perf_counter()
    for name in plan:
        check_choice("audit", "argument", name, [field.name for field in dataclasses.fields(PLANS["text"])])
    if resume and folder is None:
        raise ValueError("audit: folder must be given to resume, got None")
    where = find_device(device)
    loaded = load(data, labels, text)
    kind = loaded.kind
    if encoder is not None:
        loaded, kind = embed_texts(loaded, encoder, str(where), encoding), "features"
    usual = FINE_TUNING if loaded.tokens else suited(PLANS[kind], len(loaded.labels))
    chosen = dataclasses.replace(usual, **plan)
    network = NETWORKS[kind].__name__ if model is None else type(model).__name__
    if loaded.tokens:
        if model is None:
            raise ValueError("audit: model must be given for tokenised texts, got None")
        model = TokenModel(model, loaded.tokens)
    run = Run(
        loaded.fetch,
        loaded.labels,
        len(loaded.classes),
        maker(kind, loaded.inputs, len(loaded.classes), model),
        chosen,
        str(where),
        None if encoder is None else str(encoder),
        shared=model is not None,
        start=None if start is None else _earlier(start, loaded),
    )
    _train(run, None if folder is None else Path(folder), resume, progress)
    advice = ADVICE if kind == "text" and model is None else ""
    noise = run.noise if start is None else start.noise
    scores = score_labels(run.dynamics, loaded.labels, loaded.classes, chosen.seed, advice, noise)
    settings = chosen.as_dict() | {
        "source": str(data) if isinstance(data, (str, Path)) else None,
        "kind": loaded.kind,
        "method": chosen.chosen(len(loaded.labels), len(loaded.classes), start is not None),
        "network": network,
        "device": str(where),
        "threads": run.threads,
        "even_noise": scores.model.symmetric,
        "power": scores.model.power,
        "instance_dependent": scores.instance_dependent,
        **loaded.about,
    }
    ratio, low, high = scores.ratio
    result = AuditResult(
        row=loaded.row,
        label=loaded.labels,
        suggested_label=scores.suggested,
        score=scores.score,
        is_issue=scores.is_issue,
        loss=scores.loss,
        loss_cut=scores.loss_cut,
        classes=loaded.classes,
        transition=scores.model.transition.astype(np.float64),
        noise_per_class=scores.noise_per_class.astype(np.float64),
        noise_ratio=ratio,
        noise_ratio_low=low,
        noise_ratio_high=high,
        accuracy=scores.accuracy,
        warnings=scores.warnings,
        skipped=loaded.skipped,
        seconds=time.perf_counter() - started,
        settings=settings,
        given=loaded,
        for_training=Targets(
            rounded(Predictions(*run.best.tables())),
            scores.ranking,
            loaded.row,
            loaded.labels,
            len(loaded.row) + len(loaded.skipped),
            loaded.classes,
        ),
    )
    if folder is not None:
        result.save(folder)
        (Path(folder) / CHECKPOINT).unlink(missing_ok=True)
    return result


def _earlier(start: AuditResult, loaded: AuditData) -> Tensor:
    """The predictions of an earlier audit for the rows of this one."""
    if not np.array_equal(start.row, loaded.row) or not np.array_equal(start.label, loaded.labels):
        raise ValueError("audit: start must be an audit of the same rows and labels, got one of others")
    return torch.from_numpy(start.predictions[start.row])


def _train(run: Run, folder: Path | None, resume: bool, progress: Progress | None) -> None:
    """All epochs that are left, with a checkpoint after each."""
    checkpoint = None if folder is None else folder / CHECKPOINT
    if checkpoint is not None:
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        if resume and checkpoint.exists():
            run.load(checkpoint)
    total, done = run.steps * run.plan.epochs, run.steps * run.done

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    while run.done < run.plan.epochs:
        run.epoch(step)
        if checkpoint is not None:
            run.save(checkpoint)
