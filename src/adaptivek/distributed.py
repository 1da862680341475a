"""Several processes, one batch: what a method judges is the batch of all ranks together.

Every rank gathers what the method is to see, decides the same, and trains on its own part. Two ranks with
32 samples each thus do what one process does with 64.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup as ProcessGroup


class Together(NamedTuple):
    """The batch of all ranks, one rank after the other."""

    losses: Tensor  #: (B,) or (answers, B), with gradients on this rank's part alone
    mask: Tensor  #: (B,) bool
    rows: Tensor | None  #: (B,)
    logits: Tensor | None  #: (B, classes) or (answers, B, classes)
    labels: Tensor | None  #: (B,)
    mine: slice  #: where this rank's part is


def peers(distributed: bool | ProcessGroup) -> ProcessGroup | None:
    """The ranks to judge with, or None for a process that is alone."""
    if distributed is False or not dist.is_available() or not dist.is_initialized():
        return None
    group = dist.group.WORLD if distributed is True else distributed
    return group if dist.get_world_size(group) > 1 else None


def gather(
    group: ProcessGroup,
    losses: Tensor,
    mask: Tensor | None,
    index: Tensor | None,
    logits: Tensor | None = None,
    labels: Tensor | None = None,
) -> Together:
    """The batch of all ranks. Their parts may differ in size, or be empty; all of them must call this."""
    number = losses.shape[-1]
    here = torch.tensor([number, index is not None], device=losses.device)
    heads = [torch.empty_like(here) for _ in range(dist.get_world_size(group))]
    dist.all_gather(heads, here, group=group)
    sizes, indexed = zip(*torch.stack(heads).tolist(), strict=True)  # the one wait for the device
    if len(set(indexed)) > 1:  # known to every rank, so that all of them stop
        having = [rank for rank, has in enumerate(indexed) if has]
        raise ValueError(f"Selection: index must be given on every rank or on none, got it on ranks {having}")
    # one message for all: a double holds every float and every row number exactly
    whether = losses.new_ones(number) if mask is None else mask
    flat = losses.detach().t() if losses.dim() == 2 else losses.detach()[:, None]
    singles = [x[:, None] for x in (whether, index, labels) if x is not None]
    wide = [] if logits is None else [logits.movedim(-2, 0).flatten(1)]
    columns = torch.cat([x.double() for x in (flat, *singles, *wide)], 1)
    message = columns.new_zeros(max(sizes), columns.shape[1])
    message[:number] = columns
    parts = [torch.empty_like(message) for _ in sizes]
    dist.all_gather(parts, message, group=group)
    rank = dist.get_rank(group)
    start = sum(sizes[:rank])
    everyone = torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])
    mine = slice(start, start + sizes[rank])
    found, told, rest = everyone.tensor_split([flat.shape[1], flat.shape[1] + len(singles)], 1)
    counts, *others = told.unbind(1)
    found = found.t().to(losses.dtype).reshape(*losses.shape[:-1], -1)
    if logits is not None:
        logits = rest.to(logits.dtype).view(-1, *logits.shape[:-2], logits.shape[-1]).movedim(0, -2)
    return Together(
        losses=torch.cat([found[..., :start], losses, found[..., mine.stop :]], -1),
        mask=counts.bool(),
        rows=None if index is None else others.pop(0).to(index.dtype),
        logits=logits,
        labels=None if labels is None else others.pop(0).to(labels.dtype),
        mine=mine,
    )


def for_averaging(loss: Tensor, group: ProcessGroup) -> Tensor:
    """The same number, with gradients as many times as large as there are ranks.

    DDP and FSDP divide the sum of the ranks' gradients by their number, while the loss has been divided by
    what all ranks kept together.
    """
    return loss + (dist.get_world_size(group) - 1) * (loss - loss.detach())
