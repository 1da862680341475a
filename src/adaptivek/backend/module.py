"""A method and its memory as a module: what is remembered moves, is saved and is loaded with the model."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ..method import Method, Task, describe
from ..step import Inputs, Loss, Memory, Outcome, Tally, check_task, remember, start, step_with_targets
from . import fitting, host, saved

OWN = ("tally_", "state_")  # how the names of the buffers begin


class MethodModule(nn.Module):
    """A method, with its tally and its state as buffers."""

    tally_nonfinite: Tensor
    tally_unknown_rows: Tensor
    tally_epoch: Tensor

    def __init__(
        self,
        method: Method[Any],
        warmup: int,
        window: int,
        rows: int | None,
        classes: int | None,
        clean: Tensor | None,
        table_classes: int | None,
        start: Tensor | None = None,
        on_host: bool = False,
    ) -> None:
        super().__init__()
        self.method, self.warmup, self.window = method, warmup, window
        self.rows, self.classes, self._clean, self.table_classes = rows, classes, clean, table_classes
        self._state_type: type[Any] | None = None
        self._reported = False
        self._on_host = tuple(f"state_{name}" for name in method.tables) if on_host else ()  # buffers that stay there
        self._late: host.Late | None = None  # what their last step has not yet written into them
        if classes is not None or not method.needs_classes:
            self._begin(classes, start)
        else:
            least = Task(clean, rows, classes=2)  # the first logits will tell how many there are
            check_task(method, least)
            fitting.check_fits(method, least, None)

    def _begin(self, classes: int | None, predictions: Tensor | None = None) -> None:
        """Make what is remembered, once the number of classes is known."""
        self.classes = classes
        task = Task(self._clean, self.rows, classes, predictions=predictions)
        with torch.device("cpu") if self._on_host else nullcontext():  # where the default device is another
            memory = start(self.method, task, self.warmup, self.table_classes)
        found = {
            prefix + name: x for prefix, part in zip(OWN, memory, strict=True) for name, x in part._asdict().items()
        }
        for name, value in found.items():
            self.register_buffer(name, value.cpu() if name in self._on_host else value)
        self._names = tuple(found)
        self._state_type = type(memory.state)

    @property
    def memory(self) -> Memory:
        """The buffers, in the form that `train_step` takes."""
        tally = self.tally
        assert self._state_type is not None
        self._settle()
        values: list[Any] = [self._buffers[name] for name in self._names[len(tally) :]]
        return Memory(tally, self._state_type(*values))

    @property
    def tally(self) -> Tally:
        """That part of the memory which all methods share. Unlike the rest of it, nobody ever waits for it."""
        if self._state_type is None:
            raise RuntimeError("Selection: classes must be given to use this before the first step")
        values: list[Any] = [self._buffers[name] for name in self._names[: len(Tally._fields)]]
        return Tally(*values)

    def _advance(
        self, inputs: Inputs, loss: Loss, blocks: tuple[Tensor, ...] = ()
    ) -> tuple[Tensor, Outcome, Tensor | None]:
        """Make a step and remember it: the loss to minimise, what was decided, and what is learned for the labels.

        It is remembered in the tables, or in ``blocks`` that have been lent of them.
        """
        lent = None
        if self._on_host and not blocks:
            host.check_eager(inputs)  # before anything waits
            lent = self._lend(inputs.rows)
            if lent is not None:
                inputs, blocks = inputs._replace(rows=lent.asked, places=lent.places), lent.blocks
        memory = self.memory
        if blocks:
            lent_tables = dict(zip(self.method.tables, blocks, strict=True))
            memory = memory._replace(state=memory.state._replace(**lent_tables))
        value, outcome, targets = step_with_targets(self.method, memory, inputs, loss=loss, window=self.window)
        remember(self.method, memory, outcome)
        if lent is not None:
            self._late = host.take_back(self._tables(), lent)
        return value, outcome, targets

    def _lend(self, rows: Tensor | None) -> host.Lent | None:
        """Blocks of the tables on the host for these rows."""
        self._settle()
        return host.lend(self._tables(), rows, self.tally_epoch.device)

    def _tables(self) -> tuple[Tensor, ...]:
        return tuple(self.get_buffer(name) for name in self._on_host)

    def _settle(self) -> None:
        """Have what the last step wrote into tables on the host stand there."""
        if self._late is not None:
            late, self._late = self._late, None
            late.write()

    def __getstate__(self) -> Any:
        self._settle()
        return super().__getstate__()  # type: ignore[no-untyped-call]

    def get_extra_state(self) -> Tensor:
        return saved.pack(self._settings())

    def set_extra_state(self, state: Tensor) -> None:
        """Nothing to set: `_load_from_state_dict` has compared it before anything was loaded."""

    def _settings(self) -> dict[str, Any]:
        """What a checkpoint must agree with."""
        names = ("warmup", "window", "rows", "classes", "table_classes")
        about = {"method": describe(self.method), "revision": self.method.revision}
        return about | {name: getattr(self, name) for name in names}

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        packed = state_dict.get(f"{prefix}_extra_state")
        if packed is not None:
            found = saved.unpack(packed)
            saved.check(self._settings(), found)
            if self._state_type is None and found.get("classes") is not None:
                self._begin(found["classes"])
        self._settle()
        super()._load_from_state_dict(state_dict, prefix, *args)
        for name in self._on_host:  # load_state_dict(..., assign=True) takes tensors from where they are
            if name in self._buffers:
                setattr(self, name, self.get_buffer(name).cpu())

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        self._report()
        self._settle()
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _report(self) -> None:
        """Say what steps have left out that could not look, for looking waits for the device."""
        if self._state_type is None or self._reported:
            return
        unknown, nonfinite = int(self.tally_unknown_rows), int(self.tally_nonfinite)
        if unknown or nonfinite:
            self._reported = True
        if unknown:
            raise ValueError(
                f"Selection: index must be row numbers below rows={self.rows}, got {unknown} that are not; left out"
            )
        if nonfinite:
            warnings.warn(
                f"{nonfinite} of the losses were NaN or infinite; such samples are left out and counted in "
                "`criterion.memory.tally.nonfinite`. Look for a learning rate that is too high, or bad inputs",
                stacklevel=4,
            )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> MethodModule:
        # .half() on a model that holds this module must not make moving averages that cannot move
        before = dict(self.named_buffers(recurse=False))
        staying = [before.pop(name) for name in self._on_host if name in before]

        def move(x: Tensor) -> Tensor:
            return x if any(x is table for table in staying) else fn(x)

        try:
            super()._apply(move, recurse)  # type: ignore[no-untyped-call]
        except torch.cuda.OutOfMemoryError as error:
            task = Task(self._clean, self.rows, self.classes)
            needed = fitting.number_of_bytes(before.values())
            text = fitting.too_much(self.method, task, needed, None)
            if self.method.tables and self.rows and not self._on_host:
                text += '. With table_device="cpu" the tables stay in the memory of the host'
            raise MemoryError(text) from error
        for name, old in before.items():
            new = self.get_buffer(name)
            if new.dtype != old.dtype:
                setattr(self, name, old.to(new.device))
        return self
