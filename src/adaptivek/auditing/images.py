"""Pictures from files or bytes: small tensors to learn from, and thumbnails to look at."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

SUFFIXES = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff"}
SIDE, SMALL_SIDE = 32, 16  #: pixels to which pictures are brought; the latter if most are smaller than 24
THUMBNAIL = 96

#: bytes, or where they are
Picture = bytes | Path


def list_folder(folder: Path) -> tuple[list[Path], list[str]]:
    """The files of a folder that has a folder for each class, sorted, and their classes."""
    files = sorted(path for path in folder.glob("*/**/*") if path.is_file() and not path.name.startswith("."))
    if not files:
        raise ValueError(f"audit: {folder} must have a folder of images for each class, got no files in folders")
    return files, [path.relative_to(folder).parts[0] for path in files]


def read_images(pictures: Sequence[Picture]) -> tuple[Tensor, list[int], list[tuple[int, str]]]:
    """(rows, channels, side, side) bytes of those that can be read, which these are, and the others with a reason."""
    image = _pillow()
    grey, sizes, good, bad = True, [], [], []
    arrays: list[Any] = []
    for row, picture in enumerate(pictures):
        try:
            with image.open(_opened(picture)) as opened:
                grey = grey and opened.mode in ("1", "L", "LA", "I;16")
                sizes.append(min(opened.size))
                # one size for now; the smaller one is made of it below
                arrays.append(np.asarray(opened.convert("RGB").resize((SIDE, SIDE), image.Resampling.BILINEAR)))
                good.append(row)
        except Exception as error:  # a broken file can make Pillow raise anything
            bad.append((row, _reason(error)))
    if not good:
        raise ValueError(f"audit: images must be readable, got {len(bad)} files of which none is: {bad[0][1]}")
    x = torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2)
    x = x[:, :1] if grey else x
    if np.median(sizes) < 24:
        x = torch.nn.functional.avg_pool2d(x.float(), SIDE // SMALL_SIDE).round().byte()
    return x.contiguous(), good, bad


def thumbnails(pictures: Sequence[Picture]) -> Callable[[int], bytes]:
    """Small PNGs by place, made when they are asked for."""
    image = _pillow()

    def make(place: int) -> bytes:
        with image.open(_opened(pictures[place])) as opened:
            small = opened.convert("RGB")
            small.thumbnail((THUMBNAIL, THUMBNAIL))
            file = io.BytesIO()
            small.save(file, "PNG")
            return file.getvalue()

    return make


def of_tensor(x: Tensor) -> Callable[[int], bytes]:
    """Small PNGs of images that are tensors, (rows, channels, height, width), stretched from black to white."""
    image = _pillow()

    def make(place: int) -> bytes:
        one = x[place].float()
        one = ((one - one.min()) / (one.max() - one.min()).clamp(min=1e-6) * 255).byte().permute(1, 2, 0)
        array = one.numpy()
        array = array[..., :3] if array.shape[2] >= 3 else array[..., 0]
        file = io.BytesIO()
        image.fromarray(array).save(file, "PNG")
        return file.getvalue()

    return make


def _opened(picture: Picture) -> Any:
    return io.BytesIO(picture) if isinstance(picture, bytes) else picture


def _reason(error: Exception) -> str:
    return "not an image that can be read" if type(error).__name__ == "UnidentifiedImageError" else str(error)[:200]


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("auditing images needs Pillow: pip install 'adaptivek[audit]'") from None
    return Image
