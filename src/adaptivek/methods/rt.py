"""R(t): keep the smallest-loss share of each batch, a share that falls as epochs go by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from ..backend.checks import check_choice, check_number
from ..method import Batch, Decision, Method, Task
from .mkl import smallest_share


class Share(NamedTuple):
    share: Tensor  #: of each batch that is kept in this epoch


@dataclass(frozen=True)
class RT(Method[Share]):
    """Keep the smallest losses: everything at first, ``keep`` from epoch ``ramp`` on, when memorising sets in.

    With x = epoch / ramp, at most 1, the share is ``1 - (1 - keep) * shape(x)``, and from then on it moves by
    ``late`` per further ``ramp`` epochs. :func:`adaptivek.search.search_rt` searches for a good curve.

    Args:
        keep: share to come down to, in (0, 1]. The right value is about one minus the noise ratio.
        ramp: epochs until then.
        curve: the shape: ``"power"`` x^power, ``"exp"`` (1 - e^(-power x)) / (1 - e^(-power)), ``"log"``
            log(1 + power x) / log(1 + power).
        power: how bent it is, above 0; 1 with ``"power"`` is Co-teaching's straight line.
        late: change of the share once it is down, in [-1, 1]; above 0 more is let in again.
    """

    keep: float = 0.6
    ramp: int = 10
    curve: Literal["power", "exp", "log"] = "power"
    power: float = 1.0
    late: float = 0.0

    name: ClassVar[str] = "rt"
    summary: ClassVar[str] = "keeps the smallest losses of each batch, a share that falls over the epochs"
    paper: ClassVar[str] = "Han et al. 2018; Yao et al. 2020"
    clean_share: ClassVar[str] = "keep"
    needs_epochs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("RT", "keep", self.keep, 0, 1, open_low=True)
        check_number("RT", "ramp", self.ramp, 1, whole=True)
        check_choice("RT", "curve", self.curve, ("power", "exp", "log"))
        check_number("RT", "power", self.power, 0, open_low=True)
        check_number("RT", "late", self.late, -1, 1)

    def init(self, task: Task) -> Share:
        return Share(torch.ones(()))

    def start_epoch(self, state: Share, epoch: int, full_pass: Tensor | None) -> Share:
        x = min(epoch / self.ramp, 1.0)
        if self.curve == "exp":
            shape = math.expm1(-self.power * x) / math.expm1(-self.power)
        elif self.curve == "log":
            shape = math.log1p(self.power * x) / math.log1p(self.power)
        else:
            shape = x**self.power
        share = 1 - (1 - self.keep) * shape + self.late * max(epoch / self.ramp - 1, 0.0)
        return Share(torch.full_like(state.share, min(max(share, 0.0), 1.0)))

    def step(self, state: Share, batch: Batch) -> Decision:
        return Decision(smallest_share(batch.loss, batch, state.share))
