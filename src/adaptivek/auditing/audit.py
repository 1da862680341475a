"""The audit: held-out predictions, then the noise ratio, a score for each row and a page."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..backend.checks import check_choice
from ..support.device import find_device
from .annotators import scores_with_votes, with_network
from .data import AuditData
from .decisions import read_decisions, with_decisions
from .duplicates import alike, number_keys, text_keys
from .held_out import MODELS, models, word_features
from .large.kept import remove_parts
from .large.ranks import find_ranks
from .large.scores import Scored, chosen, score_rows
from .networks import NETWORKS, PLANS, maker, suited
from .noise_estimate import NoiseEstimate, estimate_noise, unbounded
from .predictions import Predictions, label_probability, mean_prediction
from .result import AuditResult
from .rules import follows_few_words
from .scoring import score_labels
from .second_fit import predict_twice
from .sources import Use, is_streamed, load
from .targets import Targets, rounded
from .text_embeddings import embed_texts, tokenised
from .tokens import FINE_TUNING, TokenModel
from .training import Run
from .transition import NoiseModel
from .trusted import Known

CHECKPOINT = "checkpoint.pt"
MOST_NUMBERS = 100_000_000  #: of all predictions, or of all inputs; beyond, a network that never holds them all
MOST_COMPARED = 50_000  #: images or features that are read once more to see which are alike
ADVICE = " A sentence encoder may help: encoder=..., or --encoder."  #: where nothing is learned from texts

RULE = (
    "A few words settle nearly all labels, as if a rule had made them. A model learns the errors of a rule too, so "
    "there may be any number of noisy labels that it agrees with."
)

ON_CPU = {"device": "cpu", "threads": 0}

#: told how many of how many batches, or fits, are done
Progress = Callable[[int, int], None]


class _Predicted(NamedTuple):
    """Predictions of all rows."""

    held_out: Predictions
    settings: dict[str, Any]
    ranking: Predictions  #: rows are ranked by these, which know more of the row or of the noise
    noise: NoiseEstimate | None = None  #: if it was estimated while training
    best: Predictions | None = None  #: held out, of the epochs that agree most with labels not seen; for training


def audit(
    data: Any,
    labels: Any = None,
    model: nn.Module | str | None = None,
    *,
    text: str | None = None,
    encoder: str | Path | None = None,
    trusted: Any = None,
    annotator: str | None = None,
    item: str | None = None,
    ignore: Sequence[str] = (),
    decisions: str | Path | None = None,
    start: AuditResult | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    distributed: bool = False,
    progress: Progress | None = None,
    encoding: Progress | None = None,
    **plan: Any,
) -> AuditResult:
    """The noise ratio of the labels, the noisy rows and their suggested labels.

    Args:
        data: rows to learn from: an array or tensor (features, or images with four axes), a data frame, a list of
            texts, a torch `Dataset` of ``(input, label)``, a Hugging Face `Dataset` (tokenised, for a
            ``model`` that takes tokens), or the path of a CSV, Parquet or .npy file or of a folder of images. The
            rows of a folder of Parquet files, or of a pattern such as ``data/*.parquet``, may be more than memory
            holds.
        labels: the name of the label column, several of them (one for each annotator), or one label for each row.
        model: what predicts the rows that it has not seen: words (of texts: linear models and naive Bayes), trees (of
            features: forests and linear models), linear (of features), network, or your own network, that gives
            logits for a batch of inputs; copies of it are trained. By default what suits the kind of data, and a
            network if it is told how to train.
        text: the name of a text column, to learn from it alone; by default all columns are used together.
        encoder: of texts: a sentence encoder that turns them into embeddings first, by its folder or its name on the
            Hub. Needs sentence-transformers.
        trusted: rows whose label is known to be clean: the name of a column, or one truth value for each row.
        annotator: the name of the column that says who gave the label, where each row is one label of one annotator.
        item: then the name of the column that is the same for all labels of one thing; by default rows that are alike.
        ignore: names of columns to leave out.
        decisions: the CSV that the page of an earlier audit of this data has made.
        start: an earlier audit of the same rows: the networks begin with its predictions, and its noise ratio stays.
        folder: where checkpoints of a network are kept, and to which the files are written at the end.
        resume: go on from the checkpoint in ``folder``.
        device: where to train: auto, cpu, cuda.
        distributed: under ``torch.distributed``, share the work on Parquet files with the other processes, which must
            all call this. Each gets the result, the first writes ``folder``.
        progress: called after every batch, or fit, with how many are done, and of how many.
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
    read = None if decisions is None else read_decisions(decisions)
    held = {"model": isinstance(model, nn.Module) or model == "network", "start": start, "encoder": encoder}
    held |= {"annotator": annotator, "item": item} | {name: name != "seed" for name in plan}
    streamed = is_streamed(data, labels, next((name for name, value in held.items() if value), None))
    ranks = find_ranks(distributed, streamed)
    loaded = load(data, labels, Use(text, trusted, annotator, item, ignore), streamed)
    loaded = loaded if read is None else with_decisions(loaded, read)
    kind = loaded.kind
    if loaded.tokens and not isinstance(model, nn.Module):
        raise ValueError(f"audit: model must be given for tokenised texts, a network that takes them, got {model!r}")
    if encoder is not None:
        loaded, kind = embed_texts(loaded, encoder, str(where), encoding), "features"
    name = chosen(model, loaded) if streamed else _chosen(model, kind, loaded, plan, start is not None)
    seed = plan.get("seed", 0)
    words = word_features(loaded.content) if loaded.kind == "text" and not streamed else None
    scored: Scored | None = None
    if streamed:
        scored = score_rows(loaded, name, seed, None if folder is None else Path(folder), resume, progress, ranks)
        loaded = scored.data
        found = _Predicted(scored.held_out, {"seed": seed} | ON_CPU, scored.ranking, scored.noise)
    elif name == "network":
        loaded = tokenised(loaded)
        settings = dataclasses.replace(
            FINE_TUNING if loaded.tokens else suited(PLANS[kind], len(loaded.labels)), **plan
        )
        own = model if isinstance(model, nn.Module) else None
        takes = TokenModel(own, loaded.tokens) if own is not None and loaded.tokens else own
        run = Run(
            loaded.fetch,
            loaded.labels,
            len(loaded.classes),
            maker(kind, loaded.inputs, len(loaded.classes), takes),
            settings,
            str(where),
            None if encoder is None else str(encoder),
            shared=own is not None,
            start=None if start is None else _earlier(start, loaded),
        )
        _train(run, None if folder is None else Path(folder), resume, progress)
        network = NETWORKS[kind].__name__ if own is None else type(own).__name__
        found = _of_run(run, network, None if start is None else start.noise)
    else:
        found = _of_pool(name, loaded, words, seed, progress)
    held_out = found.held_out
    noise = found.noise or estimate_noise(held_out, loaded.labels, len(loaded.classes))
    wrong = float((held_out.predicted() != loaded.labels).mean())
    known = _known(loaded)
    told = loaded.votes is not None or (known is not None and known.tells)  # the noise is known in another way
    if scored is not None:
        by_rule = not told and scored.by_rule
    else:
        by_rule = not told and words is not None and follows_few_words(words, loaded.labels, wrong, seed)
    advice = ADVICE if loaded.kind == "text" and encoder is None and not isinstance(model, nn.Module) else ""
    keys = _keys(loaded) if scored is None else scored.keys
    same = alike(keys, loaded.labels, label_probability(held_out, loaded.labels))
    scores = score_labels(
        held_out,
        loaded.labels,
        loaded.classes,
        unbounded(noise, len(loaded.classes)) if by_rule else noise,
        found.ranking,
        same,
        advice,
        known,
        seed,
        None if scored is None else scored.some,
    )
    if loaded.votes is not None and loaded.annotators is not None:
        together = with_network(loaded.votes, loaded.annotators.confusion, held_out, len(loaded.labels))
        scores = scores_with_votes(scores, loaded.labels, together, loaded.annotators.posterior, loaded.trusted)
        loaded = dataclasses.replace(loaded, annotators=loaded.annotators._replace(posterior=together))
    about = {"model": name, "source": str(data) if isinstance(data, (str, Path)) else None, "kind": loaded.kind}
    ratio, low, high = scores.ratio
    result = AuditResult(
        row=loaded.row,
        label=loaded.labels,
        suggested_label=scores.suggested,
        score=scores.score,
        other_label=scores.other,
        other_probability=scores.other_probability,
        is_issue=scores.is_issue,
        removed=scores.removed,
        loss=scores.loss,
        loss_cut=scores.loss_cut,
        classes=loaded.classes,
        transition=scores.transition.astype(np.float64),
        noise_per_class=scores.noise_per_class.astype(np.float64),
        noise_ratio=ratio,
        noise_ratio_low=low,
        noise_ratio_high=high,
        accuracy=scores.accuracy,
        warnings=scores.warnings,
        skipped=loaded.skipped,
        seconds=time.perf_counter() - started,
        settings=about | found.settings | loaded.about,
        notes=[RULE, *scores.notes] if by_rule else scores.notes,
        alike=np.where(same.place < 0, -1, loaded.row[same.place]),
        by_rule=by_rule,
        held_out=held_out,
        given=loaded,
        for_training=None
        if streamed
        else Targets(
            rounded(held_out if found.best is None else found.best),
            NoiseModel(scores.transition, 1.0, False, np.ones(len(loaded.classes))),
            loaded.row,
            loaded.labels,
            len(loaded.row) + len(loaded.skipped),
            loaded.classes,
        ),
    )
    if folder is not None and ranks.first:
        result.save(folder)
        (Path(folder) / CHECKPOINT).unlink(missing_ok=True)
        remove_parts(Path(folder))
    ranks.wait()
    return result


def _earlier(start: AuditResult, loaded: AuditData) -> Tensor:
    """The predictions of an earlier audit for the rows of this one."""
    if not np.array_equal(start.row, loaded.row) or not np.array_equal(start.label, loaded.labels):
        raise ValueError("audit: start must be an audit of the same rows and labels, got one of others")
    return torch.from_numpy(start.predictions[start.row])


def _known(data: AuditData) -> Known | None:
    """What is known of the labels beforehand, if anything."""
    if data.trusted is None:
        return None
    if data.reviewed is None:
        return Known(data.trusted)
    return Known(data.trusted, data.reviewed.label, data.reviewed.decision != "")


def _chosen(
    model: nn.Module | str | None, kind: str, data: AuditData, plan: dict[str, Any], goes_on: bool = False
) -> str:
    """The name of what predicts; ``kind`` is that of its inputs. Only networks go on from an earlier audit."""
    training = sorted(set(plan) - {"seed"})
    allowed = {"text": ["words", "network"], "image": ["network"]}.get(kind, ["trees", "linear", "network"])
    if isinstance(model, str):
        check_choice("audit", "model", model, MODELS)
        if model not in allowed:
            raise ValueError(f"audit: model must be one of {', '.join(allowed)} for {kind} inputs, got {model}")
        if training and model != "network":
            raise ValueError(f"audit: {training[0]} must be left out with model {model}, which is not trained by steps")
        if goes_on and model != "network":
            raise ValueError(
                f"audit: start must be left out with model {model}, which begins anew; a network can go on"
            )
        return model
    rows = len(data.labels)
    large = rows * len(data.classes) > MOST_NUMBERS or (kind != "text" and rows * data.inputs > MOST_NUMBERS)
    if model is not None or training or goes_on or large:
        return "network"
    if kind == data.kind:
        return "trees + words" if data.beside is not None else allowed[0]  # columns beside texts
    return "linear + words"  # embeddings and words differ in kind


def _of_run(run: Run, network: str, noise: NoiseEstimate | None) -> _Predicted:
    """What the networks of a run predict; the noise is that of an earlier audit, if there was one."""
    tables = run.dynamics
    settings = run.plan.as_dict() | {
        "method": run.method,
        "network": network,
        "device": str(run.device),
        "threads": run.threads,
    }
    held_out, in_sample = (Predictions(*of.tables()) for of in (tables.held_out, tables.in_sample))
    best = Predictions(*run.best.tables())
    ranking = mean_prediction(held_out, in_sample)
    return _Predicted(held_out, settings, ranking, run.noise if noise is None else noise, best)


def _of_pool(name: str, data: AuditData, words: Any, seed: int, progress: Progress | None) -> _Predicted:
    """What pooled models predict, from features, words or both."""
    x = None
    if name == "trees + words" and data.beside is not None:  # the columns beside the texts
        x = data.beside[1].numpy()
    elif name != "words":
        x = data.fetch(np.arange(len(data.labels))).flatten(1).cpu().numpy()
    pool = [
        (model, words if part == "words" else x)
        for part in name.split(" + ")
        for model in models(part, len(data.labels), seed)
    ]
    first, both = predict_twice(pool, data.labels, len(data.classes), seed, progress, data.trusted)
    return _Predicted(Predictions(first, None), {"seed": seed} | ON_CPU, Predictions(both, None))


def _keys(data: AuditData) -> list[Any]:
    """What is the same for rows that are alike; None where that says nothing."""
    if data.kind == "text":
        return text_keys(data.content)
    if data.kind == "table" or len(data.labels) > MOST_COMPARED:  # of few columns rows are alike by chance
        return [None] * len(data.labels)
    parts = np.array_split(np.arange(len(data.labels)), max(1, len(data.labels) // 1_000))
    return [key for part in parts for key in number_keys(data.fetch(part).cpu().numpy())]


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
