"""From per-sample losses to the one number to minimise, without the samples that look mislabelled.

`objective` is the whole step as a pure function; `Selection` is the module that keeps its memory.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor

from .checks import check_number
from .methods import build
from .types import Seen, Selector, Task

IGNORE = -100  # the label PyTorch and Hugging Face give to what must not count


class Tally(NamedTuple):
    """Counters that every method shares."""

    step: Tensor  #: training steps so far
    empty: Tensor  #: steps in which nothing was kept
    nonfinite: Tensor  #: losses left out because they were NaN or infinite
    recent_kept: Tensor  #: moving average of the samples kept per step since warm-up, up to a factor
    recent_seen: Tensor  #: the same of the samples judged, with the same factor


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
    tally = Tally(count, count.clone(), count.clone(), amount, amount.clone())
    return Memory(tally, method.init(task or Task()))


def weighted_mean(losses: Tensor, weights: Tensor, total: Tensor) -> Tensor:
    """Mean over the last axis, ``total`` being the sum of the weights: the only reduction here.

    Where every weight is 0 it is 0, still attached to the graph, and so are the gradients.
    """
    return (losses * weights).sum(-1) / total.clamp(min=torch.finfo(total.dtype).tiny)


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
    with torch.no_grad():
        counts = losses.abs() < math.inf  # False for NaN too
        if mask is not None:
            counts = counts & mask
    # where, never a product with 0: 0 * inf is NaN
    losses = losses.where(counts, 0.0)
    with torch.no_grad():
        tally, state = memory
        number = counts.sum(-1, dtype=torch.float32)
        chosen, moved = method.select(state, Seen(losses.float(), counts, number, index))
        selecting = (tally.step >= warmup) & (number > 0)
        weights = chosen.where(selecting.unsqueeze(-1), 1.0) * counts
        total = weights.sum(-1)
        pace = selecting / window  # 0 stands still
        tally = Tally(
            step=tally.step + 1,
            empty=tally.empty + (total == 0),
            nonfinite=tally.nonfinite + ((losses.shape[-1] if mask is None else mask.sum(-1)) - number).long(),
            recent_kept=tally.recent_kept.lerp(total, pace),
            recent_seen=tally.recent_seen.lerp(number, pace),
        )
        # the method's state stands still until there is something to select from
        state = type(state)(
            *(old if new is old else new.where(selecting, old) for new, old in zip(moved, state, strict=True))
        )
    return weighted_mean(losses, weights.to(losses.dtype), total), Outcome(weights, Memory(tally, state))


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy per sample in float32; NaN, with zero gradients, where a row of logits is not usable."""
    if logits.dim() < 2:
        raise ValueError(f"Selection: logits must have shape (batch, classes, ...), got {tuple(logits.shape)}")
    logits = logits.float()
    # log_softmax would turn a zero gradient into NaN on such rows, so they must not reach it
    usable = logits.detach().amax(1).abs() < math.inf
    losses = F.cross_entropy(logits.where(usable.unsqueeze(1), 0.0), target, reduction="none")
    return losses.where(usable, math.nan)


class Selection(nn.Module):
    """Drop-in criterion that leaves out samples whose label looks wrong.

    >>> criterion = Selection("adaptive-k", warmup=15_000)
    >>> loss = criterion(model(x), y)  # or criterion.reduce(losses)

    Call ``criterion.eval()`` to get the plain mean over everything, with nothing remembered.

    Args:
        method: a method such as ``AdaptiveK()``, or its name, with parameters if need be:
            ``"mkl"``, ``"mkl:keep=0.7"``.
        warmup: steps of plain training before anything is left out.
        loss: gives one loss per sample from ``(output, target)``; cross-entropy unless told.
        window: about how many of the latest steps `noise_ratio` looks back on.
        clean: which training rows have the right label; for `Oracle` alone.
    """

    nonfinite: Tensor
    weights: Tensor | None  #: how much each sample of the last batch weighed, shaped like the losses

    def __init__(
        self,
        method: Selector[Any] | str,
        *,
        warmup: int | None = None,
        loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
        window: int = 500,
        clean: Tensor | None = None,
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
        self.weights = None
        self._warned = False
        tally, state = start(method, Task(clean))
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
        mask = None if target.is_floating_point() else target != IGNORE
        return self.reduce(self.loss(output, target), mask, index)

    def reduce(self, losses: Tensor, mask: Tensor | None = None, index: Tensor | None = None) -> Tensor:
        """The loss to minimise, from one loss per sample (or per token) in any shape.

        Args:
            losses: one value per sample, not averaged.
            mask: bool, shaped like ``losses``: what counts at all (not padding, say).
            index: row number of each sample in the training set, for methods that need it.
        """
        mask = self._check(losses, mask, index)
        shape = losses.shape
        losses, mask = losses.flatten(), None if mask is None else mask.flatten()
        if losses.dtype in (torch.float16, torch.bfloat16):  # too coarse to add up
            losses = losses.float()
        if not self.training:
            counts = torch.ones_like(losses) if mask is None else mask.to(losses.dtype)
            return weighted_mean(losses.where(counts > 0, 0.0), counts, counts.sum(-1))
        index = None if index is None else index.flatten()
        memory = self.memory
        loss, outcome = objective(self.method, memory, losses, mask, index, warmup=self.warmup, window=self.window)
        self.weights = outcome.weights.view(shape)
        self._remember(memory, outcome.memory)
        return loss

    @property
    def kept(self) -> Tensor | None:
        """Which samples of the last batch were used, shaped like the losses."""
        return None if self.weights is None else self.weights > 0

    @property
    def noise_ratio(self) -> float:
        """Share of the recent samples that was left out; NaN until warm-up is over. Waits for the device."""
        self._warn_nonfinite()
        return 1 - float(self.memory.tally.recent_kept / self.memory.tally.recent_seen)

    @property
    def threshold(self) -> float | None:
        """The loss up to which samples were kept in the last batch; None if the method has no such number."""
        cut = self.method.cut(self.memory.state)
        return None if cut is None else float(cut)

    def extra_repr(self) -> str:
        return f"{self.method}, warmup={self.warmup}"

    def _check(self, losses: Tensor, mask: Tensor | None, index: Tensor | None) -> Tensor | None:
        if losses.dim() == 0:
            raise ValueError(
                'Selection: needs one loss per sample, got a single number: compute the loss with reduction="none"'
            )
        if not losses.is_floating_point():
            raise ValueError(f"Selection: losses must be floating point, got {losses.dtype}")
        if index is None and self.method.needs_rows:
            raise ValueError(
                f"Selection: {self.method.name} needs row numbers: criterion(output, target, index), got none"
            )
        for name, value in (("mask", mask), ("index", index)):
            if value is not None and value.shape != losses.shape:
                raise ValueError(
                    f"Selection: {name} must have the shape of the losses, {tuple(losses.shape)}, "
                    f"got {tuple(value.shape)}"
                )
        return None if mask is None else mask.bool()

    def _remember(self, before: Memory, after: Memory) -> None:
        # in place: a captured CUDA graph replays on these very addresses
        for old, new in zip((*before.tally, *before.state), (*after.tally, *after.state), strict=True):
            if new is not old:
                old.copy_(new)  # both without gradients
        # on the host a look is free; on a device it would wait, so there noise_ratio and state_dict look
        if not self._warned and _readable(self.nonfinite):
            self._warn_nonfinite()

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


def _readable(x: Tensor) -> bool:
    """Whether looking at a value costs no wait and breaks no graph."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling() and not is_functorch_wrapped_tensor(x)
