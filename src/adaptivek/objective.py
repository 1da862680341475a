"""One step as pure functions: from per-sample losses to the one number to minimise."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .types import Seen, Selector, Task

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


class Memory(NamedTuple):
    """All that is carried from one step to the next."""

    tally: Tally
    state: Any  #: the method's own NamedTuple of tensors


class Outcome(NamedTuple):
    """What a step decided."""

    weights: Tensor  #: in [0, 1], shaped like the losses; 0: left out
    memory: Memory


def start(method: Selector[Any], task: Task | None = None) -> Memory:
    """Memory before the first step."""
    count = torch.zeros((), dtype=torch.int64)
    amount = torch.zeros(())
    tally = Tally(count, count.clone(), count.clone(), amount, amount.clone(), amount.clone(), amount.clone())
    return Memory(tally, method.init(task or Task()))


def objective(
    method: Selector[Any],
    memory: Memory,
    losses: Tensor,
    mask: Tensor | None = None,
    index: Tensor | None = None,
    *,
    warmup: int = 0,
    window: int = 500,
) -> tuple[Tensor, Outcome]:
    """One step: the loss to minimise and what was decided. Pure; reduces the last axis only.

    Leading axes are separate runs, each with its own memory; `torch.func.vmap` does the same.
    """
    counts = losses.detach().abs() < math.inf  # False for NaN too
    if mask is not None:
        counts = counts & mask
    losses = losses.where(counts, 0.0)  # where, never a product with 0: 0 * inf is NaN
    with torch.no_grad():
        tally, state = memory
        number = counts.sum(-1, dtype=torch.float32)
        chosen, moved = method.select(state, Seen(losses.detach().float(), counts, number, index))
        selecting = (tally.step >= warmup) & (number > 0)
        weights = (torch.where(selecting.unsqueeze(-1), chosen, counts) * counts).to(losses.dtype)
        total = weights.sum(-1, dtype=torch.float32)
        nothing = total == 0
        pace = selecting / window  # 0 stands still
        tally = Tally(
            step=tally.step + 1,
            empty=tally.empty + nothing,
            nonfinite=tally.nonfinite + ((losses.shape[-1] if mask is None else mask.sum(-1)) - number).long(),
            recent_kept=tally.recent_kept.lerp(total, pace),
            recent_seen=tally.recent_seen.lerp(number, pace),
            last_kept=total,
            last_seen=number,
        )
        # the method's state stands still until there is something to select from
        state = type(state)(
            *(old if new is old else new.where(selecting, old) for new, old in zip(moved, state, strict=True))
        )
    # The only reduction of a loss; 0, with zero gradients, where nothing is kept. Not a dot product: autocast
    # would take that in half precision.
    mean = (losses * weights).sum(-1) / (total + nothing)
    return mean, Outcome(weights, Memory(tally, state))


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
