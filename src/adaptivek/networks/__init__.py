"""The networks of the experiments, small and plain, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backend.checks import check_choice
from .dropout import Dropout


class Conv2d(nn.Conv2d):
    """A convolution that can also be done as one matrix product, which is faster for a stack of small ones."""

    as_product = False

    def forward(self, x: Tensor) -> Tensor:
        if not self.as_product:
            return super().forward(x)
        height, width = self.kernel_size
        patches = x.unfold(2, height, 1).unfold(3, width, 1).permute(0, 2, 3, 1, 4, 5)
        return F.linear(patches.flatten(3), self.weight.flatten(1), self.bias).permute(0, 3, 1, 2)


def notebook_cnn(channels: int, classes: int) -> nn.Module:
    """The network of the authors' MNIST notebook, for 28 x 28 images."""
    return nn.Sequential(
        Conv2d(channels, 15, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        Conv2d(15, 20, 5),
        Dropout(whole_channels=True),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(320, 500),
        nn.ReLU(),
        Dropout(),
        nn.Linear(500, classes),
    )


def digits_cnn(channels: int, classes: int) -> nn.Module:
    """The notebook's network brought down to 8 x 8 images: smaller kernels, one pooling."""
    return nn.Sequential(
        Conv2d(channels, 15, 3),
        nn.ReLU(),
        Conv2d(15, 20, 3),
        Dropout(whole_channels=True),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(80, 500),
        nn.ReLU(),
        Dropout(),
        nn.Linear(500, classes),
    )


def convolution(inputs: int, outputs: int, *after: nn.Module) -> nn.Module:
    """3 x 3, normalised over the batch."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(), *after)


class Residual(nn.Module):
    """Two convolutions whose output is added to their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.both = nn.Sequential(convolution(width, width), convolution(width, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.both(x)  # type: ignore[no-any-return]


class _Largest(nn.Module):
    """The largest value of each channel."""

    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool2d(x, x.shape[-2:])


class _Layers(nn.Sequential):
    """Layers one after the other. `Module.compile` leaves PyTorch's own `forward` alone, and would compile
    only what our modules do inside of it; this one it compiles as a whole."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self:
            x = layer(x)
        return x


class _Scale(nn.Module):
    """Makes the logits smaller, without which a network that learns this fast is too confident."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 0.125


def resnet9(channels: int, classes: int) -> nn.Module:
    """A ResNet of nine layers for 32 x 32 images, made to train fast."""
    return _Layers(
        convolution(channels, 64),
        convolution(64, 128, nn.MaxPool2d(2)),
        Residual(128),
        convolution(128, 256, nn.MaxPool2d(2)),
        convolution(256, 512, nn.MaxPool2d(2)),
        Residual(512),
        _Largest(),
        nn.Flatten(),
        nn.Linear(512, classes, bias=False),
        _Scale(),
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
    return _Layers(
        nn.Conv2d(channels, 64, 3, 1, 1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, classes),
    )


class _Bag(nn.Module):
    """A text as the weighted sum of its words' vectors; how much a word weighs is learned too.

    With ``dropout``, that share of the words is left out of a text while training.
    """

    def __init__(self, vocabulary: int, classes: int, size: int = 32, dropout: float = 0.0) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, size)
        self.importance = nn.Embedding(vocabulary, 1)
        self.out = nn.Linear(size, classes)
        self.dropout = Dropout(dropout) if dropout else nn.Identity()
        with torch.no_grad():
            self.words.weight.mul_(0.01)
            # words are numbered from the most frequent on: the rare ones weigh more from the start, as in TF-IDF
            self.importance.weight.copy_((torch.arange(vocabulary) + 3.0).log().log()[:, None])

    def forward(self, x: Tensor) -> Tensor:
        weight = self.importance(x).squeeze(-1).exp() * (x > 0)  # 0 is padding
        weight = self.dropout(weight)
        # of length 1 whatever the text's; a row that is all padding gives zeros
        weight = weight * (weight.square().sum(-1, keepdim=True) + 1e-12).rsqrt()
        out: Tensor = self.out(torch.einsum("bl,bld->bd", weight, self.words(x)))
        return out


def text_bag(vocabulary: int, classes: int) -> nn.Module:
    """For texts as token numbers: a learned TF-IDF, 32 numbers a word, and one linear layer."""
    return _Bag(vocabulary, classes)


def text_bag_wide(vocabulary: int, classes: int) -> nn.Module:
    """The same with 128 numbers a word."""
    return _Bag(vocabulary, classes, size=128)


def text_bag_dropout(vocabulary: int, classes: int) -> nn.Module:
    """The same with half of the words of a text left out at each step."""
    return _Bag(vocabulary, classes, dropout=0.5)


MODELS: dict[str, Callable[[int, int], nn.Module]] = {
    "notebook-cnn": notebook_cnn,
    "digits-cnn": digits_cnn,
    "resnet9": resnet9,
    "resnet18": resnet18,
    "text-bag": text_bag,
    "text-bag-wide": text_bag_wide,
    "text-bag-dropout": text_bag_dropout,
}


#: by network, the modules of its last parts, the very last first: the head, and the stage before it if there is one
LAST_PARTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "notebook-cnn": (("11",), ("8",)),
    "digits-cnn": (("10",), ("7",)),
    "resnet9": (("8",), ("4", "5")),
    "resnet18": (("13",), ("9", "10")),
    **dict.fromkeys(("text-bag", "text-bag-wide", "text-bag-dropout"), (("out",),)),
}


def in_last_parts(network: str, number: int, name: str) -> bool:
    """Whether a weight of this name belongs to the last ``number`` parts of the network."""
    return name.partition(".")[0] in sum(LAST_PARTS[network][:number], ())


def make_model(name: str, inputs: int, classes: int, seed: int = 0) -> nn.Module:
    """A fresh network, its weights a function of the seed alone; torch's random state stays as it was.

    ``inputs`` is what `Split.inputs` tells: the channels of an image, or the size of a vocabulary.
    """
    check_choice("make_model", "name", name, MODELS)
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return MODELS[name](inputs, classes)


@contextmanager
def without_head(model: nn.Module) -> Iterator[None]:
    """Within, the network gives features: what its last linear layer is given otherwise."""
    head = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
    head.forward = lambda input: input  # type: ignore[method-assign]
    try:
        yield
    finally:
        del head.forward


def stackable(name: str) -> bool:
    """Whether many such networks can be trained as one: batch statistics cannot be kept apart under `vmap`."""
    return not name.startswith("resnet")
