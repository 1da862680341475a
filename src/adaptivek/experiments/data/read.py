"""Any data set of `datasets` with an image or a text column and a label column, as whole numbers in tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...support.images import ImageError, hub_images, read_image
from ...support.labels import is_missing
from ...support.text import tokenise
from .split import Split, shuffled

#: which column is meant where several would do: ours, and those of the files that Kaggle has
TEXT_NAMES = ("text", "headline", "Review")
LABEL_NAMES = ("label", "is_sarcastic", "Rating")


def held_out(rows: int, number: int) -> Tensor:
    """Which of ``rows`` rows are the test rows where there is no published split: (number,), ascending."""
    return shuffled(rows, f"split:{rows}")[:number].sort().values


def prepare(splits: Mapping[str, Any], share: float, text: str = "", label: str = "") -> Split:
    """Images as bytes or texts as token numbers, with labels from 0.

    Args:
        splits: splits by name, each a `datasets.Dataset`; "train" and, if there is one, "test" are used.
        share: what to hold out where there is no test split.
        text: the column of the images or texts; found if not given.
        label: the same of the labels.
    """
    train = splits["train"] if "train" in splits else _only(splits)
    column, label = find_columns(train, text, label)
    is_image = _kind(train.features[column]) == "image"
    read = _images if is_image else _texts
    x, y = read(train, column), _labels(train, label)
    if "test" in splits:
        x_test, y_test = read(splits["test"], column), _labels(splits["test"], label)
    else:
        rows = len(y)
        number = round(share * rows)
        if not 0 < number < rows:
            raise ValueError(f"there must be a test split, or rows enough to hold out {share:.0%}; got {rows} rows")
        test = np.isin(np.arange(rows), held_out(rows, number).numpy())
        x, x_test = [_take(x, where) for where in (~test, test)]
        y, y_test = [_take(y, where) for where in (~test, test)]
    targets, targets_test, classes = _numbered(y, y_test, train.features[label])
    if not is_image:
        tokens, tokens_test, vocabulary = tokenise(x, x_test)
        return Split(tokens, targets, tokens_test, targets_test, classes, vocabulary, (column, label))
    images = _stack([*x, *x_test])
    shown, tested = images[: len(x)].clone(), images[len(x) :].clone()
    return Split(shown, targets, tested, targets_test, classes, columns=(column, label))


def find_columns(train: Any, text: str = "", label: str = "") -> tuple[str, str]:
    """The image or text column and the label column: as named, else by their types and what is in them.

    A column called label is the label. Otherwise it is one of classes, of whole numbers or of texts, in this order, and
    never one with a value of its own for more than half of the rows: those are numbers of rows, names or the texts.
    """
    kinds = {name: _kind(feature) for name, feature in train.features.items()}
    for what, name in (("text", text), ("label", label)):
        if name and name not in kinds:
            raise ValueError(f"{what} must be a column, one of {', '.join(kinds)}; got {name!r}")
    if text and text == label:
        raise ValueError(f"text and label must be two columns, got {text!r} for both")
    column = "image" if "image" in kinds.values() else "text"
    label = label or (LABEL_NAMES[0] if LABEL_NAMES[0] in kinds else _find_label(train, kinds, column, text))
    inputs = [name for name in kinds if kinds[name] == column and name != label]
    return text or _pick("the image or text", inputs, TEXT_NAMES, kinds), label


def _find_label(train: Any, kinds: Mapping[str, str], column: str, text: str) -> str:
    texts = [name for name in kinds if kinds[name] == "text"]
    for kind in ("class", "whole number", "text"):
        found = [name for name in kinds if kinds[name] == kind and name != text]
        if kind == "text" and column == "text" and len(texts) == 1:
            found = []  # the only text there is cannot be the label as well
        if kind != "class":
            found = [name for name in found if 2 * len(set(train[name][:])) <= len(train)]
        if found:
            return _pick("the label", found, LABEL_NAMES, kinds)
    return _pick("the label", [], (), kinds)


def _pick(what: str, found: list[str], names: tuple[str, ...], kinds: Mapping[str, str]) -> str:
    """The one there is, or the one whose name says it."""
    named = [name for name in names if name in found]
    if len(found) == 1 or named:
        return (named or found)[0]
    several = f"several could be {what}: {', '.join(found)}" if found else f"none could be {what}"
    argument = "label" if what == "the label" else "text"
    raise ValueError(
        f"there must be one image or text column and a label column; {several}, of {_listed(kinds)}: "
        f"name it, {argument}= or --{argument}"
    )


def _kind(feature: Any) -> str:
    name, dtype = type(feature).__name__, str(getattr(feature, "dtype", ""))
    if name in ("Image", "ClassLabel"):
        return {"Image": "image", "ClassLabel": "class"}[name]
    if name == "Value" and dtype in ("string", "large_string"):
        return "text"
    return "whole number" if name == "Value" and dtype.lstrip("u").startswith(("int", "bool")) else "other"


def _listed(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in kinds.items())


def _only(splits: Mapping[str, Any]) -> Any:
    if len(splits) != 1:
        raise ValueError(f"there must be a split called train; got {', '.join(splits)}")
    return next(iter(splits.values()))


def _take(values: list[Any], where: Iterable[bool]) -> list[Any]:
    return [value for value, wanted in zip(values, where, strict=True) if wanted]


def _texts(split: Any, column: str) -> list[str]:
    return [text or "" for text in split[column][:]]  # a missing text is an empty one


def _labels(split: Any, column: str) -> list[Any]:
    labels, class_codes = list(split[column][:]), _kind(split.features[column]) == "class"
    for row, label in enumerate(labels):
        if is_missing(label, class_codes):
            raise ValueError(f"each row must have a label; row {row} has none in {column}")
    return labels


def _numbered(train: list[Any], test: list[Any], feature: Any) -> tuple[Tensor, Tensor, int]:
    """Labels as numbers from 0: as they are if the classes are known, else in sorted order."""
    if _kind(feature) == "class":
        return torch.tensor(train), torch.tensor(test), feature.num_classes
    numbers = {value: number for number, value in enumerate(sorted(set(train) | set(test)))}
    y, y_test = (torch.tensor([numbers[value] for value in split]) for split in (train, test))
    return y, y_test, len(numbers)


def _images(split: Any, column: str) -> list[Any]:
    """Each image as an array of bytes, (height, width) if it is grey, else (height, width, 3)."""
    images = []
    for row, source in enumerate(hub_images(split, column)):
        try:
            images.append(np.array(read_image(source)))
        except ImageError as error:
            raise ValueError(f"each image must be readable; row {row} of {column} is not: {error}") from None
        if images[-1].shape[:2] != images[0].shape[:2]:
            sizes = " and ".join(f"{a.shape[1]} x {a.shape[0]}" for a in (images[0], images[-1]))
            raise ValueError(f"all images must have one size; rows 0 and {row} of {column} have {sizes}: resize them")
    return images


def _stack(images: list[Any]) -> Tensor:
    """(rows, channels, height, width) bytes; grey images among coloured ones are given three channels."""
    if len({image.shape for image in images}) == 1:
        stacked = torch.from_numpy(np.stack(images))
        return stacked[:, None] if stacked.dim() == 3 else stacked.permute(0, 3, 1, 2).contiguous()
    if len({image.shape[:2] for image in images}) > 1:
        raise ValueError("all images must have one size; those for training and for testing differ: resize them")
    return _stack([image if image.ndim == 3 else np.repeat(image[..., None], 3, 2) for image in images])
