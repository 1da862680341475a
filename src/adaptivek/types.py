"""The nouns of a method: what it sees, what it remembers, what it must provide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, Literal, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from .held import held


class Seen(NamedTuple):
    """One mini-batch as a method sees it. Leading axes, if any, are separate runs.

    For methods with several `answers` to a sample, losses, counts, numbers and logits have an axis for these behind
    the runs: (..., answers, B).
    """

    loss: Tensor  #: (..., B) float32, detached; 0 where an entry does not count
    counts: Tensor  #: (..., B) bool: finite and not masked out; a sample counts in all its answers or in none
    number: Tensor  #: (...,) how many count; never 0 in a state that is kept
    rows: Tensor | None = None  #: (..., B) row numbers in the training set
    logits: Tensor | None = None  #: (..., B, classes) float32, detached; for methods that need them
    labels: Tensor | None = None  #: (..., B) as given; likewise


class Task(NamedTuple):
    """What a method may know before training starts."""

    clean: Tensor | None = None  #: (rows,) bool, which labels are right; filled for privileged methods only
    rows: int | None = None  #: size of the training set
    classes: int | None = None


class Stateless(NamedTuple):
    """State of a method that remembers nothing."""


#: a NamedTuple of tensors
StateT = TypeVar("StateT", bound=tuple[Tensor, ...])


class Selector(ABC, Generic[StateT]):
    """Decides how much each sample of a mini-batch weighs, and by which loss.

    Subclasses are frozen dataclasses: their fields are the method's parameters, checked when it is
    built. They hold no tensors and no progress; that is the state, which goes in and comes out. In a
    stack of runs a real parameter may be a tensor with one number for each run, shaped like the leading
    axes.
    """

    name: ClassVar[str]  #: as users type it
    summary: ClassVar[str]  #: one line for the listing
    paper: ClassVar[str]  #: where it comes from
    revision: ClassVar[int] = 1  #: raised whenever the same parameters begin to give other results
    wants_warmup: ClassVar[bool] = False  #: meant to start after some plain training
    leaves_out: ClassVar[bool] = True  #: whether the share it leaves out means anything
    privileged: ClassVar[bool] = False  #: knows which labels are wrong (an upper bound, never a method to ship)

    # what it needs, so that no comparison hides its cost
    needs_rows: ClassVar[bool] = False  #: must be told the row number of each sample
    uses_rows: ClassVar[bool] = False  #: does better with row numbers, but can do without
    needs_logits: ClassVar[bool] = False  #: losses alone are not enough
    needs_epochs: ClassVar[bool] = False  #: must be told when an epoch begins
    needs_ratio: ClassVar[bool] = False  #: has a parameter that should be set by the noise ratio
    networks: ClassVar[int] = 1  #: how many are trained side by side; the first is the one to be used afterwards
    views: ClassVar[int] = 1  #: of each image: one as it is, that judges, and a distorted one, that is learned from
    #: what it wants of all rows when an epoch begins, if anything: a forward pass over the set
    sweeps: ClassVar[Literal["", "losses", "features"]] = ""
    #: fields of the state that have an entry for each row of the training set, axis by axis behind the runs
    tables: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def init(self, task: Task) -> StateT:
        """State before the first batch that is selected from."""

    def losses(self, state: StateT, logits: Tensor, labels: Tensor, rows: Tensor | None) -> Tensor:
        """The loss of each sample, (..., B), to be differentiated; cross-entropy unless the method has its own."""
        return F.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="none").view(labels.shape)

    @abstractmethod
    def select(self, state: StateT, seen: Seen) -> tuple[Tensor, StateT]:
        """Weights in [0, 1] (or bool), shaped like ``seen.loss``, and the next state.

        Pure, without reading values back, boolean indexing or branches on data; reduces the last
        axis only, and that of the answers. What does not count is weighted 0 by the caller, and the
        next state is dropped during warm-up and where nothing counts, so no method needs to care for
        either. Of a table, the next state holds the entries of this batch only, (..., B, ...).
        """

    def believed(self, state: StateT, seen: Seen, weights: Tensor) -> Tensor:
        """How far each given label is believed, in [0, 1] (or bool): the weights, unless the method relabels.

        ``state`` is that before the step. What is not believed counts as wrong in the estimate of the noise ratio.
        """
        return weights

    def refresh(self, state: StateT, epoch: int, swept: Tensor | None) -> StateT:
        """State at the beginning of an epoch, from 0, once warm-up is over.

        ``swept`` is for methods that sweep: the losses of all rows on the labels given, (..., rows), or their
        features, (..., rows, size). Unlike in a step, values may be read back and time is no concern.
        """
        return state

    def age(self, epoch: int) -> int:
        """How many epochs old the network is; a loop gives it new weights, and the first learning rate, at 0."""
        return epoch

    def cut(self, state: StateT) -> Tensor | None:
        """The loss up to which samples of the last batch were kept, where the method has such a number."""
        return None


def answers(method: Selector[StateT] | type[Selector[StateT]]) -> int:
    """How many answers to a sample a method sees: one of each network, to each view."""
    return method.networks * method.views


def rows_of(table: Tensor, rows: Tensor) -> Tensor:
    """Entries of a table (..., N, *) at ``rows`` (..., B): (..., B, *)."""
    inner = table.dim() - rows.dim()
    index = rows.view(*rows.shape, *[1] * inner).expand(*rows.shape, *table.shape[rows.dim() :])
    return held(table.gather(rows.dim() - 1, index))


def put_rows(table: Tensor, rows: Tensor, entries: Tensor) -> None:
    """Write entries (..., B, *) into a table (..., N, *) at ``rows`` (..., B), in place."""
    runs = [  # not scatter_, for which vmap has no rule
        torch.arange(number, device=rows.device).view(-1, *[1] * (rows.dim() - 1 - axis))
        for axis, number in enumerate(rows.shape[:-1])
    ]
    table.index_put_((*runs, rows), entries)


def each_run(parameter: float | Tensor, axes: int = 1) -> float | Tensor:
    """A real parameter for use on (..., B), or with more ``axes`` behind the runs: it may have a number for each."""
    return parameter.reshape(parameter.shape + (1,) * axes) if isinstance(parameter, Tensor) else parameter
