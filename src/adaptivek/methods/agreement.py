"""Agreement: after warm-up, learn only where the prediction is the observed label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..method import Batch, Decision, Method, NoState, Task


@dataclass(frozen=True)
class Agreement(Method[NoState]):
    """Keep a sample if the class that the network predicts for it is its label.

    To be used after warm-up that ends before noisy labels are memorised.
    """

    name: ClassVar[str] = "agreement"
    summary: ClassVar[str] = "plain training first, then keeps samples whose label is the predicted class"
    paper: ClassVar[str] = "Nguyen et al. 2020; Bai et al. 2021"
    wants_warmup: ClassVar[bool] = True
    needs_logits: ClassVar[bool] = True

    def init(self, task: Task) -> NoState:
        return NoState()

    def step(self, state: NoState, batch: Batch) -> Decision:
        assert batch.logits is not None
        assert batch.labels is not None
        return Decision(batch.logits.argmax(-1) == batch.labels)
