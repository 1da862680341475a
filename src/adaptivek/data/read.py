"""Any data set of `datasets` with an image or a text column and a label column, as whole numbers in tensors."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .split import Split, shuffled
from .text import tokenise

#: which column is meant where several would do: ours, and those of the files that Kaggle has
TEXT_NAMES = ("text", "headline", "Review")
LABEL_NAMES = ("label", "is_sarcastic", "Rating")


def held_out(rows: int, number: int) -> Tensor:
    """Which of ``rows`` rows are the test rows where there is no published split: (number,), ascending."""
    return shuffled(rows, f"split:{rows}")[:number].sort().values


def prepare(parts: Mapping[str, Any], share: float) -> Split:
    """Images as bytes or texts as token numbers, with labels from 0.

    Args:
        parts: splits by name, each a `datasets.Dataset`; "train" and, if there is one, "test" are used.
        share: what to hold out where there is no test split.
    """
    train = parts["train"] if "train" in parts else _only(parts)
    column, label = find_columns(train.features)
    is_image = _kind(train.features[column]) == "image"
    read = _images if is_image else _texts
    x, y = read(train, column), _labels(train, label)
    if "test" in parts:
        x_test, y_test = read(parts["test"], column), _labels(parts["test"], label)
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
        return Split(tokens, targets, tokens_test, targets_test, classes, vocabulary)
    images = _stack([*x, *x_test])
    return Split(images[: len(x)].clone(), targets, images[len(x) :].clone(), targets_test, classes)


def find_columns(features: Mapping[str, Any]) -> tuple[str, str]:
    """The image or text column and the label column, by their types, and by name where several would do."""
    kinds = {name: _kind(feature) for name, feature in features.items()}

    def pick(what: str, kind: str, names: Sequence[str], but: str = "") -> str:
        found = [name for name in kinds if kinds[name] == kind and name != but]
        named = [name for name in names if name in found]
        if len(found) == 1 or named:
            return (named or found)[0]
        several = f"several could be {what}: {', '.join(found)}" if found else f"none could be {what}"
        raise ValueError(f"there must be one image or text column and a label column; {several}, of {_listed(kinds)}")

    column = "image" if "image" in kinds.values() else "text"
    # the only text there is cannot be the label as well
    labels = [kind for kind in ("class", "whole number") if kind in kinds.values()]
    if not labels and (column == "image" or list(kinds.values()).count("text") > 1):
        labels = ["text"]
    label = pick("the label", labels[0] if labels else "", LABEL_NAMES)
    return pick("the image or text", column, TEXT_NAMES, label), label


def _kind(feature: Any) -> str:
    name, dtype = type(feature).__name__, str(getattr(feature, "dtype", ""))
    if name in ("Image", "ClassLabel"):
        return {"Image": "image", "ClassLabel": "class"}[name]
    if name == "Value" and dtype in ("string", "large_string"):
        return "text"
    return "whole number" if name == "Value" and dtype.lstrip("u").startswith(("int", "bool")) else "other"


def _listed(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in kinds.items())


def _only(parts: Mapping[str, Any]) -> Any:
    if len(parts) != 1:
        raise ValueError(f"there must be a split called train; got {', '.join(parts)}")
    return next(iter(parts.values()))


def _take(values: list[Any], where: Iterable[bool]) -> list[Any]:
    return [value for value, wanted in zip(values, where, strict=True) if wanted]


def _texts(part: Any, column: str) -> list[str]:
    return [text or "" for text in part[column][:]]  # a missing text is an empty one


def _labels(part: Any, column: str) -> list[Any]:
    labels = list(part[column][:])
    for row, label in enumerate(labels):
        # -1 is how the Hub marks labels that were never published
        if label is None or (label == -1 and _kind(part.features[column]) == "class"):
            raise ValueError(f"each row must have a label; row {row} has none in {column}")
    return labels


def _numbered(train: list[Any], test: list[Any], feature: Any) -> tuple[Tensor, Tensor, int]:
    """Labels as numbers from 0: as they are if the classes are known, else in sorted order."""
    if _kind(feature) == "class":
        return torch.tensor(train), torch.tensor(test), feature.num_classes
    numbers = {value: number for number, value in enumerate(sorted(set(train) | set(test)))}
    y, y_test = (torch.tensor([numbers[value] for value in part]) for part in (train, test))
    return y, y_test, len(numbers)


def _images(part: Any, column: str) -> list[Any]:
    """Each image as an array of bytes, (height, width) if it is grey, else (height, width, 3)."""
    from datasets import Image as Encoded
    from PIL import Image

    images = []
    for row, encoded in enumerate(part.cast_column(column, Encoded(decode=False))[column][:]):
        try:
            with Image.open(io.BytesIO(encoded["bytes"]) if encoded["bytes"] else encoded["path"]) as image:
                images.append(np.array(image.convert("L" if image.mode in ("1", "L", "LA", "I;16") else "RGB")))
        except Exception as error:  # a missing or broken file, or no image at all
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
