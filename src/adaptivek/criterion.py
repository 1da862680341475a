"""The criterion: leaves out samples whose label looks noisy, and keeps what is needed for that."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .backend import checks, noise_found
from .backend.cuda_graph import Function, Replay, replayable
from .backend.distributed import ProcessGroup, for_averaging, gather, process_group
from .backend.host import take_back
from .backend.module import MethodModule
from .backend.start import earlier_predictions
from .backend.values import has_values
from .method import Method, outputs
from .methods import chosen
from .step import HALF, IGNORE, Inputs, Loss, Outcome, begin_epoch, cross_entropy


class _LastBatch:
    """What was decided last; apart from the module, where setting an attribute takes long."""

    decided: Tensor | None = None  #: weights in a row and, where the method relabels, confidences after them
    shape: torch.Size = torch.Size()


class Selection(MethodModule):
    """Drop-in criterion that leaves out samples whose label looks noisy.

    >>> criterion = Selection(rows=len(train_set))
    >>> loss = criterion(model(x), y, index)

    Call ``criterion.eval()`` to get the plain mean over everything, with nothing remembered.

    Methods with two networks take the logits of both, ``torch.stack([one(x), other(x)])``, those with two views the
    logits of the weak and of the strong one, ``torch.stack([model(weak), model(strong)])``; ``weights`` and
    ``kept`` then have that first axis too.

    Args:
        method: a method such as ``AdaptiveK()``, or its name, with parameters if need be: ``"mkl"``,
            ``"mkl:keep=0.7"``. Unless given, label agreement, which needs no warm-up; with ``start``, label memory.
        warmup: steps of plain training before anything is left out.
        loss: gives one loss per sample from ``(output, target)``; cross-entropy unless told.
        weight: (classes,) class weights, as in ``nn.CrossEntropyLoss``. These three change what is learned, not how
            samples are judged.
        ignore_index: label of what does not count, as there.
        label_smoothing: as there, in [0, 1).
        window: about how many of the latest steps `noise_ratio` looks back on.
        rows: size of the training set, for methods that remember samples.
        classes: number of classes, taken from the first logits unless given. To be compiled a criterion needs it.
        table_classes: how many classes of each row, the highest, methods that remember samples keep a number for,
            beside the mean of the rest; all of them unless given, or 12 where all would be over 64 and over 256 MB.
        table_device: "cpu" keeps their tables in the host's memory while the rest is on a GPU; with the rest unless
            given. Leave ``index`` on the CPU then.
        clean: which training rows have a clean label; for `Oracle` alone.
        start: the result of an audit, or probabilities (rows, classes): predictions that the memory begins with, for
            methods that remember them. Of a row of zeros nothing is known yet.
        cuda_graph: on a GPU, run what this adds to a step as one launch (see `Replay`).
        distributed: under ``torch.distributed``, judge the batch of all ranks together, or of the ranks of
            the process group given; False: each rank by itself.
    """

    weight: Tensor | None

    def __init__(
        self,
        method: Method[Any] | str | None = None,
        *,
        warmup: int | None = None,
        loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
        weight: Tensor | None = None,
        ignore_index: int = IGNORE,
        label_smoothing: float = 0.0,
        window: int = 500,
        rows: int | None = None,
        classes: int | None = None,
        table_classes: int | None = None,
        table_device: str | torch.device | None = None,
        clean: Tensor | None = None,
        start: Any = None,
        cuda_graph: bool = True,
        distributed: bool | ProcessGroup = True,
    ) -> None:
        method = chosen("Selection", method, start is not None)
        if warmup is None and method.wants_warmup:
            warnings.warn(checks.wants_warmup(method), stacklevel=2)
        warmup = 0 if warmup is None else warmup
        checks.check_options("Selection", warmup, window, label_smoothing, table_device, distributed)
        checks.check_sizes("Selection", rows=rows, classes=classes, table_classes=table_classes)
        if clean is not None:
            checks.check_clean("Selection", method, clean, rows)
            rows = len(clean)
        if start is not None:
            start = earlier_predictions("Selection", method, getattr(start, "predictions", start), rows, classes)
            rows, classes = start.shape
        super().__init__(method, warmup, window, rows, classes, clean, table_classes, start, table_device is not None)
        self.loss, self.ignore_index, self.label_smoothing = loss, ignore_index, label_smoothing
        self.cuda_graph, self._replay, self.distributed = cuda_graph, Replay(), distributed
        self.register_buffer("weight", weight, persistent=False)
        checks.check_loss("Selection", method, loss, weight, label_smoothing)
        self._last = _LastBatch()
        self._looked = self._looked_at_rows = self._told_epoch = False

    def forward(self, output: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss to minimise, from the model's output and the labels (or class probabilities)."""
        if self.loss is not cross_entropy:
            valid = None if target.is_floating_point() else target != self.ignore_index
            return self.reduce(self.loss(output, target), valid, index)
        if not self.training:
            options = Loss(self.weight, self.label_smoothing)
            return options.mean(output, target, outputs(self.method), self.ignore_index)
        checks.check_outputs("Selection", self.method, output)
        number = outputs(self.method)
        one = output if number == 1 else output[0]
        target = self._fit(one, target)
        shape = one.shape[:1] + one.shape[2:]
        self._check_step(shape, None, index)
        function = self._from_logits if self.takes_logits else self._from_output
        return self._run(function, output.shape[: number > 1] + shape, output, target, index)

    def reduce(self, losses: Tensor, mask: Tensor | None = None, index: Tensor | None = None) -> Tensor:
        """The loss to minimise, from one loss per sample (or per token) in any shape.

        Args:
            losses: one value per sample, not averaged.
            mask: bool, shaped like ``losses``: what counts at all (not padding, say).
            index: row number of each sample in the training set, for methods that need it.
        """
        checks.check_losses("Selection", losses)
        if self.training and self.takes_logits:
            raise ValueError(
                f"Selection: {self.method.name} needs logits, not losses: criterion(logits, target, index)"
            )
        self._check_step(losses.shape, mask, index)
        mask = None if mask is None else mask.bool()
        if not self.training:
            return losses.mean() if mask is None else losses.where(mask, 0.0).sum() / mask.sum()
        return self._run(self._from_losses, losses.shape, losses, mask, index)

    @torch.no_grad()
    def judge(self, output: Tensor, target: Tensor, index: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What is to be learned of a batch: class probabilities, (B, classes), and how much each sample counts, (B,).

        For a loop that judges by one view of the samples and learns from another, see `StrongViews`. It is a step as
        any other, but for the loss: what is to be remembered of the batch is remembered.

        Args:
            output: (B, classes) logits of the view that judges.
            target: (B,) labels.
            index: row number of each sample in the training set, for methods that need it.
        """
        checks.check_judges("Selection", "judge", self.method, self.loss)
        if output.dim() != 2 or target.is_floating_point():
            raise ValueError(
                f"Selection: judge takes logits (batch, classes) and one label a sample, got {tuple(output.shape)} "
                f"and {target.dtype}"
            )
        target = self._fit(output, target)
        self._check_step(target.shape, None, index)
        self._move_to(output.device)
        _, outcome, targets, mine = self._step(Inputs(logits=output, labels=target, rows=_flat(index)))
        weights = outcome.weights[mine]
        self._last.decided, self._last.shape = torch.cat([weights, outcome.confidence[mine]]), target.shape
        if targets is not None:
            return targets[mine], weights
        return F.one_hot(target.clamp(min=0), output.shape[1]).to(weights.dtype), weights

    def start_epoch(self, epoch: int, full_pass: Tensor | None = None) -> None:
        """Tell the method that an epoch begins: for those that go by epochs.

        Args:
            epoch: from 0.
            full_pass: for methods that want one: of each training row the loss on its observed label, (rows,),
                the features, (rows, size), or the logits, (rows, classes), whichever ``criterion.method.full_pass``
                says.
        """
        checks.check_number("Selection", "epoch", epoch, 0, whole=True)
        checks.check_full_pass("Selection", self.method, full_pass)
        self._report()
        self._told_epoch = True
        if self._state_type is not None:  # else there is nothing yet that an epoch could change
            full_pass = None if full_pass is None else full_pass.detach().float()
            begin_epoch(self.method, self.memory, epoch, full_pass)

    def train_plainly(self, steps: int) -> None:
        """Leave nothing out for so many steps from now on. Does not wait for the device."""
        checks.check_number("Selection", "steps", steps, 0, whole=True)
        self.tally.plain_until.copy_(self.tally.step + steps)

    @property
    def takes_logits(self) -> bool:
        """Whether losses are not enough, so that `reduce` cannot be used in training."""
        return self.method.needs_logits or self.weight is not None or bool(self.label_smoothing)

    @property
    def weights(self) -> Tensor | None:
        """How much each sample of the last batch counted, in [0, 1], shaped like the losses."""
        decided = self._last.decided
        return None if decided is None else decided[: self._last.shape.numel()].view(self._last.shape)

    @property
    def confidence(self) -> Tensor | None:
        """In each observed label of the last batch, in [0, 1]: the weights, unless the method relabels."""
        decided = self._last.decided
        return None if decided is None else decided[-self._last.shape.numel() :].view(self._last.shape)

    @property
    def kept(self) -> Tensor | None:
        """Which samples of the last batch were used, shaped like the losses."""
        weights = self.weights
        return None if weights is None else weights > 0

    @property
    def noise_ratio(self) -> float:
        """Share of the recent labels that look noisy, NaN where `noise_ratio_reason` says why. Waits for the device.

        What has been memorised looks clean. Label posterior can often tell; with other methods this is a lower bound.
        """
        self._report()
        return float(noise_found.noise_ratio(self.method, self.memory)) if self._state_type else float("nan")

    @property
    def noise_ratio_reason(self) -> str:
        """Why `noise_ratio` is NaN, in one line; empty where it is not. Waits for the device."""
        return noise_found.why_unknown(self.method, self.memory) if self._state_type else noise_found.NOTHING

    @property
    def threshold(self) -> float | None:
        """The loss up to which samples were kept in the last batch; None if the method has no such number."""
        found = self.method.loss_threshold(self.memory.state)
        return None if found is None else float(found)

    @property
    def kept_share(self) -> float:
        """Mean weight of the samples of the last batch, over all ranks. Waits for the device."""
        return float(self.tally.last_kept / self.tally.last_seen)

    def extra_repr(self) -> str:
        return f"{self.method}, warmup={self.warmup}"

    def _fit(self, output: Tensor, target: Tensor) -> Tensor:
        """Labels as a step takes them; raises what does not fit the logits, and begins where these were awaited."""
        look = not self._looked and has_values(output)  # once: it waits for the device
        checks.check_labels("Selection", output, target, self.ignore_index, look)
        if look:
            self._looked = True
        if self._state_type is None:
            if torch.compiler.is_compiling():
                raise RuntimeError("Selection: classes must be given before compiling: Selection(..., classes=10)")
            self._begin(output.shape[1])
        expected = self.classes if self.weight is None else len(self.weight)
        if expected not in (None, output.shape[1]):
            raise ValueError(f"Selection: logits must be of {expected} classes, got {output.shape[1]}")
        if target.is_floating_point():
            if not self.method.soft_targets:
                raise ValueError(f"Selection: {self.method.name} needs one label a sample, got class probabilities")
            return target.to(torch.promote_types(output.dtype, torch.float32))
        target = target.long()
        return target if self.ignore_index == IGNORE else target.masked_fill(target == self.ignore_index, IGNORE)

    def _check_step(self, shape: torch.Size, mask: Tensor | None, index: Tensor | None) -> None:
        if not self.training:
            return
        if self.method.needs_epochs and not self._told_epoch:
            self._told_epoch = int(self.tally.epoch) >= 0  # from a checkpoint
        checks.check_given("Selection", self.method, shape, mask, index, self.rows, self._told_epoch)
        if index is not None and self.method.tables and self.rows and not self._looked_at_rows and has_values(index):
            checks.check_rows("Selection", index, self.rows)
            if index.is_cuda:  # there once, since it waits: `train_step` leaves out what comes later
                self._looked_at_rows = True

    def _move_to(self, device: torch.device) -> None:
        if self.tally_nonfinite.device != device:  # what it replaces has nothing to move, so nobody thinks of it
            if torch.compiler.is_compiling():
                raise RuntimeError(f"Selection: move it to {device} before compiling: criterion.to(...)")
            self.to(device)

    def _run(self, function: Function, shape: torch.Size, x: Tensor, *others: Tensor | None) -> Tensor:
        self._move_to(x.device)
        if self.cuda_graph and replayable(x) and process_group(self.distributed) is None:
            loss, decided = self._replayed(function, x, *others)
        else:
            loss, decided = function(x, *others)
        self._last.decided, self._last.shape = decided, shape
        if not self._reported and x.device.type == "cpu" and has_values(x):
            self._report()
        return loss

    def _replayed(self, function: Function, x: Tensor, *others: Tensor | None) -> tuple[Tensor, Tensor]:
        lent = self._lend(_flat(others[-1])) if self._on_host else None
        if lent is None:
            return self._replay(function, self._replay_key(), x, *others)
        given = (*others[:-1], lent.asked, lent.places, *lent.blocks)
        result = self._replay(function, self._replay_key(), x, *given, changing=len(lent.blocks))
        self._late = take_back(self._tables(), lent)
        return result

    def _from_losses(
        self, losses: Tensor, mask: Tensor | None, index: Tensor | None, places: Tensor | None = None, *blocks: Tensor
    ) -> tuple[Tensor, Tensor]:
        losses = losses.float() if losses.dtype in HALF else losses
        return self._judge(Inputs(losses.flatten(), mask=_flat(mask), rows=_flat(index), places=places), blocks)

    def _from_output(
        self, output: Tensor, target: Tensor, index: Tensor | None, places: Tensor | None = None, *blocks: Tensor
    ) -> tuple[Tensor, Tensor]:
        """For methods that look at losses alone: nothing of the size of the logits is copied or gathered."""
        mask = None if target.is_floating_point() else target != IGNORE
        return self._from_losses(cross_entropy(output, target), mask, index, places, *blocks)

    def _from_logits(
        self, output: Tensor, target: Tensor, index: Tensor | None, places: Tensor | None = None, *blocks: Tensor
    ) -> tuple[Tensor, Tensor]:
        several = int(outputs(self.method) > 1)  # in an axis before all others, which stays
        flat, rows = output.dim() == 2 + several, _flat(index)  # else there is a sample for each token, or pixel
        logits = output if flat else output.movedim(1 + several, -1).flatten(several, -2)
        inputs = Inputs(logits=logits, rows=rows, places=places)
        if target.is_floating_point():
            return self._judge(inputs._replace(targets=target.movedim(1, -1).flatten(0, -2)), blocks)
        return self._judge(inputs._replace(labels=target.flatten()), blocks)

    def _judge(self, inputs: Inputs, blocks: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Judge a batch and remember it: the loss to minimise, and what was decided, in a row."""
        loss, outcome, _, mine = self._step(inputs, blocks)
        decided = outcome.weights[..., mine].flatten()
        if outcome.confidence is not outcome.weights:
            decided = torch.cat([decided, outcome.confidence[..., mine].flatten()])
        return loss, decided

    def _step(self, inputs: Inputs, blocks: tuple[Tensor, ...] = ()) -> tuple[Tensor, Outcome, Tensor | None, slice]:
        """Judge a batch, of all ranks, and remember it: the loss, what was decided, targets, and this rank's part."""
        group, mine = process_group(self.distributed), slice(None)
        if group is not None:
            inputs, mine = gather(group, inputs)
        loss, outcome, targets = self._advance(inputs, Loss(self.weight, self.label_smoothing), blocks)
        return loss if group is None else for_averaging(loss, group), outcome, targets, mine

    def _replay_key(self) -> Hashable:
        """What the step depends on besides its inputs."""
        addresses = tuple(b.data_ptr() for b in self._buffers.values() if b is not None)
        return self.method, self.window, self.label_smoothing, addresses


def _flat(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.flatten() if x.dtype == torch.bool else x.flatten().long()
