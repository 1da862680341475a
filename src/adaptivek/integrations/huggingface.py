"""Hugging Face: a stock ``Trainer`` that selects.

>>> trainer = Trainer(model=model, args=args, train_dataset=data)
>>> attach(trainer, Selection("adaptive-k", warmup=1_000))
>>> trainer.train()

Everything goes through the trainer's own hooks: its loss function, and a callback.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backend.checks import check_labels
from ..criterion import Selection
from ..method import trains_plainly
from ..step import IGNORE, cross_entropy
from ..training.accumulation import Accumulation
from ..training.history import numbers
from ..training.indexed import INDEX

try:
    from transformers import Trainer, TrainerCallback
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, get_last_checkpoint
except ImportError:
    raise ImportError("adaptivek.integrations.huggingface needs Transformers: pip install 'adaptivek[hf]'") from None

FILE = "selection.pt"  # what the criterion remembers, in each checkpoint


def attach(trainer: Trainer, criterion: Selection, *, shift: bool | None = None) -> None:
    """Make a trainer train with ``criterion``, log what it does and save it in every checkpoint.

    One label per sequence or one per token: what is judged, and left out, is what has a label. Labels of
    -100 do not count. With ``gradient_accumulation_steps`` each micro-batch is judged by itself, and the
    step is divided once by all that was kept in its window. Evaluation gives the plain mean loss.

    Args:
        trainer: any trainer whose model gives ``logits`` and whose batches have ``labels``.
        criterion: from ``Selection(...)``; its warm-up counts micro-batches.
        shift: whether token t is judged by the label at t + 1; so for causal language models, unless told.
    """
    if not isinstance(criterion, Selection):
        raise TypeError(f"attach: criterion must be a Selection, got {criterion!r}")
    if not trains_plainly(criterion.method):
        raise ValueError(
            f"attach: criterion must have a method with one network, trained plainly on one view, for a trainer does "
            f"no more; got {criterion.method.name}"
        )
    if trainer.compute_loss_func is not None:
        raise ValueError(f"attach: the trainer must have no compute_loss_func, got {trainer.compute_loss_func!r}")
    if trainer.args.label_smoothing_factor:
        raise ValueError(
            "attach: label_smoothing_factor must be 0, since the criterion computes the loss, got "
            f"{trainer.args.label_smoothing_factor}: Selection(label_smoothing=...) does it"
        )
    if trainer.args.n_gpu > 1:
        raise ValueError(f"attach: needs one process per GPU (torchrun), got one process with {trainer.args.n_gpu}")
    hook = _Hook(trainer, criterion, shift)
    trainer.compute_loss_func = hook
    trainer.add_callback(hook)
    train = trainer.train

    @functools.wraps(train)  # the one place where a trainer says which checkpoint it goes on from
    def train_on(resume_from_checkpoint: str | bool | None = None, *args: Any, **options: Any) -> Any:
        if resume_from_checkpoint:
            _restore(criterion, resume_from_checkpoint, trainer.args.output_dir)
        return train(resume_from_checkpoint, *args, **options)

    trainer.train = train_on


class _Hook(TrainerCallback):
    """The loss of a trainer, and what happens around its steps."""

    def __init__(self, trainer: Trainer, criterion: Selection, shift: bool | None) -> None:
        self.trainer, self.criterion, self.shift = trainer, criterion, shift
        self.index: Tensor | None = None
        self.looked = False

    def __call__(self, outputs: Any, labels: Tensor | None, num_items_in_batch: Any = None) -> Tensor:
        training = torch.is_grad_enabled()  # a trainer evaluates without
        self.criterion.train(training)
        loss = self._loss(_logits(outputs), labels)
        if training:
            loss = self.accumulate(loss)
        if num_items_in_batch is not None and self.trainer.args.average_tokens_across_devices:
            # the trainer multiplies by this, taking the loss for a part of a sum over all ranks
            loss = loss / self.trainer.accelerator.num_processes
        return loss

    def _loss(self, logits: Tensor, labels: Tensor | None) -> Tensor:
        if labels is None:
            raise ValueError("attach: batches must have labels, got none")
        if self.shift:
            labels = F.pad(labels, (0, 1), value=IGNORE)[..., 1:]
        if self.criterion.loss is not cross_entropy:
            losses = self.criterion.loss(logits, labels)
            mask = labels != IGNORE if losses.shape == labels.shape else None
            return self.criterion.reduce(losses, mask, self._rows(losses))
        if labels.is_floating_point():
            raise ValueError(
                f"attach: labels must be whole numbers, got {labels.dtype}: for other tasks give the criterion a loss "
                "per sample, Selection(loss=...)"
            )
        if labels.shape != logits.shape[:-1]:
            raise ValueError(f"attach: labels must have shape {tuple(logits.shape[:-1])}, got {tuple(labels.shape)}")
        flat = logits.flatten(0, -2), labels.flatten()
        if not self.looked:
            check_labels("attach", *flat, IGNORE, read=True)
            self.looked = True
        if self.criterion.takes_logits:
            return self.criterion(logits.movedim(-1, 1), labels, self._rows(labels))  # type: ignore[no-any-return]
        losses = cross_entropy(*flat).view(labels.shape)
        return self.criterion.reduce(losses, labels != IGNORE, self._rows(losses))

    def _rows(self, losses: Tensor) -> Tensor | None:
        index, self.index = self.index, None
        if index is not None:
            return index.view(-1, *[1] * (losses.dim() - 1)).expand_as(losses)  # all tokens of a row are of that row
        method = self.criterion.method
        if self.criterion.training and (method.needs_rows or (method.uses_rows and self.criterion.rows)):
            raise ValueError(
                f"attach: {method.name} needs row numbers, got batches without {INDEX!r}: train on "
                "adaptivek.indexed(dataset) with TrainingArguments(remove_unused_columns=False)"
            )
        return None

    def _take_index(self, model: nn.Module, args: Any, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Before each forward pass: row numbers are for us, no model knows them."""
        self.index = inputs.pop(INDEX, None)
        return args, inputs

    def on_train_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        model = parts["model"]
        if self.shift is None:
            name = type(model.get_base_model() if hasattr(model, "get_base_model") else model).__name__
            self.shift = name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
        self.accumulate = Accumulation(self.criterion, model.parameters())
        # Transformers before 5.6 has the accelerator divide by this once more, when the step is a mean already
        self.trainer.accelerator.gradient_accumulation_steps = 1
        self.handle = model.register_forward_pre_hook(self._take_index, with_kwargs=True)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.handle.remove()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        criterion, epoch = self.criterion, int(state.epoch or 0)
        # not again where a checkpoint goes on in mid-epoch; a full pass is the caller's to make
        if (
            criterion.method.needs_epochs
            and not criterion.method.full_pass
            and int(criterion.memory.tally.epoch) != epoch
        ):
            criterion.start_epoch(epoch)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.accumulate.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if control.should_log:
            known = {name: value for name, value in numbers(self.criterion).items() if math.isfinite(value)}
            self.trainer.log(known)
            control.should_log = True  # or the trainer would take this for its own entry

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.on_step_end(args, state, control)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        folder = Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
        if state.is_world_process_zero and folder.is_dir():  # all ranks remember the same
            torch.save(self.criterion.state_dict(), folder / FILE)


def _logits(outputs: Any) -> Tensor:
    logits = outputs.get("logits") if isinstance(outputs, dict) else outputs[0] if outputs else None
    if not isinstance(logits, Tensor) or logits.dim() < 2:
        found = f"logits of shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(outputs).__name__
        raise ValueError(f"attach: the model must give logits of shape (..., classes), not a loss; got {found}")
    return logits


def _restore(criterion: Selection, checkpoint: str | bool, output_dir: str) -> None:
    folder = get_last_checkpoint(output_dir) if checkpoint is True else checkpoint
    if folder is None:
        return  # the trainer says so
    file = Path(str(folder)) / FILE
    if not file.is_file():
        raise ValueError(f"attach: {folder} must hold {FILE}, got none: it was not written by an attached trainer")
    criterion.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
