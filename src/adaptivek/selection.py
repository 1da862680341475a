"""The criterion: leaves out samples whose label looks wrong, and keeps what is needed for that."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor

from .checks import check_labels, check_number
from .distributed import ProcessGroup, for_averaging, gather, peers
from .methods import build
from .objective import (
    HALF,
    IGNORE,
    Memory,
    Tally,
    begin_epoch,
    cross_entropy,
    objective,
    own_losses,
    remember,
    start,
)
from .replay import Function, Replay, replayable
from .types import Selector, Task, answers


class _LastBatch:
    """What was decided last; apart from the module, where setting an attribute takes long."""

    decided: Tensor | None = None  #: weights in a row and, where the method relabels, beliefs after them
    shape: torch.Size = torch.Size()


class Selection(nn.Module):
    """Drop-in criterion that leaves out samples whose label looks wrong.

    >>> criterion = Selection(rows=len(train_set), classes=10)
    >>> loss = criterion(model(x), y, index)

    Call ``criterion.eval()`` to get the plain mean over everything, with nothing remembered.

    Methods with two networks take the logits of both, ``torch.stack([one(x), other(x)])``, those with two views the
    logits of the plain and of the distorted one, ``torch.stack([model(weak), model(strong)])``; ``weights`` and
    ``kept`` then have that first axis too.

    Args:
        method: a method such as ``AdaptiveK()``, or its name, with parameters if need be: ``"mkl"``,
            ``"mkl:keep=0.7"``. The default is the one that does best in our comparison and needs no warm-up.
        warmup: steps of plain training before anything is left out.
        loss: gives one loss per sample from ``(output, target)``; cross-entropy unless told.
        window: about how many of the latest steps `noise_ratio` looks back on.
        rows: size of the training set, for methods that remember samples.
        classes: number of classes, for methods that remember predictions.
        clean: which training rows have the right label; for `Oracle` alone.
        cuda_graph: on a GPU, run what this adds to a step as one launch (see `replay`).
        distributed: under ``torch.distributed``, judge the batch of all ranks together, or of the ranks of
            the process group given; False: each rank by itself.
    """

    nonfinite: Tensor

    def __init__(
        self,
        method: Selector[Any] | str = "label-memory",
        *,
        warmup: int | None = None,
        loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
        window: int = 500,
        rows: int | None = None,
        classes: int | None = None,
        clean: Tensor | None = None,
        cuda_graph: bool = True,
        distributed: bool | ProcessGroup = True,
    ) -> None:
        super().__init__()
        if isinstance(method, str):
            method = build(method)
        if not isinstance(method, Selector):
            raise TypeError(f"Selection: method must be a method or the name of one, got {method!r}")
        if warmup is None:
            warmup = 0
            if method.wants_warmup:
                warnings.warn(
                    f"{method.name} is made to start after some plain training and may collapse without it: "
                    "give warmup=, in steps (the paper trains plainly for 30 of 80 epochs), or 0 to mean it",
                    stacklevel=2,
                )
        check_number("Selection", "warmup", warmup, 0, whole=True)
        check_number("Selection", "window", window, 1, whole=True)
        if clean is not None and not method.privileged:
            raise ValueError(f"Selection: clean is for Oracle alone, {method.name} must not know it")
        self.method, self.warmup, self.window, self.loss = method, warmup, window, loss
        if not isinstance(distributed, (bool, ProcessGroup)):
            raise TypeError(f"Selection: distributed must be True, False or a process group, got {distributed!r}")
        self.cuda_graph, self._replay, self.distributed = cuda_graph, Replay(), distributed
        self._last = _LastBatch()
        self._warned = self._looked = self._told = False
        for name, number in (("rows", rows), ("classes", classes)):
            if number is not None:
                check_number("Selection", name, number, 1, whole=True)
        if loss is not cross_entropy and self.takes_logits:
            raise ValueError(f"Selection: loss must be left as it is for {method.name}, which has its own")
        tally, state = start(method, Task(clean, rows, classes))
        for name, value in (tally._asdict() | state._asdict()).items():
            self.register_buffer(name, value)
        self._state_type = type(state)

    @property
    def memory(self) -> Memory:
        """The buffers, in the form that `objective` takes and gives."""
        values: list[Any] = list(self._buffers.values())  # in the order of registration
        shared = len(Tally._fields)
        return Memory(Tally(*values[:shared]), self._state_type(*values[shared:]))

    def forward(self, output: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss to minimise, from the model's output and the labels. Labels of -100 do not count."""
        several = answers(self.method) > 1
        if several and (output.dim() < 3 or len(output) != answers(self.method)):
            raise ValueError(
                f"Selection: {self.method.name} needs the logits of {answers(self.method)} networks or views, "
                f"stacked: ({answers(self.method)}, batch, classes, ...), got {tuple(output.shape)}"
            )
        one = output[0] if several else output
        if _may_look(output) and not self._looked and self.loss is cross_entropy:
            check_labels("Selection", one, target)
            self._looked = True  # once: it waits for the device
        if self.loss is not cross_entropy or not self.training:
            losses = torch.stack([self.loss(each, target) for each in output]).mean(0) if several else None
            return self.reduce(self.loss(output, target) if losses is None else losses, _counted(target), index)
        shape = one.shape[:1] + one.shape[2:]
        self._check(shape, None, index)
        function = self._from_logits if self.takes_logits else self._from_output
        return self._run(function, output.shape[:1] + shape if several else shape, output, target, index)

    def reduce(self, losses: Tensor, mask: Tensor | None = None, index: Tensor | None = None) -> Tensor:
        """The loss to minimise, from one loss per sample (or per token) in any shape.

        Args:
            losses: one value per sample, not averaged.
            mask: bool, shaped like ``losses``: what counts at all (not padding, say).
            index: row number of each sample in the training set, for methods that need it.
        """
        if losses.dim() == 0:
            raise ValueError(
                'Selection: needs one loss per sample, got a single number: compute the loss with reduction="none"'
            )
        if not losses.is_floating_point():
            raise ValueError(f"Selection: losses must be floating point, got {losses.dtype}")
        self._check(losses.shape, mask, index)
        mask = None if mask is None else mask.bool()
        if self.training and self.takes_logits:
            raise ValueError(
                f"Selection: {self.method.name} needs logits, not losses: criterion(logits, target, index)"
            )
        if not self.training:
            return losses.mean() if mask is None else losses.where(mask, 0.0).sum() / mask.sum()
        return self._run(self._from_losses, losses.shape, losses, mask, index)

    def start_epoch(self, epoch: int, swept: Tensor | None = None) -> None:
        """Tell the method that an epoch begins: for those that go by epochs.

        Args:
            epoch: from 0.
            swept: for methods that sweep: of each row of the training set the loss on the label given, or the
                features, (rows, size), whichever the method wants.
        """
        check_number("Selection", "epoch", epoch, 0, whole=True)
        wanted = self.method.sweeps
        if wanted and (swept is None or swept.dim() != (1 if wanted == "losses" else 2)):
            raise ValueError(
                f"Selection: {self.method.name} needs the {wanted} of all rows: start_epoch(epoch, {wanted}), got "
                f"{None if swept is None else tuple(swept.shape)}"
            )
        if swept is not None:
            swept = swept.detach().float().to(self.nonfinite.device)
        begin_epoch(self.method, self.memory, epoch, swept, warmup=self.warmup)
        self._told = True

    @property
    def takes_logits(self) -> bool:
        """Whether losses are not enough, so that `reduce` cannot be used in training."""
        method = self.method
        return method.needs_logits or answers(method) > 1 or type(method).losses is not Selector.losses

    @property
    def weights(self) -> Tensor | None:
        """How much each sample of the last batch weighed, in [0, 1], shaped like the losses."""
        decided = self._last.decided
        return None if decided is None else decided[: self._last.shape.numel()].view(self._last.shape)

    @property
    def believed(self) -> Tensor | None:
        """How far each label of the last batch was believed, in [0, 1]: the weights, unless the method relabels."""
        decided = self._last.decided
        return None if decided is None else decided[-self._last.shape.numel() :].view(self._last.shape)

    @property
    def kept(self) -> Tensor | None:
        """Which samples of the last batch were used, shaped like the losses."""
        weights = self.weights
        return None if weights is None else weights > 0

    @property
    def noise_ratio(self) -> float:
        """Share of the recent labels that were not believed; NaN until warm-up is over. Waits for the device."""
        self._warn_nonfinite()
        return 1 - float(self.memory.tally.recent_kept / self.memory.tally.recent_seen)

    @property
    def threshold(self) -> float | None:
        """The loss up to which samples were kept in the last batch; None if the method has no such number."""
        cut = self.method.cut(self.memory.state)
        return None if cut is None else float(cut)

    @property
    def kept_share(self) -> float:
        """Share of the last batch that was used, over all ranks. Waits for the device."""
        tally = self.memory.tally
        return float(tally.last_kept / tally.last_seen)

    def extra_repr(self) -> str:
        return f"{self.method}, warmup={self.warmup}"

    def _check(self, shape: torch.Size, mask: Tensor | None, index: Tensor | None) -> None:
        if index is None and self.method.needs_rows and self.training:
            raise ValueError(
                f"Selection: {self.method.name} needs row numbers: criterion(output, target, index), got none; "
                "adaptivek.indexed(dataset) adds them to any data set"
            )
        if self.method.needs_epochs and self.training and not self._told:
            self._told = int(self.memory.tally.epoch) >= 0  # from a checkpoint
            if not self._told:
                raise ValueError(
                    f"Selection: {self.method.name} goes by epochs: call criterion.start_epoch(epoch) when one begins"
                )
        if index is not None and index.is_floating_point():
            raise ValueError(f"Selection: index must be whole numbers, got {index.dtype}")
        for name, value in (("mask", mask), ("index", index)):
            if value is not None and value.shape != shape:
                raise ValueError(
                    f"Selection: {name} must have the shape of the losses, {tuple(shape)}, got {tuple(value.shape)}"
                )

    def _run(self, function: Function, shape: torch.Size, x: Tensor, *others: Tensor | None) -> Tensor:
        if self.nonfinite.device != x.device:  # what it replaces has nothing to move, so nobody thinks of it
            if torch.compiler.is_compiling():
                raise RuntimeError(f"Selection: move it to {x.device} before compiling: criterion.to(...)")
            self.to(x.device)
        if self.cuda_graph and replayable(x) and peers(self.distributed) is None:
            loss, decided = self._replay(function, self._replay_key(), x, *others)
        else:
            loss, decided = function(x, *others)
        self._last.decided, self._last.shape = decided, shape
        if not self._warned and _readable(self.nonfinite):
            self._warn_nonfinite()
        return loss

    def _from_output(self, output: Tensor, target: Tensor, index: Tensor | None) -> tuple[Tensor, Tensor]:
        return self._from_losses(cross_entropy(output, target), _counted(target), index)

    def _from_logits(self, output: Tensor, target: Tensor, index: Tensor | None) -> tuple[Tensor, Tensor]:
        """For methods with a loss of their own, or that look at the logits."""
        several = int(answers(self.method) > 1)  # in an axis before all others, which stays
        logits = output.movedim(1 + several, -1).flatten(several, -2)
        labels, rows = target.flatten(), None if index is None else index.flatten()
        losses = own_losses(self.method, self.memory, logits, labels, rows, self.warmup)
        return self._from_losses(losses, _counted(labels), rows, logits, labels)

    def _from_losses(
        self,
        losses: Tensor,
        mask: Tensor | None,
        index: Tensor | None,
        logits: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Judge a batch and remember it: the loss to minimise, and what was decided, in a row."""
        several = logits is not None and logits.dim() == 3
        losses = losses if several else losses.flatten()
        losses = losses.float() if losses.dtype in HALF else losses
        logits = None if logits is None else logits.detach().float()
        mask, index = (None if x is None else x.flatten() for x in (mask, index))
        group = peers(self.distributed)
        mine = slice(None)
        if group is not None:
            losses, mask, index, logits, labels, mine = gather(group, losses, mask, index, logits, labels)
        before = self.memory
        loss, (weights, believed, after) = objective(
            self.method, before, losses, mask, index, logits, labels, warmup=self.warmup, window=self.window
        )
        if group is not None:
            loss = for_averaging(loss, group)
        remember(self.method, before, after, index)
        decided = weights[..., mine].flatten()
        return loss, decided if believed is weights else torch.cat([decided, believed[..., mine].flatten()])

    def _replay_key(self) -> Hashable:
        """What the step depends on besides its inputs."""
        addresses = tuple(b.data_ptr() for b in self._buffers.values() if b is not None)
        return self.method, self.warmup, self.window, addresses

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        self._warn_nonfinite()
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _warn_nonfinite(self) -> None:
        number = 0 if self._warned else int(self.nonfinite)
        if number:
            self._warned = True
            warnings.warn(
                f"{number} of the losses were NaN or infinite; such samples are left out and counted in "
                "`nonfinite`. Look for a learning rate that is too high, or bad values in the inputs",
                stacklevel=4,
            )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Selection:
        # .half() on a model that holds this module must not make moving averages that cannot move
        before = dict(self.named_buffers(recurse=False))
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, old in before.items():
            new = self.get_buffer(name)
            if new.dtype != old.dtype:
                setattr(self, name, old.to(new.device))
        return self


def _counted(target: Tensor) -> Tensor | None:
    """Which entries count: all but those labelled to be ignored."""
    return None if target.is_floating_point() else target != IGNORE


def _may_look(x: Tensor) -> bool:
    """Whether values can be read at all, be it by waiting."""
    return not (
        torch.compiler.is_compiling()
        or is_functorch_wrapped_tensor(x)
        or x.is_meta
        or (x.is_cuda and torch.cuda.is_current_stream_capturing())
    )


def _readable(x: Tensor) -> bool:
    """Whether looking at a value costs no wait and breaks no graph."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling() and not is_functorch_wrapped_tensor(x)
