"""What benchmarks/real.py runs: data, networks, noise, epochs and methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from measurements import EARLIER

from adaptivek.experiments.spec import TEXT_RECIPE
from adaptivek.method import Method, describe
from adaptivek.methods import METHODS, build, find, needs

#: what methods are chosen on; everything else is run once they are frozen
DEVELOPMENT = (
    "sarcasm", "20newsgroups", "labelme_amt", "product_pairs_amt", "weak_agnews",
    "cifar10n_worst", "cifar10n_aggregate",
)  # fmt: skip
INJECTED = ("sarcasm", "hotel", "20newsgroups", "imdb")  # clean labels, to which noise is added
TWO_CLASSES = ("sarcasm", "imdb")  # there symmetric and directed noise are the same
RATES = (0.2, 0.4)
OWN = "own"  # the noise that the labels came with
SCARCE = ("product_pairs_amt",)  # one class is rare: judged by balanced accuracy
#: the data of each network
DATA = {
    "encoder": (*INJECTED, "weak_agnews", "weak_trec", "weak_sms", "manifesto_crowd"),
    "perceptron": (
        "labelme_amt", "product_pairs_amt", "weak_agnews", "weak_trec", "weak_sms", "manifesto_crowd",
        "chnsenticorp_golden", "cifar10n_worst", "cifar10n_aggregate",
    ),
    "text-bag": ("sarcasm", "hotel"),
}  # fmt: skip
#: what methods may need, by the words of `needs`; not passes over all rows, more networks, views or mixed samples
OFFERED = frozenset({"truth", "ratio", "warm-up", "logits", "rows", "epochs"})
WARMUP = 3 / 8  # of all steps, for methods that start after plain training: 30 of 80 epochs in the paper


@dataclass(frozen=True)
class Recipe:
    """How a network is trained: by AdamW, which without weight decay is Adam."""

    learning_rate: float
    epochs: tuple[int, ...]
    batch_size: int = 32
    weight_decay: float = 0.0
    bfloat16: bool = False  #: forward passes

    def learning_rate_at(self, step: int, steps: int, epoch: int) -> float:
        """At a step of ``steps`` in all, in an epoch, both from 0."""
        return self.learning_rate


@dataclass(frozen=True)
class FineTuning(Recipe):
    """Up in a straight line for a while, then down to 0, as is usual for a pre-trained network."""

    rising: float = 0.06

    def learning_rate_at(self, step: int, steps: int, epoch: int) -> float:
        return self.learning_rate * min(1.0, (step + 1) / (self.rising * steps)) * (1 - step / steps)


@dataclass(frozen=True)
class FromScratch(Recipe):
    """As `adaptivek bench` trains texts."""

    def learning_rate_at(self, step: int, steps: int, epoch: int) -> float:
        return TEXT_RECIPE.learning_rate_at(epoch)


NETWORKS: dict[str, Recipe] = {
    "encoder": FineTuning(5e-5, (3, 1, 10), weight_decay=0.01, bfloat16=True),
    "perceptron": Recipe(1e-3, (15,)),
    "text-bag": FromScratch(TEXT_RECIPE.learning_rate, (TEXT_RECIPE.epochs,), TEXT_RECIPE.batch_size),
}


@dataclass(frozen=True)
class Setting:
    """Where methods are compared: with one seed they see the same labels, first weights and batches."""

    network: str
    data: str
    noise: str  #: of `adaptivek.noise.NOISES`, or "own"
    rate: float  #: 0 for the noise that the labels came with
    epochs: int

    @property
    def development(self) -> bool:
        return self.data in DEVELOPMENT

    @property
    def metric(self) -> str:
        return "balanced" if self.data in SCARCE else "accuracy"


@dataclass(frozen=True)
class Job:
    """One run."""

    setting: Setting
    method: str  #: as `build` takes it
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """Flat, as it stands in a line of JSON."""
        return {**dataclasses.asdict(self.setting), "method": self.method, "seed": self.seed}

    @classmethod
    def from_dict(cls, line: dict[str, Any]) -> Job:
        """From a line, be it that of a result."""
        setting = Setting(**{field.name: line[field.name] for field in dataclasses.fields(Setting)})
        return cls(setting, line["method"], line["seed"])


def version(text: str) -> str:
    """A method with all of its parameters and its revision: results of another version do not count."""
    method = build(text)
    return f"{describe(method)} r{method.revision}"


def earlier_version(text: str) -> str:
    """The one whose results stand in where there are none of today; empty if there is no such."""
    method = build(text)
    return f"{describe(method)} r{EARLIER[method.name]}" if method.name in EARLIER else ""


def settings() -> Iterator[Setting]:
    """All of them; those that matter most first."""
    for network, recipe in NETWORKS.items():
        for epochs in recipe.epochs:
            for data in DATA[network]:
                if data not in INJECTED:
                    yield Setting(network, data, OWN, 0.0, epochs)
                    continue
                for noise in ("symmetric",) if data in TWO_CLASSES else ("symmetric", "directed"):
                    for rate in RATES:
                        yield Setting(network, data, noise, rate, epochs)
                if epochs == 3:  # clean labels once: does a method do harm?
                    yield Setting(network, data, "symmetric", 0.0, epochs)


def jobs(
    methods: Iterable[str],
    seeds: int,
    *,
    networks: Collection[str] = (),
    data: Collection[str] = (),
    epochs: Collection[int] = (),
    pool: str = "all",
) -> list[Job]:
    """The grid, or the part of it that is asked for; one seed of everything first."""
    wanted = [
        setting
        for setting in settings()
        if (not networks or setting.network in networks)
        and (not data or setting.data in data)
        and (not epochs or setting.epochs in epochs)
        and (pool == "all" or setting.development == (pool == "development"))
    ]
    methods = list(methods)
    if others := [method for method in methods if not single_network(method)]:
        raise ValueError(f"jobs: methods must train a single network in one go, got {', '.join(others)}")
    return [Job(setting, method, seed) for seed in range(seeds) for setting in wanted for method in methods]


def single_network(text: str) -> bool:
    """Whether a method trains one network in one go and needs nothing that the loop here does not have."""
    method = find(text.partition(":")[0])
    restarts = method.epochs_since_restart is not Method.epochs_since_restart
    return OFFERED.issuperset(needs(method)) and not restarts


def all_methods() -> list[str]:
    """Those that are compared, the bounds first."""
    bounds = ["vanilla", "oracle"]
    return bounds + [name for name in METHODS if name not in bounds and single_network(name)]
