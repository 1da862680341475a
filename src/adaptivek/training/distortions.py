"""Strong views of images: a few distortions of each, drawn at random, and a square left out.

Batched, with fixed shapes, on the device of the images. What is random is drawn elsewhere: a view is a function of
images and chances.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

#: what may be done to an image; those that move it come first, and are done as one
KINDS = (
    "rotate", "shear_x", "shear_y", "shift_x", "shift_y",
    "brightness", "contrast", "colour", "sharpness", "posterise", "solarise", "stretch",
)  # fmt: skip
MOVES = 5  # of them
CHANCES = 2 * len(KINDS) + 2  #: numbers in [0, 1) that a strong view of an image takes
TURN, SHEAR, SHIFT = math.pi / 6, 0.3, 0.3  # at most: 30 degrees, and this share of the width
FACTOR = 0.9  # brightness, contrast, colour and sharpness are between 0.1 and 1.9 times what they were
BITS = 4  # of eight, that are left out at most
HIDDEN = 0.5  # of the width, the side of the square that is left out
GREY = (0.299, 0.587, 0.114)  # how bright red, green and blue are to the eye


def strong_view(images: Tensor, chances: Tensor, changes: int = 2) -> Tensor:
    """Distorted images, (N, channels, height, width), of the type they were: bytes, or numbers on any scale.

    Of each image ``changes`` of the `KINDS` are done, each by an amount at random, and a square is left out. Black and
    white are taken to be the lowest and the highest number of each channel in the batch, 0 and 255 of bytes.

    Args:
        images: with one or three channels, or any number, which are then taken for three but for colour.
        chances: (N, `CHANCES`) numbers in [0, 1): which, by how much, and where the square is.
        changes: how many of the kinds.
    """
    with torch.autocast(images.device.type, enabled=False):  # half precision is too coarse for places in an image
        low, high = _range(images)
        x = ((images.float() - low) / (high - low)).clamp(0, 1)
        which, much, where = chances.tensor_split([len(KINDS), 2 * len(KINDS)], 1)
        chosen = which.argsort(1).argsort(1) < changes
        amounts = torch.where(chosen, 2 * much - 1, 0.0)
        middle = x.mean((0, 2, 3), keepdim=True)  # what comes in at an edge, and where the square is
        x = _move(x - middle, amounts[:, :MOVES]) + middle
        x = _recolour(x, amounts[:, MOVES:, None, None, None], chosen[:, -1, None, None, None])
        x = torch.where(_square(x, where), middle, x) * (high - low) + low
        return x.to(images.dtype) if images.is_floating_point() else x.round().to(images.dtype)


def _range(images: Tensor) -> tuple[Tensor, Tensor]:
    """Black and white, (1, channels, 1, 1); never the same."""
    if images.dtype == torch.uint8:
        low = torch.zeros(1, 1, 1, 1, device=images.device)
        return low, low + 255
    low, high = images.float().amin((0, 2, 3), keepdim=True), images.float().amax((0, 2, 3), keepdim=True)
    return low, torch.where(high > low, high, low + 1)


def _move(x: Tensor, amounts: Tensor) -> Tensor:
    """Turned, sheared and shifted about the middle; 0 is what comes in at an edge."""
    height, width = x.shape[-2:]
    turn, across, down, right, below = amounts.unbind(1)
    cos, sin = (TURN * turn).cos(), (TURN * turn).sin()
    across, down = SHEAR * across, SHEAR * down
    # from places in the new image to places in the old one, both from -1 to 1, so a turn minds which side is longer
    rows = [
        torch.stack([cos + across * sin, (across * cos - sin) * height / width, 2 * SHIFT * right], 1),
        torch.stack([(down * cos + sin) * width / height, cos - down * sin, 2 * SHIFT * below], 1),
    ]
    grid = F.affine_grid(torch.stack(rows, 1), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def _recolour(x: Tensor, amounts: Tensor, stretched: Tensor) -> Tensor:
    """Images between 0 and 1 with other brightness and so on, by amounts between -1 and 1; 0 leaves one as it is."""
    brightness, contrast, colour, sharpness, posterise, solarise, _ = amounts.unbind(1)
    x = (x * (1 + FACTOR * brightness)).clamp(0, 1)
    x = _away(x, _grey(x).mean((2, 3), keepdim=True), contrast)
    if x.shape[1] == 3:
        x = _away(x, _grey(x), colour)
    x = _away(x, F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), sharpness)
    coarse = 2 ** (BITS * posterise.abs()).ceil()
    x = torch.where(posterise != 0, ((x * 255).round() / coarse).floor() * coarse / 255, x)
    x = torch.where(x > 1 - solarise.abs(), 1 - x, x)
    darkest, brightest = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    return torch.where(stretched & (brightest > darkest), (x - darkest) / (brightest - darkest).clamp(min=1e-6), x)


def _away(x: Tensor, dull: Tensor, amount: Tensor) -> Tensor:
    """Further from a dull image by this amount, or nearer to it."""
    return (dull + (x - dull) * (1 + FACTOR * amount)).clamp(0, 1)


def _grey(x: Tensor) -> Tensor:
    if x.shape[1] != 3:
        return x.mean(1, keepdim=True)
    red, green, blue = x.split(1, 1)  # type: ignore[no-untyped-call]
    return GREY[0] * red + GREY[1] * green + GREY[2] * blue  # type: ignore[no-any-return]


def _square(x: Tensor, where: Tensor) -> Tensor:
    """True in a square about a place, (N, 1, height, width); at an edge less of it is in the image."""
    height, width = x.shape[-2:]
    row = (torch.arange(height, device=x.device) + 0.5) / height
    column = (torch.arange(width, device=x.device) + 0.5) / width
    in_rows = (row - where[:, :1]).abs() < HIDDEN / 2
    in_columns = (column - where[:, 1:]).abs() < HIDDEN / 2
    return (in_rows[:, :, None] & in_columns[:, None, :]).unsqueeze(1)
