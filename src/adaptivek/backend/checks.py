"""Checks of what users pass in: every error names the owner, the parameter, what is allowed and what came."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from ..method import Method, judges, outputs
from ..step import cross_entropy
from .distributed import ProcessGroup


def check_number(
    owner: str,
    name: str,
    value: object,
    low: float,
    high: float = math.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
    whole: bool = False,
) -> None:
    """Raise unless ``value`` is a number between ``low`` and ``high`` (ends included unless open)."""
    kind = int if whole else (int, float)
    # NaN fails both comparisons, so it is refused without a case of its own
    if isinstance(value, kind) and not isinstance(value, bool):
        above = value > low if open_low else value >= low
        below = value < high if open_high else value <= high
        if above and below:
            return
    noun = "a whole number" if whole else "a number"
    if math.isinf(high):
        allowed = f"{noun} {'above' if open_low else 'of at least'} {low:g}"
    else:
        allowed = f"{noun} in {'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
    raise ValueError(f"{owner}: {name} must be {allowed}, got {value!r}")


def check_choice(owner: str, name: str, value: object, allowed: Collection[str]) -> None:
    """Raise unless ``value`` is one of the ``allowed`` strings."""
    if value not in allowed:
        raise ValueError(f"{owner}: {name} must be one of {', '.join(sorted(allowed))}; got {value!r}")


def check_sizes(owner: str, **sizes: int | None) -> None:
    """Raise unless each is a whole number of at least 1, or None: not given."""
    for name, size in sizes.items():
        if size is not None:
            check_number(owner, name, size, 1, whole=True)


def check_options(
    owner: str, warmup: int, window: int, label_smoothing: float, table_device: object, distributed: object
) -> None:
    """Raise unless a criterion can be made with these."""
    check_number(owner, "warmup", warmup, 0, whole=True)
    check_number(owner, "window", window, 1, whole=True)
    check_number(owner, "label_smoothing", label_smoothing, 0, 1, open_high=True)
    if table_device is not None and str(table_device) != "cpu":
        raise ValueError(f'{owner}: table_device must be None or "cpu", got {table_device!r}')
    if not isinstance(distributed, (bool, ProcessGroup)):
        raise TypeError(f"{owner}: distributed must be True, False or a process group, got {distributed!r}")


def wants_warmup(method: Method[Any]) -> str:
    """What a user is told who has not said how long a method is to wait."""
    return (
        f"{method.name} is made to start after some plain training and may collapse without it: "
        "give warmup=, in steps (the paper trains plainly for 30 of 80 epochs), or 0 to mean it"
    )


def check_clean(owner: str, method: Method[Any], clean: Tensor, rows: int | None) -> None:
    """Raise unless the method may know which rows have a clean label, and it is known of each of them."""
    if not method.privileged:
        raise ValueError(f"{owner}: clean is for Oracle alone, {method.name} must not know it")
    if rows not in (None, len(clean)):
        raise ValueError(f"{owner}: clean must have an entry for each of {rows} rows, got {len(clean)}")


def check_loss(owner: str, method: Method[Any], loss: object, weight: Tensor | None, label_smoothing: float) -> None:
    """Raise unless a method goes with this loss, and the loss with the options of cross-entropy."""
    if loss is not cross_entropy and (method.needs_logits or weight is not None or label_smoothing):
        why = f"for {method.name}" if method.needs_logits else "with weight or label_smoothing"
        raise ValueError(f"{owner}: loss must be left as it is {why}, got {loss!r}")
    if label_smoothing and method.own_loss:
        raise ValueError(f"{owner}: label_smoothing must be 0 for {method.name}, got {label_smoothing}")
    if weight is not None and (weight.dim() != 1 or not weight.is_floating_point()):
        raise ValueError(f"{owner}: weight must be one number for each class, got {weight!r}")


def check_losses(owner: str, losses: Tensor) -> None:
    """Raise unless these are losses of samples, in any shape."""
    if losses.dim() == 0:
        raise ValueError(
            f'{owner}: needs one loss per sample, got a single number: compute the loss with reduction="none"'
        )
    if not losses.is_floating_point():
        raise ValueError(f"{owner}: losses must be floating point, got {losses.dtype}")


def check_outputs(owner: str, method: Method[Any], logits: Tensor) -> None:
    """Raise unless there are logits of as many networks or views as a method sees."""
    number = outputs(method)
    if number > 1 and (logits.dim() < 3 or len(logits) != number):
        raise ValueError(
            f"{owner}: {method.name} needs the logits of {number} networks or views, "
            f"stacked: ({number}, batch, classes, ...), got {tuple(logits.shape)}"
        )


def check_judges(owner: str, name: str, method: Method[Any], loss: object = cross_entropy) -> None:
    """Raise unless a method can judge one view of samples while another is learned."""
    if loss is not cross_entropy or not judges(method):
        got = method.name if loss is cross_entropy else f"the loss {loss!r}"
        raise ValueError(
            f"{owner}: {name} needs a method that weighs or relabels by one network's logits, with cross-entropy; "
            f"got {got}"
        )


def check_full_pass(owner: str, method: Method[Any], full_pass: Tensor | None) -> None:
    """Raise unless there is of all rows what a method wants when an epoch begins."""
    wanted = method.full_pass
    if wanted and (full_pass is None or full_pass.dim() != (1 if wanted == "losses" else 2)):
        raise ValueError(
            f"{owner}: {method.name} needs the {wanted} of all rows: start_epoch(epoch, {wanted}), got "
            f"{None if full_pass is None else tuple(full_pass.shape)}"
        )


def check_labels(owner: str, logits: Tensor, labels: Tensor, ignore_index: int, read: bool) -> None:
    """Raise unless ``labels`` fit ``logits`` of shape (batch, classes, ...); looks at their values if ``read``."""
    if logits.dim() < 2:
        raise ValueError(f"{owner}: logits must have shape (batch, classes, ...), got {tuple(logits.shape)}")
    classes, expected = logits.shape[1], logits.shape[:1] + logits.shape[2:]
    if labels.is_floating_point():
        if labels.shape != logits.shape:
            raise ValueError(
                f"{owner}: labels must be whole numbers of shape {tuple(expected)}, or class probabilities of shape "
                f"{tuple(logits.shape)}; got {labels.dtype} of shape {tuple(labels.shape)}"
            )
        return
    if labels.dtype == torch.bool or labels.is_complex():
        raise ValueError(f"{owner}: labels must be whole numbers, got {labels.dtype}")
    if labels.shape != expected:
        hint = ": one-hot labels go in as class probabilities, labels.float()" if labels.shape == logits.shape else ""
        raise ValueError(f"{owner}: labels must have shape {tuple(expected)}, got {tuple(labels.shape)}{hint}")
    if read:
        outside = labels[(labels != ignore_index) & ((labels < 0) | (labels >= classes))]
        if len(outside):
            allowed = f"from 0 to {classes - 1}, or {ignore_index} for what does not count"
            raise ValueError(f"{owner}: labels must be {allowed}; got {outside[0].item()}")


def check_given(
    owner: str,
    method: Method[Any],
    shape: torch.Size,
    mask: Tensor | None,
    index: Tensor | None,
    rows: int | None,
    told_epoch: bool,
) -> None:
    """Raise unless a step is given what its method needs, in the shape of the losses."""
    if index is None and (method.needs_rows or (method.uses_rows and rows)):
        promised = "" if method.needs_rows else f", as rows={rows} has promised"
        raise ValueError(
            f"{owner}: {method.name} needs row numbers{promised}: criterion(output, target, index), got none; "
            "adaptivek.indexed(dataset) adds them to any data set"
        )
    if method.needs_epochs and not told_epoch:
        raise ValueError(f"{owner}: {method.name} goes by epochs: call criterion.start_epoch(epoch) when one begins")
    if index is not None and (index.is_floating_point() or index.dtype == torch.bool):
        raise ValueError(f"{owner}: index must be whole numbers, got {index.dtype}")
    for name, value in (("mask", mask), ("index", index)):
        if value is not None and value.shape != shape:
            raise ValueError(
                f"{owner}: {name} must have the shape of the losses, {tuple(shape)}, got {tuple(value.shape)}"
            )


def check_rows(owner: str, index: Tensor, rows: int) -> None:
    """Raise unless each of ``index`` is a row of a training set of ``rows``. Reads the values."""
    low, high = (int(x) for x in index.aminmax()) if index.numel() else (0, 0)
    if low < 0 or high >= rows:
        got = low if low < 0 else high
        raise ValueError(
            f"{owner}: index must be row numbers from 0 to {rows - 1}, as rows={rows} says; got {got}. "
            "Is rows= the size of the data set that is trained on?"
        )
