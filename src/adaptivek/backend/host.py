"""Tables that stay in the host's memory, where a GPU has no room for them, while all else is on the GPU.

A step is given a block in place of the tables: the entries of the batch's rows, on its own device. What it writes there
is copied back while training goes on, and put into the tables before anybody reads them again. So the host waits only
for the step before, and the GPU for nobody. On a CPU it is the same, with nothing to wait for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..method import Method
from ..step import Inputs, Memory
from .values import has_values


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


def lend(method: Method[Any], memory: Memory, inputs: Inputs) -> tuple[Memory, Inputs, Tensor | None]:
    """Memory and inputs for a step on a block of the tables, and the rows that the block has; None: there are none.

    Waits for the device where the row numbers are there.
    """
    number = len(getattr(memory.state, method.tables[0]))
    if inputs.rows is None or not number:
        return memory, inputs, None
    device, asked = memory.tally.step.device, inputs.rows.cpu()
    found = asked.clamp(0, number - 1)
    rows, places = torch.unique(found, return_inverse=True)
    rows = rows if len(rows) else rows.new_zeros(1)  # a table without rows is one that was never told how many
    block = {name: _to(device, getattr(memory.state, name)[rows]) for name in method.tables}
    inputs = inputs._replace(rows=_to(device, found), places=_to(device, places.where(found == asked, -1)))
    return memory._replace(state=memory.state._replace(**block)), inputs, rows


def take_back(names: tuple[str, ...], memory: Memory, block: Memory, rows: Tensor) -> Late:
    """What a step has written into these tables of its block, to be written into those of the memory later on."""
    device = block.tally.step.device
    # to pinned memory, where it does not wait
    entries = tuple(getattr(block.state, name).to("cpu", non_blocking=device.type == "cuda") for name in names)
    arrived = torch.cuda.current_stream(device).record_event() if device.type == "cuda" else None
    return Late(rows, tuple(getattr(memory.state, name) for name in names), entries, arrived)


def _to(device: torch.device, x: Tensor) -> Tensor:
    """``x`` on a device; to a GPU from pinned memory, so that nobody waits for what the GPU has to do before."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x.to(device)
