"""One training step as a pure function: from a mini-batch to the number to minimise, and what to remember."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .backend import compact, fitting, tables
from .backend.opaque import opaque
from .method import Batch, Method, Task, add_label_, observed, outputs

HALF = (torch.float16, torch.bfloat16)  # too coarse to add up
IGNORE = -100  # the label PyTorch and Hugging Face give to what must not count


class Tally(NamedTuple):
    """Counters that every method shares."""

    step: Tensor  #: training steps so far
    plain_until: Tensor  #: steps before this one are plain training
    empty: Tensor  #: steps in which nothing was kept
    nonfinite: Tensor  #: losses left out because they were NaN or infinite
    unknown_rows: Tensor  #: samples left out because the training set has no such row
    epoch: Tensor  #: the one that has begun, from 0; -1 if nobody has told
    recent_confidence: Tensor  #: moving average of the confidence in all labels of a step since warm-up, up to a factor
    recent_seen: Tensor  #: the same of the number of labels, with the same factor
    last_kept: Tensor  #: sum of the weights in the last step
    last_seen: Tensor  #: how many samples were valid in the last step
    last_norm: Tensor  #: what the losses of the last step were divided by


class Memory(NamedTuple):
    """All that is carried from one step to the next."""

    tally: Tally
    state: Any  #: the method's own NamedTuple of tensors


class Inputs(NamedTuple):
    """A mini-batch: logits and labels, or one loss per sample."""

    losses: Tensor | None = None  #: (B,), where there are no logits
    logits: Tensor | None = None  #: (B, classes), or (outputs, B, classes)
    labels: Tensor | None = None  #: (B,); `IGNORE`: does not count
    targets: Tensor | None = None  #: (B, classes) class probabilities, in place of labels
    mask: Tensor | None = None  #: (B,) bool: what counts
    rows: Tensor | None = None  #: (B,) row numbers
    #: (B,) where their entries are, in blocks that hold those of the batch alone; -1: there is no such row
    places: Tensor | None = None


class Loss(NamedTuple):
    """Cross-entropy with the options of `nn.CrossEntropyLoss`, which change what is learned, not what is judged."""

    weight: Tensor | None = None  #: (classes,)
    smoothing: float = 0.0

    def of(self, log_probs: Tensor, targets: Tensor) -> Tensor:
        """Of each sample, (..., B), for class probabilities (..., B, classes)."""
        if self.smoothing:
            targets = targets.lerp(torch.full_like(targets, 1 / targets.shape[-1]), self.smoothing)
        if self.weight is not None:
            targets = targets * self.weight
        # a class that is ruled out by a logit of minus infinity has no say
        return -(targets * F.threshold(log_probs, -math.inf, 0.0)).sum(-1)

    def norm(self, targets: Tensor) -> Tensor | None:
        """What each sample adds to the number that losses are divided by, (B,); None: 1."""
        return None if self.weight is None else (targets * self.weight).sum(-1)

    def mean(self, output: Tensor, target: Tensor, number: int, ignore_index: int) -> Tensor:
        """What `nn.CrossEntropyLoss` gives; where a method sees several outputs, the mean of it over these."""
        options: dict[str, Any] = {"weight": self.weight, "label_smoothing": self.smoothing}
        if not target.is_floating_point():
            options["ignore_index"], target = ignore_index, target.long()
        # a model in eval() may give one output where several are trained
        several = number > 1 and output.dim() > 2 and output.shape[:2] == (number, len(target))
        each = [
            F.cross_entropy(one.float() if one.dtype in HALF else one, target, **options)
            for one in (output if several else [output])
        ]
        return torch.stack(each).mean() if several else each[0]


class Outcome(NamedTuple):
    """What a step decided."""

    losses: Tensor  #: of each sample, as it is minimised
    weights: Tensor  #: in [0, 1], shaped like the losses; 0: left out
    confidence: Tensor  #: in each observed label, in [0, 1]
    tally: Tally  #: the next one
    update: Mapping[str, Tensor]  #: fields of the state that change; of tables, the entries of the batch's rows
    moves: Tensor  #: (B,) bool: whose entries do
    places: Tensor | None  #: (B,) where they are


def check_task(method: Method[Any], task: Task) -> None:
    """Raise unless a method is told what it needs to know before training."""
    owner = type(method).__name__
    if method.privileged and task.clean is None:
        raise ValueError(f"{owner}: clean must be one bool per training row (True: the label is clean), got None")
    for name, needed, value, example in (
        ("rows", method.needs_rows and bool(method.tables), task.rows, "len(train_set)"),
        ("classes", method.needs_classes, task.classes, "10"),
    ):
        if needed and value is None:
            raise ValueError(f"{owner}: {name} must be given: Selection(..., {name}={example}), got None")


def start(method: Method[Any], task: Task | None = None, warmup: int = 0, table_classes: int | None = None) -> Memory:
    """Memory before the first step. Of each row, tables keep ``table_classes`` classes, or as many as they should."""
    task = task or Task()
    check_task(method, task)
    numbers = (torch.tensor(value) for value in (0, warmup, 0, 0, 0, -1))
    return Memory(Tally(*numbers, *(torch.zeros(()) for _ in range(5))), _first_state(method, task, table_classes))


def _first_state(method: Method[Any], task: Task, table_classes: int | None) -> Any:
    rows, classes, kept = task.rows or 0, task.classes or 0, None
    if fitting.packs(method):
        kept = fitting.kept_classes(rows, classes, table_classes)
    elif table_classes is not None and table_classes < classes:
        raise ValueError(f"Selection: table_classes must be left out for {method.name}, got {table_classes}")
    fitting.check_fits(method, task, kept)
    task = fitting.packed(task, kept)
    state = method.init(task)
    for name in method.tables:
        if task.pack is None and compact.is_packed(getattr(state, name)):
            raise ValueError(
                f"{type(method).__name__}: {name} must be of another type than int16, which is for packed rows"
            )
    return state


def train_step(
    method: Method[Any], memory: Memory, inputs: Inputs, *, loss: Loss | None = None, window: int = 500
) -> tuple[Tensor, Outcome]:
    """The loss to minimise, and what was decided. Pure; many runs at once by `torch.func.vmap`."""
    return step_with_targets(method, memory, inputs, loss=loss, window=window)[:2]


def step_with_targets(
    method: Method[Any], memory: Memory, inputs: Inputs, *, loss: Loss | None = None, window: int = 500
) -> tuple[Tensor, Outcome, Tensor | None]:
    """The same, and (B, classes) what is learned in place of the observed labels, if anything."""
    tally, state, loss = memory.tally, memory.state, loss or Loss()
    places, known = _known_rows(method, state, inputs.rows if inputs.places is None else inputs.places)
    batch, counted, log_probs = _batch(inputs, places if inputs.places is None else inputs.rows, known)
    decision = method.step(_entries(method, state, batch, places), batch)
    with torch.no_grad():
        selecting = (tally.step >= tally.plain_until) & (batch.n_valid > 0)
        weights = _where(selecting, decision.weights, batch)
        confidence = weights if decision.confidence is None else _where(selecting, decision.confidence, batch)
        targets = decision.targets
        if targets is not None:
            targets = _or_observed(selecting, targets.detach(), batch)
    losses, norm = _to_minimise(batch, log_probs, decision.losses, targets, selecting, loss)
    losses = losses.where(batch.valid, 0.0)  # where, never a product with 0: 0 * inf is NaN
    sums = (weights if norm is None else weights * norm).sum(-1, dtype=torch.float32)
    # The only reduction of a loss; 0, with zero gradients, where nothing is kept. Not a dot product: autocast
    # would take that in half precision.
    kept_losses = losses if decision.weights is batch.valid else losses * weights
    means = kept_losses.sum(-1) / (sums + (sums == 0))
    with torch.no_grad():
        several = outputs(method) > 1
        totals = sums if norm is None else weights.sum(-1, dtype=torch.float32)
        kept, norms = (x.amax(-1) if several else x for x in (totals, sums))  # an output that only judges has none
        confident = kept if decision.confidence is None else confidence.sum(-1, dtype=torch.float32)
        pace = selecting / window  # 0 stands still
        tally = Tally(
            step=tally.step + 1,
            plain_until=tally.plain_until,
            empty=tally.empty + (kept == 0),
            nonfinite=tally.nonfinite + (counted - batch.n_valid).long(),
            unknown_rows=tally.unknown_rows if known is None else tally.unknown_rows + (~known).sum(-1),
            epoch=tally.epoch,
            recent_confidence=tally.recent_confidence.lerp(confident, pace),
            recent_seen=tally.recent_seen.lerp(batch.n_valid, pace),
            last_kept=kept,
            last_seen=batch.n_valid,
            last_norm=norms,
        )
        update = {
            name: value.detach() if name in method.tables else torch.where(selecting, value, getattr(state, name))
            for name, value in (decision.update or {}).items()
        }
    outcome = Outcome(losses, weights, confidence, tally, update, selecting & batch.valid, places)
    return means.sum(-1) if several else means, outcome, targets


def remember(method: Method[Any], memory: Memory, outcome: Outcome) -> None:
    """Write what a step decided into ``memory``, in place: a captured CUDA graph replays on these very addresses."""
    with torch.no_grad():
        for old, new in zip(memory.tally, outcome.tally, strict=True):
            if new is not old:
                old.copy_(new)
        for name, new in outcome.update.items():
            old = getattr(memory.state, name)
            if name not in method.tables:
                old.copy_(new)
            elif outcome.places is not None:
                tables.write(old, outcome.places, new, outcome.moves)


def begin_epoch(method: Method[Any], memory: Memory, epoch: int, full_pass: Tensor | None = None) -> None:
    """Tell a method that an epoch begins, and write what it makes of that into ``memory``, in place."""
    memory.tally.epoch.fill_(epoch)
    if bool(memory.tally.step >= memory.tally.plain_until):
        # all of it where the tables are, which may be the host while the rest is on a GPU
        home = getattr(memory.state, method.tables[0]).device if method.tables else memory.tally.epoch.device
        state = type(memory.state)(*(x.to(home) for x in memory.state))
        state = method.start_epoch(state, epoch, None if full_pass is None else full_pass.to(home))
        for old, new in zip(memory.state, state, strict=True):
            old.copy_(new)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy per sample, in float32 at least; NaN, with zero gradients, on logits that are not usable."""
    if logits.dim() < 2:
        raise ValueError(f"Selection: logits must have shape (batch, classes, ...), got {tuple(logits.shape)}")
    if logits.dtype in HALF:
        logits = logits.float()
    # log_softmax turns even a zero gradient into NaN on such rows, so they must not reach it
    usable = logits.detach().amax(1).abs() < math.inf
    losses = F.cross_entropy(logits.where(usable.unsqueeze(1), 0.0), target, reduction="none", ignore_index=IGNORE)
    return losses.where(usable, math.nan)


def _known_rows(method: Method[Any], state: Any, rows: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Row numbers that can be looked up, and which of them are what they were: others would kill a GPU process."""
    if rows is None or not method.tables:
        return rows, None
    number = len(getattr(state, method.tables[0]))
    if not number:
        return None, None  # never told how many there are: there is nothing to look up
    found = rows.clamp(0, number - 1)
    return found, found == rows


def _entries(method: Method[Any], state: Any, batch: Batch, places: Tensor | None) -> Any:
    """The state as a method sees it: of its tables, the entries of the batch's rows, which are at ``places``."""
    classes = 0 if batch.logits is None else batch.logits.shape[-1]

    def entry(name: str, value: Tensor) -> Tensor | None:
        if name not in method.tables:
            return opaque(value)
        return None if places is None else tables.read(value, places, classes)

    kind = type(state)  # PyTorch's compiler knows the fields of a class before it knows those of an object
    return kind(*(entry(name, value) for name, value in zip(kind._fields, state, strict=True)))


def _batch(inputs: Inputs, rows: Tensor | None, known: Tensor | None) -> tuple[Batch, Tensor, Tensor | None]:
    """The batch as a method sees it; how many samples count, be they finite or not; and log-probabilities."""
    losses, logits, labels = inputs.losses, inputs.logits, inputs.labels
    counts = [x for x in (inputs.mask, known) if x is not None]
    log_probs = None
    if logits is not None:
        logits = logits.float() if logits.dtype in HALF else logits
        # log_softmax turns even a zero gradient into NaN on such rows, so they must not reach it
        usable = logits.detach().amax(-1).abs() < math.inf
        logits = logits.where(usable.unsqueeze(-1), 0.0)
        log_probs = F.log_softmax(logits, -1)
        if inputs.targets is not None:
            labels, losses = inputs.targets.argmax(-1), Loss().of(log_probs, inputs.targets)
        else:
            assert labels is not None
            counts.append(labels != IGNORE)
            labels = labels.clamp(min=0)
            chosen = labels.expand(log_probs.shape[:-1]).unsqueeze(-1)
            losses = -log_probs.gather(-1, chosen).squeeze(-1)
    assert losses is not None
    finite = losses.detach().abs() < math.inf  # False for NaN too
    finite = finite if logits is None else finite & usable
    finite = finite.all(0) if finite.dim() == 2 else finite
    counted = functools.reduce(operator.and_, counts) if counts else torch.ones_like(finite)
    valid = finite & counted
    return (
        Batch(
            loss=losses.detach().float().where(valid, 0.0),
            losses=losses,
            valid=valid,
            n_valid=valid.sum(-1, dtype=torch.float32),
            rows=rows,
            logits=logits,
            labels=None if logits is None else labels,
            targets=inputs.targets,
        ),
        counted.sum(-1, dtype=torch.float32),
        log_probs,
    )


def _where(selecting: Tensor, decided: Tensor, batch: Batch) -> Tensor:
    """What a method decided, or that all counts while training plainly; 0 for what is not valid."""
    valid = batch.valid.to(batch.losses.dtype)
    if decided is batch.valid:
        return valid
    return torch.where(selecting, decided.detach().to(valid.dtype), valid) * valid


def _or_observed(selecting: Tensor, targets: Tensor, batch: Batch) -> Tensor:
    """What a method wants to be learned, or the observed labels while training plainly."""
    if batch.targets is not None:
        return torch.where(selecting, targets, batch.targets)
    return add_label_(targets.where(selecting, 0.0), batch, ~selecting)


def _to_minimise(
    batch: Batch, log_probs: Tensor | None, own: Tensor | None, targets: Tensor | None, selecting: Tensor, loss: Loss
) -> tuple[Tensor, Tensor | None]:
    """The loss of each sample, and what it adds to the number that their sum is divided by (None: 1)."""
    soft = batch.targets is not None  # torch divides by the number of samples then
    if targets is not None:
        assert log_probs is not None
        return loss.of(log_probs, targets), None if soft else loss.norm(targets)
    if loss.weight is None and not loss.smoothing:
        losses, norm = batch.losses, None
    else:
        assert log_probs is not None
        targets = observed(batch)
        losses, norm = loss.of(log_probs, targets), None if soft else loss.norm(targets)
    if own is None:
        return losses, norm
    own = own if loss.weight is None else own * (observed(batch) * loss.weight).sum(-1)
    return torch.where(selecting, own, losses), norm
