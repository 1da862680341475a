"""Images as small tensors to learn from, and thumbnails to look at."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..support.images import ImageError, ImageSource, load_pillow, read_image

SIDE, SMALL_SIDE = 32, 16  #: pixels to which images are resized; the latter if most are smaller than 24
THUMBNAIL = 256  #: pixels a side, at most: enough to judge a label by
SMALL = 64  #: up to here every pixel counts


def list_folder(folder: Path) -> tuple[list[Path], list[str]]:
    """The files of a folder that has a folder for each class, sorted, and their classes."""
    files = sorted(path for path in folder.glob("*/**/*") if path.is_file() and not path.name.startswith("."))
    if not files:
        raise ValueError(f"audit: {folder} must have a folder of images for each class, got no files in folders")
    return files, [path.relative_to(folder).parts[0] for path in files]


def read_images(sources: Sequence[ImageSource | None]) -> tuple[Tensor, list[int], list[tuple[int, str]]]:
    """(rows, channels, side, side) bytes of those that can be read, which these are, and the others with a reason."""
    bilinear = load_pillow().Resampling.BILINEAR
    grey, sizes, good, bad = True, [], [], []
    arrays: list[Any] = []
    for row, source in enumerate(sources):
        try:
            image = read_image(source)
        except ImageError as error:
            bad.append((row, str(error)))
            continue
        grey = grey and image.mode == "L"
        sizes.append(min(image.size))
        # one size for now; the smaller one is made of it below
        arrays.append(np.asarray(image.convert("RGB").resize((SIDE, SIDE), bilinear)))
        good.append(row)
    if not good:
        raise ValueError(f"audit: images must be readable, got {len(bad)} files of which none is: {bad[0][1]}")
    x = torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2)
    x = x[:, :1] if grey else x
    if np.median(sizes) < 24:
        x = torch.nn.functional.avg_pool2d(x.float(), SIDE // SMALL_SIDE).round().byte()
    return x.contiguous(), good, bad


def resized(image: Any, channels: int, side: int) -> Tensor:
    """(channels, side, side) bytes of an image, as `read_images` makes them."""
    large = image.convert("RGB").resize((SIDE, SIDE), load_pillow().Resampling.BILINEAR)
    x = torch.from_numpy(np.asarray(large).copy()).permute(2, 0, 1)[:channels]
    if side == SIDE:
        return x.contiguous()
    return torch.nn.functional.avg_pool2d(x.float()[None], SIDE // side).round().byte()[0]


def thumbnails(sources: Sequence[ImageSource | None]) -> Callable[[int], bytes]:
    """Small PNGs or JPEGs by place, made when they are asked for."""

    def make(place: int) -> bytes:
        small = read_image(sources[place]).convert("RGB")
        small.thumbnail((THUMBNAIL, THUMBNAIL))
        return _encoded(small, "PNG" if max(small.size) <= SMALL else "JPEG")

    return make


def of_tensor(x: Tensor) -> Callable[[int], bytes]:
    """Small PNGs of images that are tensors, (rows, channels, height, width), stretched from black to white."""
    pillow = load_pillow()

    def make(place: int) -> bytes:
        one = x[place].float()
        one = ((one - one.min()) / (one.max() - one.min()).clamp(min=1e-6) * 255).byte().permute(1, 2, 0)
        array = one.numpy()
        array = array[..., :3] if array.shape[2] >= 3 else array[..., 0]
        return _encoded(pillow.fromarray(array), "PNG")

    return make


def _encoded(image: Any, form: str) -> bytes:
    file = io.BytesIO()
    image.save(file, form)
    return file.getvalue()
