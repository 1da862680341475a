"""The networks of the experiments, small and plain, by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .checks import check_choice


def notebook_cnn(channels: int, classes: int) -> nn.Module:
    """The network of the authors' MNIST notebook, for 28 x 28 images."""
    return nn.Sequential(
        nn.Conv2d(channels, 15, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(15, 20, 5),
        nn.Dropout2d(),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(320, 500),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(500, classes),
    )


def digits_cnn(channels: int, classes: int) -> nn.Module:
    """The notebook's network brought down to 8 x 8 images: smaller kernels, one pooling."""
    return nn.Sequential(
        nn.Conv2d(channels, 15, 3),
        nn.ReLU(),
        nn.Conv2d(15, 20, 3),
        nn.Dropout2d(),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(80, 500),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(500, classes),
    )


class _Block(nn.Module):
    """Two 3 x 3 convolutions around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
        )
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        same = inputs == outputs and stride == 1
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(self.first(x)) + self.shortcut(x))


def resnet18(channels: int, classes: int) -> nn.Module:
    """ResNet-18 for 32 x 32 images: a 3 x 3 stem without pooling."""
    widths = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    blocks = [b for i, o, s in widths for b in (_Block(i, o, s), _Block(o, o, 1))]
    return nn.Sequential(
        nn.Conv2d(channels, 64, 3, 1, 1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, classes),
    )


class _Bag(nn.Module):
    """A text as the weighted sum of its words' vectors; how much a word weighs is learned too."""

    def __init__(self, vocabulary: int, classes: int, size: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, size)
        self.importance = nn.Embedding(vocabulary, 1)
        self.out = nn.Linear(size, classes)
        with torch.no_grad():
            self.words.weight.mul_(0.01)
            # words are numbered from the most frequent on: the rare ones weigh more from the start, as in TF-IDF
            self.importance.weight.copy_((torch.arange(vocabulary) + 3.0).log().log()[:, None])

    def forward(self, x: Tensor) -> Tensor:
        weight = self.importance(x).squeeze(-1).exp() * (x > 0)  # 0 is padding
        # of length 1 whatever the text's; a row that is all padding gives zeros
        weight = weight * (weight.square().sum(-1, keepdim=True) + 1e-12).rsqrt()
        out: Tensor = self.out(torch.einsum("bl,bld->bd", weight, self.words(x)))
        return out


def text_bag(vocabulary: int, classes: int) -> nn.Module:
    """For texts as token numbers: a learned TF-IDF, 32 numbers a word, and one linear layer."""
    return _Bag(vocabulary, classes)


MODELS: dict[str, Callable[[int, int], nn.Module]] = {
    "notebook-cnn": notebook_cnn,
    "digits-cnn": digits_cnn,
    "resnet18": resnet18,
    "text-bag": text_bag,
}


def make_model(name: str, inputs: int, classes: int) -> nn.Module:
    """A fresh network, its weights drawn from torch's random state.

    Args:
        name: one of `MODELS`.
        inputs: channels of an image, or size of the vocabulary of a text (`Split.inputs`).
        classes: how many there are.
    """
    check_choice("make_model", "name", name, MODELS)
    return MODELS[name](inputs, classes)
