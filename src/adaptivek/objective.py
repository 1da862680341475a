"""One step as pure functions: from per-sample losses to the one number to minimise."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .held import held
from .types import Seen, Selector, Task, answers, put_rows, rows_of

HALF = (torch.float16, torch.bfloat16)  # too coarse to add up
IGNORE = -100  # the label PyTorch and Hugging Face give to what must not count


class Tally(NamedTuple):
    """Counters that every method shares."""

    step: Tensor  #: training steps so far
    empty: Tensor  #: steps in which nothing was kept
    nonfinite: Tensor  #: losses left out because they were NaN or infinite
    recent_kept: Tensor  #: moving average of the samples kept per step since warm-up, up to a factor
    recent_seen: Tensor  #: the same of the samples judged, with the same factor
    last_kept: Tensor  #: weight of all samples kept in the last step
    last_seen: Tensor  #: how many counted in the last step
    epoch: Tensor  #: the one that has begun, from 0; -1 if nobody has told


class Memory(NamedTuple):
    """All that is carried from one step to the next."""

    tally: Tally
    state: Any  #: the method's own NamedTuple of tensors


class Outcome(NamedTuple):
    """What a step decided."""

    weights: Tensor  #: in [0, 1], shaped like the losses; 0: left out
    believed: Tensor  #: how far each label is believed; the weights, unless the method relabels
    memory: Memory


def start(method: Selector[Any], task: Task | None = None) -> Memory:
    """Memory before the first step."""
    step, empty, nonfinite = (torch.zeros((), dtype=torch.int64) for _ in range(3))
    kept, seen, last_kept, last_seen = (torch.zeros(()) for _ in range(4))
    tally = Tally(step, empty, nonfinite, kept, seen, last_kept, last_seen, epoch=torch.tensor(-1))
    return Memory(tally, method.init(task or Task()))


def objective(
    method: Selector[Any],
    memory: Memory,
    losses: Tensor,
    mask: Tensor | None = None,
    index: Tensor | None = None,
    logits: Tensor | None = None,
    labels: Tensor | None = None,
    *,
    warmup: int = 0,
    window: int = 500,
) -> tuple[Tensor, Outcome]:
    """One step: the loss to minimise and what was decided. Pure; reduces the last axis only.

    Leading axes are separate runs, each with its own memory; `torch.func.vmap` does the same. Of the
    method's tables, the memory that comes out holds the entries of this batch: see `remember`.

    For a method with several `answers` to a sample, losses are (..., answers, B) and logits (..., answers, B, classes),
    while mask, index and labels stay (..., B). What is minimised is the sum of the mean losses of its answers.
    """
    several = answers(method) > 1
    counts = losses.detach().abs() < math.inf  # False for NaN too
    if several:
        counts = counts.all(-2, keepdim=True).expand_as(counts)
    if mask is not None:
        counts = counts & (mask.unsqueeze(-2) if several else mask)
    losses = losses.where(counts, 0.0)  # where, never a product with 0: 0 * inf is NaN
    with torch.no_grad():
        tally, state = memory
        numbers = counts.sum(-1, dtype=torch.float32)
        seen = Seen(
            losses.detach().float(), counts, numbers, index, None if logits is None else logits.detach(), labels
        )
        chosen, moved = method.select(state, seen)
        number = numbers[..., 0] if several else numbers
        selecting = (tally.step >= warmup) & (number > 0)
        weights = (torch.where(_as_wide(selecting, counts), chosen, counts) * counts).to(losses.dtype)
        totals = weights.sum(-1, dtype=torch.float32)
        total = totals.amax(-1) if several else totals  # an answer that only judges has none
        believed, believed_total = weights, total
        if type(method).believed is not Selector.believed:
            believed = method.believed(state, seen, chosen)
            believed = (torch.where(_as_wide(selecting, counts), believed, counts) * counts).to(losses.dtype)
            believed_total = believed.sum(-1, dtype=torch.float32)
        pace = selecting / window  # 0 stands still
        tally = Tally(
            step=tally.step + 1,
            empty=tally.empty + (total == 0),
            nonfinite=tally.nonfinite + ((losses.shape[-1] if mask is None else mask.sum(-1)) - number).long(),
            recent_kept=tally.recent_kept.lerp(believed_total, pace),
            recent_seen=tally.recent_seen.lerp(number, pace),
            last_kept=total,
            last_seen=number,
            epoch=tally.epoch,
        )
        state = _standing_still(method, state, moved, selecting, counts[..., 0, :] if several else counts, index)
    # The only reduction of a loss; 0, with zero gradients, where nothing is kept. Not a dot product: autocast
    # would take that in half precision.
    means = (losses * weights).sum(-1) / (totals + (totals == 0))
    return means.sum(-1) if several else means, Outcome(weights, believed, Memory(tally, state))


def _standing_still(
    method: Selector[Any], state: Any, moved: Any, selecting: Tensor, counts: Tensor, index: Tensor | None
) -> Any:
    """The next state: as before until there is something to select from, and for rows that do not count."""
    values = []
    for name, old, new in zip(state._fields, state, moved, strict=True):
        if new is old:
            values.append(old)
        elif name in method.tables:
            assert index is not None
            entries = rows_of(old, index)
            moves = selecting.unsqueeze(-1) & counts
            values.append(new.where(_as_wide(moves, new), entries))
        else:
            values.append(new.where(_as_wide(selecting, new), old))
    return type(state)(*values)


def _as_wide(x: Tensor, like: Tensor) -> Tensor:
    return x.reshape(x.shape + (1,) * (like.dim() - x.dim()))


def remember(method: Selector[Any], memory: Memory, after: Memory, index: Tensor | None) -> None:
    """Write what a step decided into ``memory``, in place: a captured CUDA graph replays on these very addresses."""
    with torch.no_grad():
        for old, new in zip(memory.tally, after.tally, strict=True):
            if new is not old:
                old.copy_(new)
        for name, old, new in zip(memory.state._fields, memory.state, after.state, strict=True):
            if new is old:
                continue
            if name in method.tables:
                assert index is not None
                put_rows(old, index, new)
            else:
                old.copy_(new)


def begin_epoch(
    method: Selector[Any], memory: Memory, epoch: int, swept: Tensor | None = None, *, warmup: int = 0
) -> None:
    """Tell a method that an epoch begins, and write what it makes of that into ``memory``, in place."""
    memory.tally.epoch.fill_(epoch)
    if not bool((memory.tally.step >= warmup).all()):
        return
    state = method.refresh(memory.state, epoch, swept)
    for old, new in zip(memory.state, state, strict=True):
        if new is not old:
            old.copy_(new)


def own_losses(
    method: Selector[Any], memory: Memory, logits: Tensor, labels: Tensor, index: Tensor | None, warmup: int
) -> Tensor:
    """The method's loss of each sample, (..., B), or plain cross-entropy while warming up.

    Logits are (..., B, classes). Like `cross_entropy`, NaN where they are not usable, and in float32 at least.
    For a method with several `answers`, these have an axis before that of the samples, which the labels have not.
    """
    if answers(method) > 1:
        labels = labels.unsqueeze(-2).expand(logits.shape[:-1])
    plain = cross_entropy(logits.flatten(0, -2), labels.flatten()).view(labels.shape)
    if type(method).losses is Selector.losses:
        return plain
    usable = plain.detach().abs() < math.inf
    logits = (logits.float() if logits.dtype in HALF else logits).where(usable.unsqueeze(-1), 0.0)
    state = memory.state  # of tables, entries are held when they are looked up
    state = type(state)(*(old if name in method.tables else held(old) for name, old in state._asdict().items()))
    own = method.losses(state, logits, labels.clamp(min=0), index).where(usable, math.nan)
    if warmup == 0:
        return own
    return torch.where(_as_wide(held(memory.tally.step) >= warmup, own), own, plain)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy per sample, in float32 at least; NaN, with zero gradients, on logits that are not usable."""
    if logits.dim() < 2:
        raise ValueError(f"Selection: logits must have shape (batch, classes, ...), got {tuple(logits.shape)}")
    if logits.dtype in HALF:
        logits = logits.float()
    # log_softmax turns even a zero gradient into NaN on such rows, so they must not reach it
    usable = logits.detach().amax(1).abs() < math.inf
    losses = F.cross_entropy(logits.where(usable.unsqueeze(1), 0.0), target, reduction="none")
    return losses.where(usable, math.nan)
