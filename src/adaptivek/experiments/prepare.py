"""A run before it begins: its data, its noisy labels, its fresh networks, and all that is random in it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..networks import make_model
from ..networks.dropout import draw_keys
from ..networks.views import CONTRASTS, PAD
from ..noise import Manifest, corrupt
from ..support.streams import stream
from ..training.distortions import CHANCES
from ..training.views import ALPHA
from .data import Split, load
from .spec import Recipe, RunSpec


class Job(NamedTuple):
    """A run before it begins: its data and its observed labels."""

    spec: RunSpec
    data: Split
    labels: Tensor  #: (rows,) the observed ones
    clean: Tensor  #: (rows,) bool: which of them are clean; for records and the oracle alone
    manifest: Manifest
    rows: Tensor  #: (rows,) where they are in the data: all of it, unless some are held out
    held_out: Tensor  #: (held out,) the rows of the data that are held out
    held_out_labels: Tensor  #: (held out,) their observed labels, as noisy as the others

    @property
    def steps_per_epoch(self) -> int:
        return (
            len(self.labels) // self.spec.recipe.batch_size
        )  # an incomplete last batch is dropped, as in the notebook

    @property
    def noise(self) -> float:
        return 1 - float(self.clean.float().mean())


def prepare(spec: RunSpec, data: Split | None = None, root: str | Path | None = None) -> Job:
    """Load the data, unless it is given, and add label noise."""
    if data is None:
        data = load(spec.dataset, seed=spec.seed, root=root, text=spec.text, label=spec.label)
    rows = len(data.y)
    if rows < spec.recipe.batch_size:
        raise ValueError(f"Recipe: batch_size must be at most the {rows} training rows, got {spec.recipe.batch_size}")
    if spec.make_method().views > 1 and data.x.dim() != 4:
        raise ValueError(f"RunSpec: method must be one without views for data that are not images, got {spec.method}")
    if spec.make_method().mixing and not data.x.is_floating_point():
        raise ValueError(f"RunSpec: method must be one that mixes no inputs for texts, got {spec.method}")
    if spec.noise == "instance" and data.vocabulary:
        raise ValueError("RunSpec: noise must not be instance for texts: numbers of words are no features")
    check_recipe(spec.recipe, data)
    features = data.x if spec.noise == "instance" else None
    labels, manifest = corrupt(
        data.y,
        spec.make_noise(),
        classes=data.classes,
        seed=spec.seed,
        exact=spec.exact_noise,
        features=features,
    )
    held_out, used = hold_out(rows, spec.recipe.hold_out, spec.seed)
    if len(used) < spec.recipe.batch_size or (spec.recipe.hold_out and not len(held_out)):
        raise ValueError(f"Recipe: hold_out must leave rows on both sides of {rows}, got {spec.recipe.hold_out}")
    return Job(spec, data, labels[used], (labels == data.y)[used], manifest, used, held_out, labels[held_out])


def check_recipe(recipe: Recipe, data: Split) -> None:
    """Raise unless it is for such data."""
    if recipe.augment and data.x.dim() != 4:
        raise ValueError("Recipe: augment must be False for data that are not images, got True")
    if recipe.views > 1 and data.x.dim() != 4:
        raise ValueError(f"Recipe: views must be 1 for data that are not images, got {recipe.views}")
    if not _takes(recipe.network, data.x.shape[1:], data.x.dtype, data.inputs, data.classes):
        raise ValueError(f"Recipe: network must be one that takes {data.kind}, got {recipe.network}")


@functools.lru_cache(maxsize=64)
def _takes(network: str, shape: torch.Size, dtype: torch.dtype, inputs: int, classes: int) -> bool:
    """Tried on two rows: what a network can do with them, it knows best."""
    try:
        with torch.no_grad():
            make_model(network, inputs, classes).eval()(torch.zeros(2, *shape, dtype=dtype))
    except (RuntimeError, IndexError):
        return False
    return True


def hold_out(rows: int, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """The numbers of the rows to validate on, and of those to train on; all of these, in order, if the share is 0."""
    number = round(share * rows)
    order = stream(seed, "hold-out").permutation(rows) if number else np.arange(rows)
    return torch.from_numpy(order[:number]), torch.from_numpy(order[number:])


class Draws(NamedTuple):
    """All that is random in an epoch; a function of seed and epoch alone, whatever trains the run."""

    order: Tensor  #: (steps, batch) rows of each mini-batch
    keys: Tensor  #: (steps, 2, layers, 2) for dropout, in a first and a second pass
    moves: Tensor  #: (steps, batch, 3) for augmentation: down, right, mirrored
    bends: Tensor  #: (steps, batch, 3) for distorted views: where a square is left out, down and right; contrast
    partners: Tensor  #: (steps, batch) for mixup: the place in the batch that each sample is mixed with
    shares: Tensor  #: (steps,) for mixup: what is left of each sample
    chances: Tensor  #: (steps, batch, CHANCES) for strong views


def draws(job: Job, layers: int, epoch: int) -> Draws:
    seed, size, steps = job.spec.seed, job.spec.recipe.batch_size, job.steps_per_epoch
    order = stream(seed, "order", epoch).permutation(len(job.labels))[: steps * size]
    moves = np.zeros((steps, 1, 1), np.int64)
    if job.spec.recipe.augment:
        reach = [2 * PAD + 1, 2 * PAD + 1, 2]
        moves = stream(seed, "augment", epoch).integers(0, reach, (steps, size, 3))
    bends = np.zeros((steps, 1, 1), np.int64)
    method = job.spec.make_method()
    if method.views > 1:
        reach = [*job.data.x.shape[-2:], CONTRASTS + 1]
        bends = stream(seed, "distort", epoch).integers(0, reach, (steps, size, 3))
    partners, shares = np.zeros((steps, 1), np.int64), np.ones(steps)
    if method.mixing or job.spec.recipe.views > 1:
        rng = stream(seed, "mixup", epoch)
        partners = rng.permuted(np.tile(np.arange(size), (steps, 1)), axis=1)
        alpha = getattr(method, method.mixing) if method.mixing else ALPHA
        shares = rng.beta(alpha, alpha, steps)
    chances = np.zeros((steps, 1, 1), np.float32)
    if job.spec.recipe.views > 1:
        chances = stream(seed, "strong-views", epoch).random((steps, size, CHANCES), np.float32)
    return Draws(
        torch.from_numpy(order.reshape(steps, size)),
        draw_keys(layers, 2 * steps, stream(seed, "dropout", epoch)).view(steps, 2, layers, 2),
        torch.from_numpy(moves),
        torch.from_numpy(bends),
        torch.from_numpy(partners),
        torch.from_numpy(shares).float(),
        torch.from_numpy(chances),
    )


def fresh_networks(job: Job) -> list[nn.Module]:
    """The networks of a run before their first step; the first is the same for all methods."""
    return [fresh_network(job, number) for number in range(job.spec.make_method().networks)]


def fresh_network(job: Job, number: int) -> nn.Module:
    """One of the networks that a run may draw, each with weights of its own."""
    spec, data = job.spec, job.data
    return make_model(spec.recipe.network, data.inputs, data.classes, spec.seed + 1_000_003 * number)
