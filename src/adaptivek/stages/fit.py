"""One call: cross-train, judge every label, and train one network on what is likely."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..auditing.audit import audit
from ..auditing.networks import PLANS, suited
from ..auditing.result import AuditResult
from ..auditing.sources import Use, load
from ..auditing.text_embeddings import tokenised
from ..auditing.tokens import FINE_TUNING
from ..backend.checks import check_choice
from ..support.device import find_device
from .fitted import Fitted
from .gain import FEWEST_ROWS, Gain, measure
from .inputs import learn_inputs
from .training import Task, train

#: told what is being done, and how many of how many batches of it are done
Progress = Callable[[str, int, int], None]


def fit(
    model: nn.Module | None,
    data: Any,
    labels: Any = None,
    *,
    text: str | None = None,
    trusted: Sequence[int] | None = None,
    rounds: int | None = None,
    measured: bool = True,
    folder: str | Path | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    **plan: Any,
) -> Fitted:
    """A network for data whose labels are noisy, trained in two stages, and what is known of the labels.

    Networks are cross-trained on halves of the rows (`audit`). Then a fresh one is trained on all rows by the default
    method, whose memory begins with the predictions of those that had not seen them. A second cross-training that
    begins with the first is done if it pays.

    Args:
        model: your own network, copies of which are trained; None: the one that suits the kind of data.
        data: as for `audit`.
        labels: likewise.
        text: the name of the text column; found if there is one.
        trusted: numbers of rows whose labels are surely right, to measure the gain by.
        rounds: 1 or 2 cross-trainings; decided by what is measured unless given, and 2 where nothing is.
        measured: whether to measure the gain over plain training by cross-fitting, which costs as much again as all the
            rest, and twice that where ``rounds`` is left open.
        folder: where the files are written.
        device: where to train: auto, cpu, cuda.
        progress: called after every batch with what is done, how many batches of it, and of how many.
        plan: epochs, batch_size, learning_rate and more, as for `audit`; for both stages alike.
    """
    for name in plan:
        check_choice("fit", "argument", name, [field.name for field in dataclasses.fields(PLANS["text"])])
    if rounds not in (None, 1, 2):
        raise ValueError(f"fit: rounds must be 1, 2 or None, got {rounds!r}")
    where = find_device(device)
    loaded = tokenised(load(data, labels, Use(text)))
    if loaded.beside is not None:
        raise ValueError(
            f"fit: text must name the column to learn from where texts stand beside other columns, one of "
            f"{', '.join(loaded.about['columns'])}; got None"
        )
    if isinstance(data, (str, Path)):
        loaded = dataclasses.replace(loaded, about=loaded.about | {"source": str(data)})
    if loaded.tokens and model is None:
        raise ValueError("fit: model must be given for tokenised texts, got None")
    usual = FINE_TUNING if loaded.tokens else suited(PLANS[loaded.kind], len(loaded.labels))
    task = Task(loaded, model, dataclasses.replace(usual, **plan), where)
    judged, said = _trusted(trusted, loaded.row), _Steps(progress)
    gain: Gain | None = None
    if measured and len(loaded.labels) >= FEWEST_ROWS:
        tried = (1, 2) if rounds is None else (rounds,)
        # each cross-training of a half takes as many steps of both networks as half of a training on it
        said.start("measuring", round(task.steps(0) * (1 + sum(1 + number / 2 for number in tried))))
        gain = measure(task, tried, judged, said.step)
        rounds = gain.rounds
    result: AuditResult | None = None
    for number in range(rounds or 2):
        what = "cross-training again" if number else "cross-training"
        settings = {field.name: getattr(task.plan, field.name) for field in dataclasses.fields(task.plan)}
        result = audit(
            loaded, None, model or "network", start=result, device=device, progress=said.audit(what),
            **settings,
        )  # fmt: skip
    assert result is not None
    said.start("training", task.steps(0))
    network = train(task, torch.from_numpy(result.predictions[result.row]), said.step)
    fitted = Fitted(
        network,
        loaded.classes,
        task.plan,
        where,
        learn_inputs(loaded, data),
        None if model is not None else (loaded.kind, loaded.inputs),
        result,
        gain,
    )
    if folder is not None:
        fitted.save(folder)
    return fitted


class _Steps:
    """Tells of progress, one piece of work after the other."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress, self.what, self.done, self.total = progress, "", 0, 0

    def start(self, what: str, total: int) -> None:
        self.what, self.done, self.total = what, 0, total

    def step(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(self.what, self.done, max(self.done, self.total))

    def audit(self, what: str) -> Callable[[int, int], None]:
        """What an audit is to call."""

        def told(done: int, total: int) -> None:
            if self.progress is not None:
                self.progress(what, done, total)

        return told


def _trusted(given: Sequence[int] | None, row: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Places of the trusted rows among those that could be read."""
    if given is None:
        return None
    numbers = np.asarray(given)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not len(numbers):
        raise ValueError(f"fit: trusted must be numbers of rows, got {numbers.dtype} of shape {numbers.shape}")
    found = np.flatnonzero(np.isin(row, numbers))
    if not len(found):
        raise ValueError("fit: trusted must be rows that can be read and have a label, got none")
    return found
