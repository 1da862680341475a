"""What a method is: what it sees of a mini-batch, what it decides, and what it declares that it needs."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor


class Batch(NamedTuple):
    """One mini-batch as a method sees it.

    For methods with several `outputs` of a sample (two networks, or two views of it), loss, losses and logits have an
    axis for these in front: (outputs, B).
    """

    loss: Tensor  #: (B,) per-sample loss to judge by: float32, without gradient; 0 where a sample is not valid
    losses: Tensor  #: (B,) the same to learn from: with gradient; cross-entropy unless the user has another loss
    valid: Tensor  #: (B,) bool: what counts at all; not masked, not ignored, and finite in every output
    n_valid: Tensor  #: () how many do; never 0 in a state that is kept
    rows: Tensor | None = None  #: (B,) row numbers in the training set, where they are known
    logits: Tensor | None = None  #: (B, classes) float32 or wider, with gradient; for methods that need them
    labels: Tensor | None = None  #: (B,) observed labels, 0 where ignored; with the logits
    targets: Tensor | None = None  #: (B, classes) class probabilities, where those were given for labels


class Decision(NamedTuple):
    """What a method makes of a mini-batch. What is left out is as in plain training."""

    weights: Tensor  #: (B,) how much each sample counts, in [0, 1] or bool; (outputs, B) where there are several
    update: Mapping[str, Tensor] | None = None  #: fields of the state that change; of tables, the batch's rows
    losses: Tensor | None = None  #: (B,) losses to minimise in place of `Batch.losses`
    targets: Tensor | None = None  #: (B, classes) or class probabilities to learn in place of the observed labels
    confidence: Tensor | None = None  #: (B,) in each observed label, in [0, 1], where that is not the weight


class Task(NamedTuple):
    """What a method may know before training starts."""

    clean: Tensor | None = None  #: (rows,) bool, which labels are clean; for privileged methods only
    rows: int | None = None  #: size of the training set
    classes: int | None = None
    #: packs rows (..., classes), where all classes of all rows would take too much
    pack: Callable[[Tensor], Tensor] | None = None
    predictions: Tensor | None = None  #: (rows, classes) earlier ones, of rows of zeros none; where `takes_start`

    def per_row(self, value: float) -> Tensor:
        """A table with this number for each row of the training set, (rows,)."""
        return torch.full((self.rows or 0,), value)

    def per_row_and_class(self, value: float) -> Tensor:
        """The same for each row and class: (rows, classes), or packed, which a step does not see."""
        if self.pack is None:
            return torch.full((self.rows or 0, self.classes or 0), value)
        return self.pack(torch.full((1, self.classes or 0), value)).repeat(self.rows or 0, 1)

    def remembered(self) -> Tensor:
        """Predictions that a memory begins with, (rows, classes): the earlier ones, or zeros."""
        if self.predictions is None:
            return self.per_row_and_class(0.0)
        return self.predictions.clone() if self.pack is None else self.pack(self.predictions)


class NoState(NamedTuple):
    """State of a method that remembers nothing."""


#: a NamedTuple of tensors
StateT = TypeVar("StateT", bound=tuple[Tensor, ...])


class EarlyNoise(NamedTuple):
    """Which share of the labels looked noisy before they were memorised. NaN where that cannot be told."""

    first_visits: Tensor  #: in the first visits of each row
    least: Tensor  #: so much at least, by rows that had never been learned from
    most: Tensor  #: so much at most, by the same


class Method(ABC, Generic[StateT]):
    """Decides how much each sample of a mini-batch counts, and what is learned from it.

    Subclasses are frozen dataclasses: their fields are the method's parameters, checked when it is built. They hold no
    tensors and no progress; that is the state, which goes in and comes out.
    """

    name: ClassVar[str]  #: as users type it
    summary: ClassVar[str]  #: one line for the listing
    paper: ClassVar[str]  #: where it comes from
    revision: ClassVar[int] = 1  #: raised whenever the same parameters begin to give other results
    wants_warmup: ClassVar[bool] = False  #: meant to start after some plain training
    leaves_out: ClassVar[bool] = True  #: whether the share it leaves out means anything
    privileged: ClassVar[bool] = False  #: knows which labels are clean (an upper bound, never a method to ship)

    # what it needs, so that no comparison hides its cost
    needs_rows: ClassVar[bool] = False  #: must be told the row number of each sample
    uses_rows: ClassVar[bool] = False  #: does better with row numbers, but can do without
    takes_start: ClassVar[bool] = False  #: remembers predictions of each row, and may begin with earlier ones
    needs_classes: ClassVar[bool] = False  #: must know the number of classes before the first step
    needs_logits: ClassVar[bool] = False  #: losses alone are not enough
    own_loss: ClassVar[bool] = False  #: minimises something else than cross-entropy
    needs_epochs: ClassVar[bool] = False  #: must be told when an epoch begins
    clean_share: ClassVar[str] = ""  #: its parameter that should be one minus the noise ratio, if it has such a one
    soft_targets: ClassVar[bool] = True  #: class probabilities may be given in place of labels
    networks: ClassVar[int] = 1  #: how many are trained side by side; the first is the one to be used afterwards
    views: ClassVar[int] = 1  #: of each image: a weak one, that judges, and a strong one, that is learned from
    #: its parameter that is the alpha of mixup, if the loop is to mix the samples of a batch in pairs
    mixing: ClassVar[str] = ""
    freezes: ClassVar[bool] = False  #: has the loop freeze parts of the network in some epochs, see `parts_alone`
    #: what it wants of all rows when an epoch begins, if anything: a forward pass over the training set
    full_pass: ClassVar[Literal["", "losses", "features", "logits"]] = ""
    #: fields of the state that have an entry for each row of the training set
    tables: ClassVar[tuple[str, ...]] = ()
    #: reads tables by `backend.tables.parts` when an epoch begins, if at all, so that they may be packed
    reads_packed: ClassVar[bool] = False

    @abstractmethod
    def init(self, task: Task) -> StateT:
        """State before the first batch that is selected from. What the method needs of ``task`` has been checked."""

    @abstractmethod
    def step(self, state: StateT, batch: Batch) -> Decision:
        """What to make of a mini-batch.

        Of its tables, ``state`` holds the entries of the batch's rows, (B, ...), or None where rows are not known.
        Pure, with fixed shapes, without reading values back, boolean indexing or branches on data. During warm-up,
        where nothing is valid, and for samples that are not, the decision is dropped; no method needs to care.
        """

    def start_epoch(self, state: StateT, epoch: int, full_pass: Tensor | None) -> StateT:
        """State at the beginning of an epoch, from 0, once warm-up is over; here tables are whole.

        ``full_pass`` has the losses of all rows on their observed labels, (rows,), their features, (rows, size), or
        their logits, (rows, classes).
        Unlike in a step, values may be read back and time is no concern.
        """
        return state

    def epochs_since_restart(self, epoch: int) -> int:
        """How many epochs old the network is; a loop gives it new weights, and the first learning rate, at 0."""
        return epoch

    def parts_alone(self, epoch: int) -> int:
        """How many of the network's last parts are trained in this epoch, with the rest frozen; 0: all, as usual.

        A loop gives these parts fresh weights in the first of such epochs.
        """
        return 0

    def loss_threshold(self, state: StateT) -> Tensor | None:
        """The loss up to which samples of the last batch were kept, where the method has such a number."""
        return None

    def early_noise(self, state: StateT) -> EarlyNoise | None:
        """Which share of the labels looked noisy early on, where the method counts that."""
        return None


def outputs(method: Method[Any] | type[Method[Any]]) -> int:
    """How many outputs of a sample a method sees: one of each network, for each view."""
    return method.networks * method.views


def judges(method: Method[Any]) -> bool:
    """Whether it weighs or relabels by one output and no more, so that another view of a sample can be learned from."""
    return outputs(method) == 1 and not method.own_loss


def trains_plainly(method: Method[Any]) -> bool:
    """Whether any loop will do: one network on one view of the samples as they are, all of it trained."""
    return outputs(method) == 1 and not method.mixing and not method.freezes


def parameters(method: Method[Any]) -> dict[str, Any]:
    """The parameters of a method as they are set."""
    return {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}  # type: ignore[arg-type]


def describe(method: Method[Any]) -> str:
    """A method as text, with every parameter: what `build` takes."""
    values = ",".join(f"{name}={value}" for name, value in parameters(method).items())
    return f"{method.name}:{values}" if values else method.name


def observed(batch: Batch) -> Tensor:
    """The observed labels as class probabilities, (B, classes)."""
    if batch.targets is not None:
        return batch.targets
    return at_class(batch.labels, batch.logits).to(batch.logits.dtype)  # type: ignore[arg-type, union-attr]


def at_class(classes: Tensor, like: Tensor) -> Tensor:
    """True at the class of each sample, (..., B, classes), for as many classes as ``like`` has."""
    return classes.unsqueeze(-1) == torch.arange(like.shape[-1], device=like.device)


def add_label_(values: Tensor, batch: Batch, share: Tensor) -> Tensor:
    """Add a share, (B, 1) or (), of the observed labels to ``values`` (..., B, classes), in place.

    With many classes each pass over all of them takes time, and a label is but one of them.
    """
    if batch.targets is not None:
        return values.addcmul_(share, batch.targets)
    at_label = _at_label(values, batch)
    return values.scatter_add_(-1, at_label, share.to(values.dtype).expand(at_label.shape))


def of_label(values: Tensor, batch: Batch) -> Tensor:
    """The mean of ``values`` (..., B, classes) over the observed labels, (..., B): of one label, its value."""
    if batch.targets is not None:
        return (values * batch.targets).sum(-1)
    return values.gather(-1, _at_label(values, batch)).squeeze(-1)


def _at_label(values: Tensor, batch: Batch) -> Tensor:
    assert batch.labels is not None
    return batch.labels.expand(values.shape[:-1]).unsqueeze(-1)


def log_prob(logits: Tensor, classes: Tensor) -> Tensor:
    """The log-probability of one class for each sample, (..., B), from logits (..., B, classes)."""
    return F.log_softmax(logits, -1).gather(-1, classes.unsqueeze(-1)).squeeze(-1)
