"""Several processes, one batch: what a method judges is the batch of all ranks together.

Every rank gathers what the method is to see, decides the same, and trains on its own part. Two ranks with
32 samples each thus do what one process does with 64.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup as ProcessGroup

from ..step import Inputs


def process_group(distributed: bool | ProcessGroup) -> ProcessGroup | None:
    """The ranks to judge with, or None for a process that is alone."""
    if distributed is False or not dist.is_available() or not dist.is_initialized():
        return None
    group = dist.group.WORLD if distributed is True else distributed
    return group if dist.get_world_size(group) > 1 else None


def gather(group: ProcessGroup, inputs: Inputs) -> tuple[Inputs, slice]:
    """The batch of all ranks, one after the other, with gradients on this rank's part alone; and where that is.

    Their parts may differ in size, or be empty; all of them must call this.
    """
    if inputs.rows is not None:  # they may be on the host still
        values = inputs.losses if inputs.logits is None else inputs.logits
        assert values is not None
        inputs = inputs._replace(rows=inputs.rows.to(values.device))
    batch = _columns(inputs)
    number = len(batch[0])
    here = torch.tensor([number, inputs.rows is not None], device=batch[0].device)
    heads = [torch.empty_like(here) for _ in range(dist.get_world_size(group))]
    dist.all_gather(heads, here, group=group)
    sizes, indexed = zip(*torch.stack(heads).tolist(), strict=True)  # the one wait for the device
    if len(set(indexed)) > 1:  # known to every rank, so that all of them stop
        having = [rank for rank, has in enumerate(indexed) if has]
        raise ValueError(f"Selection: index must be given on every rank or on none, got it on ranks {having}")
    # one message for all, of bytes: each part as it is, whatever its type
    parts = [part.detach().contiguous().view(torch.uint8) for part in batch]
    own = torch.cat(parts, 1)
    message = own.new_zeros(max(sizes), own.shape[1])
    message[:number] = own
    received = [torch.empty_like(message) for _ in sizes]
    dist.all_gather(received, message, group=group)
    everyone = torch.cat([part[:size] for part, size in zip(received, sizes, strict=True)])
    start = sum(sizes[: dist.get_rank(group)])
    mine = slice(start, start + number)
    columns = torch.split(everyone, [part.shape[1] for part in parts], 1)
    typed = [column.contiguous().view(part.dtype) for column, part in zip(columns, batch, strict=True)]
    return _from_columns(typed, inputs, mine), mine


def for_averaging(loss: Tensor, group: ProcessGroup) -> Tensor:
    """The same number, with gradients as many times as large as there are ranks.

    DDP and FSDP divide the sum of the ranks' gradients by their number, while the loss has been divided by
    what all ranks kept together.
    """
    return loss + (dist.get_world_size(group) - 1) * (loss - loss.detach())


def _columns(inputs: Inputs) -> list[Tensor]:
    """What there is of a batch, samples first, (B, size) each; and last what counts, which only some ranks may have."""
    parts = [x for x in inputs._replace(mask=None) if x is not None]
    samples = [x[:, None] if x.dim() == 1 else x.movedim(-2, 0).flatten(1) for x in parts]
    mask = samples[0].new_ones(len(samples[0]), dtype=torch.bool) if inputs.mask is None else inputs.mask
    return [*samples, mask[:, None]]


def _from_columns(columns: list[Tensor], inputs: Inputs, mine: slice) -> Inputs:
    """The batch again, each part in its shape; this rank's part of it is as it was, with its gradients."""
    found: dict[str, Tensor] = {"mask": columns[-1].squeeze(1)}
    names = [name for name, value in inputs._asdict().items() if value is not None and name != "mask"]
    for name, column in zip(names, columns, strict=False):
        own: Tensor = getattr(inputs, name)
        axis = max(own.dim() - 2, 0)  # of the samples: before it, if at all, is that of several outputs
        shape = own.movedim(axis, 0).shape[1:]
        all_ranks = column.view(len(column), *shape).movedim(0, axis)
        before, _, after = all_ranks.tensor_split([mine.start, mine.stop], axis)
        found[name] = torch.cat([before, own, after], axis)
    return inputs._replace(**found)
