"""The nouns of a selection method: what it sees, what it remembers, what it must provide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, NamedTuple, TypeVar

from torch import Tensor


class Seen(NamedTuple):
    """One mini-batch as a method sees it. Leading axes, if any, are separate runs."""

    loss: Tensor  #: (..., B) float32, detached; 0 where an entry does not count
    counts: Tensor  #: (..., B) bool: finite and not masked out
    number: Tensor  #: (...,) how many count; never 0 in a state that is kept
    rows: Tensor | None = None  #: (..., B) row numbers in the training set


class Task(NamedTuple):
    """What a method may know before training starts."""

    clean: Tensor | None = None  #: (rows,) bool, which labels are right; filled for privileged methods only


class Stateless(NamedTuple):
    """State of a method that remembers nothing."""


#: a NamedTuple of tensors
StateT = TypeVar("StateT", bound=tuple[Tensor, ...])


class Selector(ABC, Generic[StateT]):
    """Decides how much each sample of a mini-batch weighs.

    Subclasses are frozen dataclasses: their fields are the method's parameters, checked when it is
    built. They hold no tensors and no progress; that is the state, which goes in and comes out.
    """

    name: ClassVar[str]  #: as users type it
    summary: ClassVar[str]  #: one line for the listing
    paper: ClassVar[str]  #: where it comes from
    wants_warmup: ClassVar[bool] = False  #: meant to start after some plain training
    needs_rows: ClassVar[bool] = False  #: must be told the row number of each sample
    privileged: ClassVar[bool] = False  #: knows which labels are wrong (an upper bound, never a method to ship)

    @abstractmethod
    def init(self, task: Task) -> StateT:
        """State before the first batch that is selected from."""

    @abstractmethod
    def select(self, state: StateT, seen: Seen) -> tuple[Tensor, StateT]:
        """Weights in [0, 1] (or bool), shaped like ``seen.loss``, and the next state.

        Pure, without reading values back, boolean indexing or branches on data; reduces the last
        axis only. What does not count is weighted 0 by the caller, and the next state is dropped
        during warm-up and where nothing counts, so no method needs to care for either.
        """

    def cut(self, state: StateT) -> Tensor | None:
        """The loss up to which samples of the last batch were kept, where the method has such a number."""
        return None
