"""Tables that stay in the host's memory, where a GPU has no room for them, while all else is on the GPU.

A step is given blocks in place of the tables: the entries of the batch's rows, on its own device, as many as the batch
has samples, so that a recorded step can be replayed on them. What it writes there is copied back while training goes
on, and put into the tables before anybody reads them again. So the host waits only for the step before, and the GPU for
nobody. On a CPU it is the same, with nothing to wait for.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..step import Inputs
from .values import has_values


class Lent(NamedTuple):
    """What a step is given of the tables."""

    rows: Tensor  #: (U,) on the host: those of the batch, each once
    asked: Tensor  #: (B,) row number of each sample
    places: Tensor  #: (B,) where its entry is in the blocks; -1: there is no such row
    blocks: tuple[Tensor, ...]  #: (B, ...) of each table: U entries, and others that nobody looks at


class Late(NamedTuple):
    """Entries on their way back from a step."""

    rows: Tensor  #: (U,) where they belong, each row once
    tables: tuple[Tensor, ...]
    entries: tuple[Tensor, ...]  #: (U, ...) of each table, on the host
    arrived: torch.cuda.Event | None  #: None: they are there

    def write(self) -> None:
        if self.arrived is not None:
            self.arrived.synchronize()
        for table, entries in zip(self.tables, self.entries, strict=True):
            table[self.rows] = entries


def check_eager(inputs: Inputs) -> None:
    """Raise where values cannot be read: rows are looked up by the host, which a graph knows nothing of."""
    x = inputs.losses if inputs.logits is None else inputs.logits
    assert x is not None
    if not has_values(x):
        raise RuntimeError(
            "Selection: table_device must be None for a step that is compiled, transformed or captured, got "
            'table_device="cpu": the host looks up the rows; compile the model alone'
        )


def lend(tables: tuple[Tensor, ...], asked: Tensor | None, device: torch.device) -> Lent | None:
    """Entries of the rows that are ``asked`` for, (B,), on a device; None: of no row, or of tables that have none.

    Waits for the device where the row numbers are there.
    """
    number = len(tables[0])
    if asked is None or not number:
        return None
    asked = asked.cpu()
    found = asked.clamp(0, number - 1)
    rows, places = torch.unique(found, return_inverse=True)
    # never without entries: a table without rows is one that was never told how many
    padded = F.pad(rows, (0, max(len(asked), 1) - len(rows)))
    blocks = tuple(_to(device, table[padded]) for table in tables)
    return Lent(rows, _to(device, found), _to(device, places.where(found == asked, -1)), blocks)


def take_back(tables: tuple[Tensor, ...], lent: Lent) -> Late:
    """What a step has written into its blocks, to be written into the tables later on."""
    number, on_gpu = len(lent.rows), lent.places.is_cuda
    # to pinned memory, where it does not wait
    entries = tuple(block[:number].to("cpu", non_blocking=on_gpu) for block in lent.blocks)
    arrived = torch.cuda.current_stream(lent.places.device).record_event() if on_gpu else None
    return Late(lent.rows, tables, entries, arrived)


def _to(device: torch.device, x: Tensor) -> Tensor:
    """``x`` on a device; to a GPU from pinned memory, so that nobody waits for what the GPU has to do before."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x.to(device)
