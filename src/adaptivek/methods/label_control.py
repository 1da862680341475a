"""Label control: a few rows are held out, and labels count while they teach and as far as they are not memorised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_number
from ..method import Batch, Decision, Method, Task, observed, of_label
from .confusion import labelled
from .held_out import UNSEEN, entropy, follow, held_out, learned, learned_out, no_trend
from .label_memory import TINY, LabelMemoryState, no_memory, weigh

MEMORISED = 0.03  # labels learned are predicted so much more often than those held out: then they count for 1/e
SURELY = 0.5  # standard errors by which that difference must be more than nothing
LARGE = 0.05  # by that much more, and a label may be taken for memorised even while labels teach
ENOUGH = 4  # rows of each kind to compare
RECENT = 0.5  # epochs that are looked back on
RAREST = 0.01  # least share of a class, as a part of what it would be if all were as common
PACE = 3.0  # times an epoch: how fast that is acted upon


class LabelControlState(NamedTuple):
    predictions: Tensor  #: these three are label memory's
    confusion: Tensor
    horizon: Tensor
    surprise: Tensor  #: (rows,) of each control at its last visit
    trend: Tensor  #: of that, see `held_out`
    begun: Tensor  #: (2,) how surely labels teach no more, the most so far: probably, and for certain
    shares: Tensor  #: (2, classes) mean of the remembered predictions of late, and of their squares, times the classes
    agreement: Tensor  #: (2, 2) labels predicted of late, and all of them: of rows learned from, and of controls


@dataclass(frozen=True)
class LabelControl(Method[LabelControlState]):
    """Plain training while labels teach; then label memory, and no label counts further than it is not memorised.

    A sixteenth of the rows, 1,024 at most, are controls: their labels are never learned. As long as these become less
    surprising, labels are learned as they are. Once they do not, label memory begins to replace labels; and as far as
    labels that were learned are predicted more often than those of the controls, each row learns its remembered
    predictions, squared, in place of its label, and so do the controls. It needs row numbers for that; without them it
    is label memory.

    Args:
        beta: how slowly the memory moves, in [0, 1); it moves once a visit, so once an epoch.
        wait: standard errors by which labels of controls must be more surprising than a visit before, at least 0; for
            what is memorised to be replaced, half as many. At 0 there is no waiting: for networks of which you know
            that they learn in an epoch or two and memorise in the next.
    """

    beta: float = 0.5
    wait: float = 1.0

    name: ClassVar[str] = "label-control"
    summary: ClassVar[str] = "holds a few rows out, and learns from labels while they teach and are not memorised"
    paper: ClassVar[str] = "this library"
    revision: ClassVar[int] = 2
    needs_classes: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True
    uses_rows: ClassVar[bool] = True
    takes_start: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("predictions", "surprise")

    def __post_init__(self) -> None:
        check_number("LabelControl", "beta", self.beta, 0, 1, open_high=True)
        check_number("LabelControl", "wait", self.wait, 0)

    def init(self, task: Task) -> LabelControlState:
        shares, agreement = torch.ones(2, task.classes or 0), torch.zeros(2, 2)
        surprise, begun = task.per_row(UNSEEN), torch.full((2,), float(self.wait == 0))
        return LabelControlState(*no_memory(task), surprise, no_trend(), begun, shares, agreement)

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
        control = held_out(batch.rows, state.horizon)
        probably, certainly = state.begun.unbind()
        much, very_much = memorised(state.agreement), memorised(state.agreement, LARGE)
        from_memory = again * torch.maximum(probably * much, very_much)
        label = observed(batch)
        targets = label + certainly * (decision.targets - label)
        replaced = torch.where(control, 1.0, from_memory).unsqueeze(-1)
        believed = 1 + certainly * (decision.confidence - 1)

        epoch = (batch.n_valid / state.horizon).clamp(max=1)
        trend, surprise = follow(state.trend, state.surprise, batch.loss, control & batch.valid, epoch)
        chance = entropy(labelled(decision.update["confusion"]))
        compared = torch.stack([~control, control]) & again & batch.valid
        agree = compared & (batch.logits.argmax(-1) == batch.labels)
        of_late = (epoch / RECENT).clamp(max=1)
        both = torch.stack([remembered, squared]) * batch.valid.unsqueeze(-1)
        means = (both.sum(-2) / batch.n_valid.clamp(min=1) * both.shape[-1]).clamp(RAREST).to(state.shares.dtype)
        return Decision(
            torch.where(control, from_memory, 1.0) * batch.valid,
            {
                **decision.update,
                "surprise": surprise,
                "trend": trend,
                "begun": begin(state.begun, says(trend, state.horizon, chance, self.wait), epoch),
                "shares": state.shares + (2 * of_late).clamp(max=1) * (means - state.shares),
                "agreement": (1 - of_late) * state.agreement + torch.stack([agree.sum(-1), compared.sum(-1)]),
            },
            targets=targets + replaced * (sharp - targets),
            confidence=believed + from_memory * (of_label(sharp, batch) - believed),
        )


def says(trend: Tensor, rows: Tensor, chance: Tensor, wait: float) -> Tensor:
    """What the controls say, (2,): how surely labels teach no more, probably and for certain, see `learned_out`."""
    probably, certainly = (learned_out(trend, rows, chance, wait * part) for part in (0.5, 1.0))
    # a network that has learned nothing has nothing to relabel by
    return torch.stack([probably, certainly * learned(trend, chance)])


def begin(begun: Tensor, said: Tensor, share: Tensor) -> Tensor:
    """Towards what is said, by a batch that is this share of an epoch.

    Not at once, so that a moment's chance is not enough. Never back: once predictions are learned, held-out labels
    surprise for other reasons.
    """
    return begun + (PACE * share).clamp(max=1) * (said - begun).clamp(min=0)


def memorised(agreement: Tensor, slack: float = 0.0) -> Tensor:
    """How far labels are memorised, 0 to 1: by how much more often, beyond ``slack``, those are predicted that were
    learned."""
    number = agreement[1].clamp(min=1)
    learned, held = (agreement[0] / number).unbind()
    error = (held * (1 - held) / number[1]).clamp(min=0).sqrt()
    more = (learned - held - slack - SURELY * error).clamp(min=0)
    return torch.where(agreement[1].amin() >= ENOUGH, 1 - torch.exp(-more / MEMORISED), 0.0)


def normalised(shares: Tensor) -> Tensor:
    return shares / shares.sum(-1, keepdim=True)
