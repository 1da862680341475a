"""How each data set is trained on, and the full specification of a run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..backend.checks import check_choice, check_judges, check_number
from ..method import Method, trains_plainly
from ..methods import build, told_noise_ratio
from ..networks import MODELS
from ..noise import NOISES, Noise

if TYPE_CHECKING:
    from .data import Split


@dataclass(frozen=True)
class Recipe:
    """How a network is trained on a data set. The defaults are those of the authors' notebook but for `decay_early`."""

    network: str = "notebook-cnn"
    epochs: int = 80
    warmup_epochs: int = 30
    batch_size: int = 10
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.05
    momentum: float = 0.0
    weight_decay: float = 0.0
    decay_every: int = 30
    decay_factor: float = 0.2
    decay_early: bool = False  #: each drop an epoch sooner: the notebook steps its scheduler before it trains
    augment: bool = False  #: images: shifted by up to four pixels and mirrored at random
    precision: Literal["float32", "bfloat16"] = "float32"  #: of the forward pass, on a GPU
    average: float = 0.0  #: test a moving average of the weights: how much of it stays at each step, such as 0.999
    hold_out: float = 0.0  #: share of the training rows by whose noisy labels the epoch that counts is chosen
    views: int = 1  #: images: 2 has an averaged network judge a weak view, and a strong one learned, see `StrongViews`

    def __post_init__(self) -> None:
        check_choice("Recipe", "network", self.network, MODELS)
        check_number("Recipe", "epochs", self.epochs, 1, whole=True)
        check_number("Recipe", "warmup_epochs", self.warmup_epochs, 0, whole=True)
        check_number("Recipe", "batch_size", self.batch_size, 1, whole=True)
        check_choice("Recipe", "optimizer", self.optimizer, ("sgd", "adam"))
        check_number("Recipe", "learning_rate", self.learning_rate, 0, open_low=True)
        check_number("Recipe", "momentum", self.momentum, 0, 1, open_high=True)
        check_number("Recipe", "weight_decay", self.weight_decay, 0)
        check_number("Recipe", "decay_every", self.decay_every, 1, whole=True)
        check_number("Recipe", "decay_factor", self.decay_factor, 0, 1, open_low=True)
        check_choice("Recipe", "precision", self.precision, ("float32", "bfloat16"))
        check_number("Recipe", "average", self.average, 0, 1, open_high=True)
        check_number("Recipe", "hold_out", self.hold_out, 0, 1, open_high=True)
        check_number("Recipe", "views", self.views, 1, 2, whole=True)

    def learning_rate_at(self, epoch: int) -> float:
        """The learning rate of an epoch, from 0."""
        return self.learning_rate * self.decay_factor ** ((epoch + self.decay_early) // self.decay_every)

    def precision_on(self, device: str) -> str:
        """That of the forward pass on a kind of device. Few processors are faster in bfloat16: they have float32."""
        return self.precision if device == "cuda" else "float32"

    def without_warmup(self) -> Recipe:
        """What runs must share to be trained as one: each may begin to select when it wants."""
        return dataclasses.replace(self, warmup_epochs=0)

    def stages(self) -> set[int]:
        """Epochs, from 1, of which more is recorded: the first, the last plain one, one amid selection, the last."""
        plain = min(max(self.warmup_epochs, 1), self.epochs)
        return {1, plain, (plain + self.epochs + 1) // 2, self.epochs}


#: what the paper compares, and on what
PAPER_METHODS = ("oracle", "vanilla", "mkl", "vanilla+mkl", "adaptive-k")
PAPER_DATASETS = ("mnist", "fashion-mnist", "cifar10", "imdb", "sarcasm", "hotel", "20newsgroups")
PAPER_RATES = (0.1, 0.2, 0.3, 0.4)

#: the authors' notebook, to the epoch
NOTEBOOK = Recipe(decay_early=True)

#: for texts of one's own, and for the benchmarks that are not the paper's
TEXT_RECIPE = Recipe(
    network="text-bag",
    epochs=16,
    warmup_epochs=6,
    batch_size=50,
    optimizer="adam",
    learning_rate=5e-4,
    decay_every=6,
)

RECIPES: dict[str, Recipe] = {
    # the notebook's, in 5/8 of the epochs: long enough for Vanilla to memorise the noisy labels
    "digits": Recipe(network="digits-cnn", epochs=50, warmup_epochs=20, decay_every=20),
    "mnist": NOTEBOOK,
    "fashion-mnist": NOTEBOOK,
    # epochs and weight decay raced on clean labels and on Vanilla alone; docs/data.md has the numbers
    "cifar10": Recipe(
        network="resnet9",
        epochs=40,
        warmup_epochs=15,
        batch_size=512,
        learning_rate=0.2,
        momentum=0.9,
        weight_decay=5e-4,
        decay_every=15,
        augment=True,
        precision="bfloat16",
    ),
    # chosen by benchmarks/text_recipes.py, on clean labels and on Vanilla alone
    "imdb": dataclasses.replace(TEXT_RECIPE, learning_rate=0.0002),
    "sarcasm": dataclasses.replace(TEXT_RECIPE, epochs=8, warmup_epochs=3, decay_every=3),
    "hotel": dataclasses.replace(TEXT_RECIPE, network="text-bag-wide", learning_rate=0.0002),
    "20newsgroups": TEXT_RECIPE,
}
#: which pixels a side the networks of two of these take; the others take any from 8 on
SIDES = {"digits": (8, 9), "mnist": (28, 31)}


#: steps that an epoch of a recipe by kind has at least, rows permitting, and all of it at most
FEW_STEPS, MANY_STEPS, SMALLEST_BATCH = 50, 40_000, 8


def recipe_by_kind(data: Split) -> Recipe:
    """The recipe for data that has none of its own: that of the benchmark's data of its kind, with batches by its rows.

    Smaller batches of SGD take smaller steps in proportion. Nothing is mirrored: what it would be is not known.
    """
    if data.vocabulary:
        recipe = TEXT_RECIPE
    else:
        sides = data.x.shape[-2:]
        fitting = [name for name, (low, high) in SIDES.items() if all(low <= side <= high for side in sides)]
        recipe = dataclasses.replace(RECIPES[fitting[0] if fitting else "cifar10"], augment=False)
    rows = len(data.y)
    most = max(recipe.batch_size, rows * recipe.epochs // MANY_STEPS)
    size = max(SMALLEST_BATCH, min(most, rows // FEW_STEPS))
    slower = min(1.0, size / recipe.batch_size) if recipe.optimizer == "sgd" else 1.0
    return dataclasses.replace(recipe, batch_size=size, learning_rate=recipe.learning_rate * slower)


MOST_NOISE = 0.95  # that a method is told of, however far off: it must keep something


class Resolved(NamedTuple):
    """A method as it is run: with all that its name and the run leave open."""

    name: str
    parameters: dict[str, Any]
    revision: int


@dataclass(frozen=True)
class RunSpec:
    """All that decides a run. Two runs with equal specifications on one device give equal results."""

    dataset: str
    method: str = "adaptive-k"  #: name, with parameters if need be: "adaptive-k:threshold=mean"
    noise: str = "directed"
    noise_rate: float = 0.0
    exact_noise: bool = False  #: flip exactly the expected number of labels
    seed: int = 0
    reforward: bool = False  #: run the kept samples through the network again, as the notebook does
    recipe: Recipe = field(default_factory=Recipe)
    ratio_error: float = 0.0  #: how far off the noise ratio is that a method is told, where it must be told one
    text: str = ""  #: the column of the texts or images; found if not given, see `data.load`
    label: str = ""  #: the column of the labels, likewise
    audit: str = ""  #: fingerprint of the audit's targets that training starts from; empty: it starts from the labels

    def __post_init__(self) -> None:
        check_number("RunSpec", "noise_rate", self.noise_rate, 0, 1)
        check_number("RunSpec", "ratio_error", self.ratio_error, -1, 1)
        check_number("RunSpec", "seed", self.seed, 0, whole=True)
        self.make_noise()
        method = self.make_method()
        if self.reforward and method.needs_logits:
            raise ValueError(f"RunSpec: reforward must be False for {method.name}, which does more than weigh")
        if self.recipe.views > 1:
            self._check_views(method)
        if self.ratio_error and not told_noise_ratio(self.method):
            raise ValueError(f"RunSpec: ratio_error must be 0 for {self.method}, which is not told the noise ratio")

    def _check_views(self, method: Method[Any]) -> None:
        check_judges("RunSpec", "views=2", method)
        restarts = not all(method.epochs_since_restart(epoch) for epoch in range(1, self.recipe.epochs))
        if self.reforward or restarts or not trains_plainly(method):
            raise ValueError(
                "RunSpec: views must be 1 with reforward, and for methods that mix samples, freeze parts of a network "
                f"or begin with a fresh one; got {self.recipe.views} with {method.name}"
            )

    def make_noise(self) -> Noise:
        check_choice("RunSpec", "noise", self.noise, [name for name in NOISES if name != "matrix"])
        return NOISES[self.noise](rate=self.noise_rate)  # type: ignore[call-arg]

    def make_method(self) -> Method[Any]:
        # as in the paper, methods that need the noise ratio are given the true one unless told otherwise
        if self.ratio_error:
            return build(self.method, min(max(self.noise_rate + self.ratio_error, 0.0), MOST_NOISE))
        return build(self.method, self.noise_rate if self.noise_rate < 1 else None)

    def resolved(self) -> Resolved:
        method = self.make_method()
        return Resolved(method.name, dataclasses.asdict(method), method.revision)  # type: ignore[call-overload]

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> RunSpec:
        return cls(**(fields | {"recipe": Recipe(**fields["recipe"])}))

    @classmethod
    def as_recorded(cls, fields: dict[str, Any]) -> RunSpec:
        """Of a run that was done, maybe by another version: its method or network need not be known here."""
        recipe: Recipe = _unchecked(Recipe, fields["recipe"])
        spec: RunSpec = _unchecked(cls, fields | {"recipe": recipe})
        return spec

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def identity(self, recorded: Resolved | None = None) -> str:
        """A short hash of all of it: equal for equal runs, in every process and on every machine.

        The method counts as what it resolves to, with every parameter and its revision: however it is written, and
        whatever becomes of its defaults. Of the rest what is as by default is left out, so that a field added later
        does not make old results strangers; hence no default of these may ever change.

        Args:
            recorded: the method as it was run, of a result; unless given, as it is here.
        """
        name, parameters, revision = recorded or self.resolved()
        fields = _not_default(self) | {
            "recipe": _not_default(self.recipe),
            "method": [name, {key: _plain(value) for key, value in parameters.items()}, revision],
        }
        fields.pop("ratio_error", None)  # it is in the parameters
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


def _not_default(spec: RunSpec | Recipe) -> dict[str, Any]:
    values = {field.name: (getattr(spec, field.name), field.default) for field in dataclasses.fields(spec)}
    return {
        name: _plain(value)
        for name, (value, default) in values.items()
        if value != default and name not in ("recipe", "method")
    }


def _plain(value: Any) -> Any:
    """A real number without what the last digits of a subtraction add, or its type: 1 - 0.7 is 0.3, and 1.0 is 1."""
    if not isinstance(value, float):
        return value
    short = float(f"{value:.12g}")
    return int(short) if short.is_integer() else short


def _unchecked(kind: type[Any], fields: dict[str, Any]) -> Any:
    """A dataclass with these fields as they are."""
    built = object.__new__(kind)
    for each in dataclasses.fields(kind):
        if each.name not in fields and each.default is dataclasses.MISSING:
            raise ValueError(f"{kind.__name__}: {each.name} must be given, got none")
        object.__setattr__(built, each.name, fields.get(each.name, each.default))
    return built
