"""Two views of each image: the averaged network judges the weak one, the network learns from the strong one."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backend.checks import check_judges, check_number
from ..criterion import Selection
from ..step import HALF, Loss
from .distortions import CHANCES, strong_view
from .ema import EMA
from .mixup import draw_share, mix

ALPHA = 1.0  #: of mixup, unless told: any share alike


class StrongViews:
    """The loss of a batch of images, judged by their weak view and learned from their strong one.

    The weak view is the batch as your loader gives it, shifted and mirrored if that suits the images. The strong view
    is that distorted at random, see `strong_view`, and mixed in pairs. What is learned from a row is what the criterion
    makes of its label, given what the averaged network predicts of the weak view. So no network is ever asked about
    what it learns from as it learns it, and labels are harder to memorise.

    >>> views = StrongViews(model, Selection(rows=len(train_set), classes=10))
    >>> for images, labels, index in loader:
    ...     optimizer.zero_grad()
    ...     views(images, labels, index).backward()
    ...     optimizer.step()
    ...     views.update()

    It costs a forward pass more than plain training, and is worth twice the epochs. After a learning rate that ends
    near 0 ``model`` is the network to use; before that ``views.average`` is better.

    Args:
        model: gives logits (batch, classes) for images; on its device.
        criterion: with a method that weighs or relabels, such as the default.
        decay: of the averaged weights, in [0, 1).
        alpha: of mixup; 0 mixes nothing.
        changes: how many distortions of an image, see `strong_view`.
    """

    def __init__(
        self, model: nn.Module, criterion: Selection, *, decay: float = 0.99, alpha: float = ALPHA, changes: int = 2
    ) -> None:
        check_judges("StrongViews", "criterion", criterion.method, criterion.loss)
        check_number("StrongViews", "decay", decay, 0, 1, open_high=True)
        check_number("StrongViews", "alpha", alpha, 0)
        check_number("StrongViews", "changes", changes, 0, whole=True)
        self.model, self.criterion, self.alpha, self.changes = model, criterion, alpha, changes
        #: the averaged network
        self.average = copy.deepcopy(model).requires_grad_(False).eval()
        self._ema = EMA(model.parameters(), decay)
        for mine, mean in zip(self.average.parameters(), self._ema.means, strict=True):
            mine.data = mean  # the same memory: what is averaged is in use at once
        self.weak_logits: Tensor | None = None  #: (B, classes) its logits of the last batch
        self.targets: Tensor | None = None  #: (B, classes) what was learned from that, before it was mixed

    def __call__(self, images: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss to minimise."""
        number, device = len(images), images.device  # drawn where it is used: nothing waits for the device
        chances = torch.rand(number, CHANCES, device=device)
        if not self.alpha:
            return self.loss(images, labels, index, chances)
        return self.loss(images, labels, index, chances, torch.randperm(number, device=device), draw_share(self.alpha))

    def loss(
        self,
        images: Tensor,
        labels: Tensor,
        index: Tensor | None,
        chances: Tensor,
        partners: Tensor | None = None,
        share: Tensor | float = 1.0,
    ) -> Tensor:
        """The same with all that is random given: (B, `CHANCES`) of `strong_view`, partner and share of `mix`."""
        if images.dim() != 4 or not images.is_floating_point():
            raise ValueError(
                "StrongViews: images must be real numbers (batch, channels, height, width), got "
                f"{images.dtype} {tuple(images.shape)}"
            )
        with torch.no_grad():
            self.weak_logits = self.average.eval()(images)
        self.targets, weights = self.criterion.judge(self.weak_logits, labels, index)
        strong, wanted = strong_view(images, chances, self.changes), weights.unsqueeze(-1) * self.targets
        if partners is not None:
            strong, wanted = mix(strong, partners, share), mix(wanted, partners, share)
        output = self.model(strong)
        log_probs = F.log_softmax(output.float() if output.dtype in HALF else output, -1)
        options, total = Loss(self.criterion.weight, self.criterion.label_smoothing), weights.sum()
        return options.of(log_probs, wanted).sum() / (total + (total == 0))

    @torch.no_grad()
    def update(self) -> None:
        """To be called after each step of the optimiser."""
        self._ema.update()
        for mine, its in zip(self.average.buffers(), self.model.buffers(), strict=True):
            mine.copy_(its)  # batch statistics are the network's own

    def state_dict(self) -> dict[str, Any]:
        """The averaged network; those of model and criterion are their own."""
        return {"ema": self._ema.state_dict(), "buffers": dict(self.average.named_buffers())}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._ema.load_state_dict(state["ema"])
        for name, value in self.average.named_buffers():
            value.copy_(state["buffers"][name])
