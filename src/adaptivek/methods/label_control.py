"""Label control: a few rows are held out, and labels count as far as the others do not memorise them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task, of_label
from .label_memory import TINY, LabelMemoryState, no_memory, weigh

CONTROLS = 512  # rows that are held out, which tell an agreement to about two points
LARGEST = 1 / 16  # share of all rows that they are at most
MEMORISED = 0.03  # labels learned are predicted so much more often than those held out: then they count for 1/e
SURELY = 0.5  # standard errors by which that difference must be more than nothing
ENOUGH = 4  # rows of each kind to compare
RECENT = 0.5  # epochs that are looked back on
RAREST = 0.01  # least share of a class, as a part of what it would be if all were as common


class LabelControlState(NamedTuple):
    predictions: Tensor  #: these three are label memory's
    confusion: Tensor
    horizon: Tensor
    shares: Tensor  #: (2, classes) mean of the remembered predictions of late, and of their squares, times the classes
    agreement: Tensor  #: (2, 2) labels predicted of late, and all of them: of rows learned from, and of controls


@dataclass(frozen=True)
class LabelControl(Method[LabelControlState]):
    """Label memory with a control group: as far as labels are memorised, remembered predictions are learned instead.

    A sixteenth of the rows, 512 at most, are controls: their labels are never learned. If labels that were learned are
    predicted more often than theirs, labels are being memorised, noisy ones too. By as much as that, each row learns
    its remembered predictions, squared, in place of its label, and so do the controls. It needs row numbers for that;
    without them it is label memory.

    Args:
        beta: how slowly the memory moves, in [0, 1); it moves once a visit, so once an epoch.
    """

    beta: float = 0.5

    name: ClassVar[str] = "label-control"
    summary: ClassVar[str] = "holds a few rows out, and learns from labels as far as they are not memorised"
    paper: ClassVar[str] = "this library"
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    uses_rows: ClassVar[bool] = True
    takes_start: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("predictions",)

    def __post_init__(self) -> None:
        check_number("LabelControl", "beta", self.beta, 0, 1, open_high=True)

    def init(self, task: Task) -> LabelControlState:
        return LabelControlState(*no_memory(task), torch.ones(2, task.classes or 0), torch.zeros(2, 2))

    def step(self, state: LabelControlState, batch: Batch) -> Decision:
        decision = weigh(LabelMemoryState(*state[:3]), batch, self.beta, caution=0.0)
        if batch.rows is None or state.predictions is None:
            return decision
        assert batch.logits is not None
        assert decision.update is not None
        assert decision.targets is not None
        assert decision.confidence is not None
        predictions = decision.update["predictions"]
        remembered = normalised(predictions)
        squared, again = normalised(remembered.clamp(TINY).square()), state.predictions.sum(-1) > 0
        # with the class shares that they had: else a class is lost to a more common one
        sharp = normalised(squared * (state.shares[0] / state.shares[1]))
        control = controls(batch.rows, state.horizon)
        from_memory = again * memorised(state.agreement)
        replaced = torch.where(control, 1.0, from_memory)

        compared = torch.stack([~control, control]) & again & batch.valid
        agree = compared & (batch.logits.argmax(-1) == batch.labels)
        of_late = (batch.n_valid / (RECENT * state.horizon)).clamp(max=1)
        both = torch.stack([remembered, squared]) * batch.valid.unsqueeze(-1)
        means = (both.sum(-2) / batch.n_valid.clamp(min=1) * both.shape[-1]).clamp(RAREST).to(state.shares.dtype)
        return Decision(
            torch.where(control, from_memory, 1.0) * batch.valid,
            {
                **decision.update,
                "shares": state.shares + (2 * of_late).clamp(max=1) * (means - state.shares),
                "agreement": (1 - of_late) * state.agreement + torch.stack([agree.sum(-1), compared.sum(-1)]),
            },
            targets=decision.targets + replaced.unsqueeze(-1) * (sharp - decision.targets),
            confidence=decision.confidence + from_memory * (of_label(sharp, batch) - decision.confidence),
        )


def controls(rows: Tensor, number: Tensor) -> Tensor:
    """Which rows are held out, (B,) bool: always the same, spread evenly over the data set."""
    share = (CONTROLS / number).clamp(max=LARGEST)
    return rows * 40503 % 2**16 < share * 2**16  # times 2^16 over the golden ratio: Knuth's multiplicative hash


def memorised(agreement: Tensor) -> Tensor:
    """How far labels are memorised, 0 to 1: by how much more often those are predicted that were learned."""
    number = agreement[1].clamp(min=1)
    learned, held = (agreement[0] / number).unbind()
    error = (held * (1 - held) / number[1]).clamp(min=0).sqrt()
    more = (learned - held - SURELY * error).clamp(min=0)
    return torch.where(agreement[1].amin() >= ENOUGH, 1 - torch.exp(-more / MEMORISED), 0.0)


def normalised(shares: Tensor) -> Tensor:
    return shares / shares.sum(-1, keepdim=True)
