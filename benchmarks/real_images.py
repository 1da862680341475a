"""Features of images from a pre-trained MobileNetV2: what its last layer gives, mean over the places of an image."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as parquet
import torch
import torch.nn.functional as F
from torch import Tensor

from adaptivek.experiments.data.split import shuffled
from adaptivek.support.images import read_image

SIZE = 96  # pixels a side that images are brought to
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of the images that it has learned from
HALVING = (2, 4, 7, 14)  # blocks that halve the sides, as the stem does
BLOCKS = 17
ROWS, TEST_ROWS = 8_000, 3_000  # taken of CIFAR-10
COMPONENTS = 128  # of the features, by their variance
HUMAN_LABELS = {"cifar10n_worst": "worse_label", "cifar10n_aggregate": "aggre_label"}
Weights = Mapping[str, Tensor]


class HumanLabels(NamedTuple):
    """Images as features, with the labels that people gave them and the true ones."""

    x: list[np.ndarray]
    labels: dict[str, list[int]]  #: by the names of `HUMAN_LABELS`
    gold: list[int]
    x_test: list[np.ndarray]
    y_test: list[int]


@functools.cache
def human_labels(root: Path, weights: Path) -> HumanLabels:
    """Some rows of CIFAR-10 in the folder cifar10, their labels in cifar10n."""
    loaded = torch.load(weights, map_location="cpu", weights_only=True)
    rows = shuffled(parquet.read_metadata(root / "cifar10/train.parquet").num_rows, "cifar10n")[:ROWS].sort().values
    tested = shuffled(parquet.read_metadata(root / "cifar10/test.parquet").num_rows, "cifar10n:test")[:TEST_ROWS]
    x, gold = read(root / "cifar10/train.parquet", loaded, rows.numpy())
    x_test, y_test = read(root / "cifar10/test.parquet", loaded, tested.numpy())
    table = parquet.read_table(root / "cifar10n/train.parquet").take(rows.numpy())
    labels = {name: table.column(column).to_pylist() for name, column in HUMAN_LABELS.items()}
    mean = x.mean(0)
    main = np.linalg.svd(x - mean, full_matrices=False)[2][:COMPONENTS].T
    return HumanLabels(list((x - mean) @ main), labels, gold, list((x_test - mean) @ main), y_test)


@torch.no_grad()
def features(weights: Weights, images: Tensor) -> Tensor:
    """(rows, 1280) of images, (rows, 3, height, width), bytes."""
    mean, std = (torch.tensor(numbers).view(3, 1, 1) for numbers in (MEAN, STD))
    x = F.interpolate(images.float() / 255, (SIZE, SIZE), mode="bilinear", antialias=True)
    x = F.relu6(_convolution(weights, "features.0.", 0, (x - mean) / std, 2))
    for block in range(1, BLOCKS + 1):
        x = _block(weights, f"features.{block}.conv.", x, 2 if block in HALVING else 1)
    return F.relu6(_convolution(weights, f"features.{BLOCKS + 1}.", 0, x)).mean((2, 3))


def _block(weights: Weights, name: str, x: Tensor, stride: int) -> Tensor:
    """Widen, look around in each channel, narrow; added to the input where the shape is the same."""
    places = [place for place in (0, 3, 6) if f"{name}{place}.weight" in weights]  # the first block does not widen
    y = x
    for place in places:
        around = weights[f"{name}{place}.weight"].shape[-1] > 1
        y = _convolution(weights, name, place, y, stride if around else 1)
        y = y if place == places[-1] else F.relu6(y)
    return x + y if x.shape == y.shape else y


def _convolution(weights: Weights, name: str, place: int, x: Tensor, stride: int = 1) -> Tensor:
    """And the normalisation after it, which is the next entry."""
    kernel, norm = weights[f"{name}{place}.weight"], f"{name}{place + 1}."
    x = F.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2, groups=x.shape[1] // kernel.shape[1])
    learned = (weights[norm + part] for part in ("running_mean", "running_var", "weight", "bias"))
    return F.batch_norm(x, *learned)


def read(path: Path, weights: Weights, rows: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Features and labels of some rows of a Parquet file with the columns img and label."""
    table = parquet.read_table(path).take(rows)
    found = []
    for start in range(0, len(rows), 100):
        several = table.column("img").slice(start, 100).to_pylist()
        images = np.stack([np.asarray(read_image(image["bytes"])) for image in several])
        found.append(features(weights, torch.from_numpy(images).permute(0, 3, 1, 2)).numpy())
    return np.concatenate(found), table.column("label").to_pylist()
