"""What the commands let one replace of a recipe. The texts are what `--help` says of each."""

from __future__ import annotations

from typing import Literal, TypedDict


class Overrides(TypedDict, total=False):
    """The recipe of the data set, field by field; what is not given stays as it is."""

    network: str
    """notebook-cnn, digits-cnn, resnet9, resnet18 or text-bag"""
    epochs: int
    """how long to train"""
    warmup_epochs: int
    """epochs of plain training first, for methods that start late"""
    batch_size: int
    """samples per step"""
    optimizer: Literal["sgd", "adam"]
    """how weights are updated"""
    learning_rate: float
    """initial learning rate"""
    momentum: float
    """of sgd"""
    weight_decay: float
    """penalty on large weights"""
    decay_every: int
    """epochs between drops of the learning rate"""
    decay_factor: float
    """what a drop multiplies it by"""
    decay_early: bool
    """each drop an epoch sooner, as in the paper's notebook"""
    augment: bool
    """images: shift and mirror at random"""
    precision: Literal["float32", "bfloat16"]
    """of the forward pass, on a GPU"""
    average: float
    """test a moving average of the weights: how much of it stays at each step, such as 0.999; 0: off"""
    hold_out: float
    """early stopping: share of the training rows held out, whose noisy labels choose the epoch; 0: off"""
    views: int
    """images: 2 has an averaged network judge a weak view while a distorted one is learned; 1: off"""
