"""Other views of images: shifted and mirrored, or distorted. What is random in them is drawn elsewhere."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

PAD = 4  # pixels by which an augmented image may be shifted
CONTRASTS = 16  # that a distorted image may have, around its own


def augment(x: Tensor, moves: Tensor) -> Tensor:
    """Shift and mirror each image as told; what comes in at the edge mirrors what is there."""
    number, _, height, width = x.shape
    down, right, mirrored = moves.unbind(-1)
    padded = F.pad(x, [PAD] * 4, mode="reflect").permute(0, 2, 3, 1)  # channels last, where they stay together
    row = down[:, None] + torch.arange(height, device=x.device)
    column = torch.arange(width, device=x.device).expand(number, width)
    column = right[:, None] + torch.where(mirrored[:, None] > 0, width - 1 - column, column)
    image = torch.arange(number, device=x.device)[:, None, None]
    return padded[image, row[:, :, None], column[:, None, :]].permute(0, 3, 1, 2)


def distort(x: Tensor, bends: Tensor) -> Tensor:
    """Images with a square of half their width left out and another contrast, both as told."""
    height, width = x.shape[-2:]
    down, right, contrast = bends.unbind(-1)
    row, column = torch.arange(height, device=x.device), torch.arange(width, device=x.device)
    hidden = ((row - down[:, None]).abs() <= height // 4)[:, :, None] & ((column - right[:, None]).abs() <= width // 4)[
        :, None, :
    ]
    factor = 0.5 + contrast / CONTRASTS
    return (x * factor[:, None, None, None]).where(~hidden[:, None], 0.0)
