"""Methods and data sets as the paper writes them."""

from __future__ import annotations

from ...support.files import plain

NAMES = {
    "oracle": "Oracle", "vanilla": "Vanilla", "mkl": "MKL", "vanilla+mkl": "Vanilla+MKL", "adaptive-k": "Adaptive-k",
    "label-agreement": "Label agreement", "label-memory": "Label memory", "label-posterior": "Label posterior",
    "elr": "ELR",
    "mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "imdb": "IMDB", "sarcasm": "Sarcasm",
    "hotel": "Hotel reviews", "20newsgroups": "20 newsgroups", "digits": "Digits",
}  # fmt: skip


def named(name: str) -> str:
    """A method or data set as the paper writes it; parameters of a method in brackets."""
    name, bracket, options = name.partition(" (")  # what was combined with a method
    base, colon, rest = name.partition(":")
    found = f"{NAMES.get(base, base)} ({rest})" if colon and base in NAMES else NAMES.get(name, name)
    return plain(f"{found}{bracket}{options}")
