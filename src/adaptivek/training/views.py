"""Two views of each image: the averaged network judges the weak one, the network learns from the strong one."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backend.checks import check_number
from ..criterion import Selection
from ..step import HALF, Loss
from .distortions import CHANCES, strong_view
from .ema import EMA
from .mixup import draw_share, mix


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
    >>> views.average(test_images)  # the network to use afterwards

    It costs a forward pass more than plain training, and is worth twice the epochs.

    Args:
        model: gives logits (batch, classes) for images; on its device.
        criterion: with a method that weighs or relabels, such as the default.
        decay: of the averaged weights, in [0, 1).
        alpha: of mixup; 0 mixes nothing.
        changes: how many distortions of an image, see `strong_view`.
        consistency: how much the prediction of the weak view counts as a target beside what the criterion makes of the
            label, at least 0.
        balance: how much it counts that classes are predicted as often as they are observed in a batch, at least 0.
    """

    def __init__(
        self,
        model: nn.Module,
        criterion: Selection,
        *,
        decay: float = 0.99,
        alpha: float = 1.0,
        changes: int = 2,
        consistency: float = 0.0,
        balance: float = 0.0,
    ) -> None:
        check_number("StrongViews", "decay", decay, 0, 1, open_high=True)
        check_number("StrongViews", "alpha", alpha, 0)
        check_number("StrongViews", "changes", changes, 0, whole=True)
        check_number("StrongViews", "consistency", consistency, 0)
        check_number("StrongViews", "balance", balance, 0)
        self.model, self.criterion = model, criterion
        self.alpha, self.changes, self.consistency, self.balance = alpha, changes, consistency, balance
        self.average = copy.deepcopy(model).requires_grad_(False).eval()
        self._ema = EMA(model.parameters(), decay)
        for mine, mean in zip(self.average.parameters(), self._ema.means, strict=True):
            mine.data = mean  # the same memory: what is averaged is in use at once
        self.targets: Tensor | None = None  #: (B, classes) what was learned from the last batch, before it was mixed

    def __call__(self, images: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss to minimise."""
        if images.dim() != 4 or not images.is_floating_point():
            raise ValueError(
                "StrongViews: images must be real numbers (batch, channels, height, width), got "
                f"{images.dtype} {tuple(images.shape)}"
            )
        judged = self._judged(images)
        targets, weights = self.criterion.judge(judged, labels, index)
        if self.consistency:
            toward = judged.float().softmax(-1)
            targets = targets.lerp(toward.to(targets.dtype), self.consistency / (1 + self.consistency))
        self.targets = targets
        chances = torch.rand(len(images), CHANCES, device=images.device)
        strong, wanted = strong_view(images, chances, self.changes), weights.unsqueeze(-1) * targets
        if self.alpha:
            # drawn where it is used: nothing waits for the device
            partners, share = torch.randperm(len(images), device=images.device), draw_share(self.alpha)
            strong, wanted = mix(strong, partners, share), mix(wanted, partners, share)
        output = self.model(strong)
        log_probs = F.log_softmax(output.float() if output.dtype in HALF else output, -1)
        options = Loss(self.criterion.weight, self.criterion.label_smoothing)
        total = weights.sum()
        loss = options.of(log_probs, wanted).sum() / (total + (total == 0))
        return loss + self.balance * imbalance(log_probs, labels) if self.balance else loss

    def update(self) -> None:
        """To be called after each step of the optimiser."""
        self._ema.update()

    @torch.no_grad()
    def _judged(self, images: Tensor) -> Tensor:
        """Logits of the averaged network, without dropout; its batch statistics are those of weak views."""
        self.average.eval()
        for module in self.average.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.train()
        judged: Tensor = self.average(images)
        self.average.eval()
        return judged

    def restart(self) -> None:
        """Forget the averaged weights, for a model that has got fresh ones. What the criterion remembers stays."""
        self._ema.restart()

    def state_dict(self) -> dict[str, Any]:
        """The averaged network; those of model and criterion are their own."""
        return {"ema": self._ema.state_dict(), "buffers": dict(self.average.named_buffers())}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._ema.load_state_dict(state["ema"])
        for name, value in self.average.named_buffers():
            value.copy_(state["buffers"][name])


def imbalance(log_probs: Tensor, labels: Tensor) -> Tensor:
    """How far the mean prediction is from the shares of the labels: Kullback and Leibler's divergence."""
    shares = F.one_hot(labels.clamp(min=0), log_probs.shape[-1]).to(log_probs.dtype).mean(0)
    found = log_probs.exp().mean(0)
    divergence: Tensor = (torch.special.xlogy(shares, shares) - shares * found.clamp(min=1e-8).log()).sum()
    return divergence
