"""The audit: one training run, then the noise ratio, a score for each row and a page."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from ..backend.checks import check_choice
from ..support.device import find_device
from .annotators import scores_with_votes, with_network
from .data import AuditData
from .decisions import read_decisions, with_decisions
from .networks import NETWORKS, PLANS, maker, suited
from .predictions import Predictions
from .result import AuditResult
from .scoring import score_labels
from .sources import Use, load
from .text_embeddings import embed_texts
from .training import Run
from .trusted import Known

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
    trusted: Any = None,
    annotator: str | None = None,
    item: str | None = None,
    ignore: Sequence[str] = (),
    decisions: str | Path | None = None,
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
            texts, a torch `Dataset` of ``(input, label)``, a Hugging Face `Dataset`, or the path of a CSV, Parquet or
            .npy file or of a folder of images.
        labels: the name of the label column, several of them (one for each annotator), or one label for each row.
        model: your own network, that gives logits for a batch of inputs; copies of it are trained. By default one
            that suits the kind of data.
        text: the name of a text column, to learn from it alone; by default all columns are used together.
        encoder: of texts: a sentence encoder that turns them into embeddings first, by its folder or its name on the
            Hub. Needs sentence-transformers.
        trusted: rows whose label is known to be clean: the name of a column, or one truth value for each row.
        annotator: the name of the column that says who gave the label, where each row is one label of one annotator.
        item: then the name of the column that is the same for all labels of one thing; by default rows that are alike.
        ignore: names of columns to leave out.
        decisions: the CSV that the page of an earlier audit of this data has made.
        folder: where checkpoints are kept while training, and to which the files are written at the end.
        resume: go on from the checkpoint in ``folder``.
        device: where to train: auto, cpu, cuda.
        progress: called after every batch with how many are done, and of how many.
        encoding: the same before training, while texts go through the encoder.
        plan: method, epochs, batch_size, learning_rate, optimizer, weight_decay, augment, seed: see `training.Plan`.
    """
    started = time.perf_counter()
    for name in plan:
        check_choice("audit", "argument", name, [field.name for field in dataclasses.fields(PLANS["text"])])
    if resume and folder is None:
        raise ValueError("audit: folder must be given to resume, got None")
    where = find_device(device)
    read = None if decisions is None else read_decisions(decisions)
    loaded = load(data, labels, Use(text, trusted, annotator, item, ignore))
    loaded = loaded if read is None else with_decisions(loaded, read)
    kind = loaded.kind
    if encoder is not None:
        loaded, kind = embed_texts(loaded, encoder, str(where), encoding), "features"
    chosen = dataclasses.replace(suited(PLANS[kind], len(loaded.labels)), **plan)
    run = Run(
        loaded.fetch,
        loaded.labels,
        len(loaded.classes),
        maker(kind, loaded.inputs, len(loaded.classes), model),
        chosen,
        str(where),
        None if encoder is None else str(encoder),
    )
    _train(run, None if folder is None else Path(folder), resume, progress)
    advice = ADVICE if kind == "text" and model is None else ""
    scores = score_labels(run.dynamics, loaded.labels, loaded.classes, chosen.seed, advice, run.noise, _known(loaded))
    if loaded.votes is not None and loaded.annotators is not None:
        held_out = Predictions(*run.dynamics.held_out.tables())
        together = with_network(loaded.votes, loaded.annotators.confusion, held_out, len(loaded.labels))
        scores = scores_with_votes(scores, loaded.labels, together, loaded.trusted)
        loaded = dataclasses.replace(loaded, annotators=loaded.annotators._replace(posterior=together))
    settings = dataclasses.asdict(chosen) | {
        "source": str(data) if isinstance(data, (str, Path)) else None,
        "kind": loaded.kind,
        "method": chosen.chosen(len(loaded.labels), len(loaded.classes)),
        "network": NETWORKS[kind].__name__ if model is None else type(model).__name__,
        "device": str(where),
        "threads": run.threads,
        "even_noise": scores.model.symmetric,
        "power": scores.model.power,
        **loaded.about,
    }
    ratio, low, high = scores.ratio
    result = AuditResult(
        row=loaded.row,
        label=loaded.labels,
        suggested_label=scores.suggested,
        score=scores.score,
        is_issue=scores.is_issue,
        other_label=scores.other,
        other_probability=scores.other_probability,
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
    )
    if folder is not None:
        result.save(folder)
        (Path(folder) / CHECKPOINT).unlink(missing_ok=True)
    return result


def _known(data: AuditData) -> Known | None:
    """What is known of the labels beforehand, if anything."""
    if data.trusted is None:
        return None
    if data.reviewed is None:
        return Known(data.trusted)
    return Known(data.trusted, data.reviewed.label, data.reviewed.decision != "")


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
