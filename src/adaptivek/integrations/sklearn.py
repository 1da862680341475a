"""scikit-learn: a classifier for tables with noisy labels."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from ..auditing.held_out import folds
from ..backend.checks import check_number
from ..criterion import Selection
from ..method import Method, trains_plainly
from ..methods import build
from ..step import cross_entropy

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ImportError("adaptivek.integrations.sklearn needs scikit-learn: pip install 'adaptivek[sklearn]'") from None


class NoisyLabelClassifier(ClassifierMixin, BaseEstimator):
    """A neural network that is robust to noisy labels, by any method with one network.

    Features should be of like size: put a ``StandardScaler`` before it.

    Args:
        method: a method such as ``AdaptiveK()``, or its name, with parameters if need be. The default
            remembers predictions of few epochs, as there are few.
        hidden: widths of the hidden layers.
        dropout: share of hidden units left out at random while training.
        module: gives a network from ``(features, classes)``, in place of the one with ``hidden`` layers.
        stages: 2 to train twice: first two networks on half of the rows each, then one on all of them, whose memory
            begins with what those predict for the rows that they have not seen. For methods with such a memory.
        epochs: times that all rows are seen.
        warmup_epochs: of these, plain training; for methods that want it. The learning rate then falls to
            a fifth, with which selection should start.
        batch_size: rows in a step.
        learning_rate: of stochastic gradient descent.
        device: where to compute.
        random_state: decides all that is random.

    Attributes:
        classes_: the labels that there are.
        n_features_in_: columns of X.
        feature_names_in_: their names, where X has names.
        noise_ratio_: share of the labels found noisy in the last epochs.
        label_quality_: (rows,) how well each label fits, from 0 (suspicious) to 1: the probability of the
            observed label, averaged over the epochs after warm-up.
        module_: the trained network.
        n_iter_: epochs done.
    """

    def __init__(
        self,
        method: Method[Any] | str = "label-memory:beta=0.5",
        *,
        hidden: tuple[int, ...] = (256,),
        dropout: float = 0.5,
        module: Callable[[int, int], nn.Module] | None = None,
        stages: int = 1,
        epochs: int = 40,
        warmup_epochs: int = 15,
        batch_size: int = 20,
        learning_rate: float = 0.05,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.method = method
        self.hidden = hidden
        self.dropout = dropout
        self.module = module
        self.stages = stages
        self.epochs = epochs
        self.warmup_epochs = warmup_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> NoisyLabelClassifier:  # noqa: N803
        """Train on rows ``X`` (samples, features) with labels ``y``, of which some may be noisy."""
        method = self._check()
        X, y = validate_data(self, X, y, dtype=np.float32)  # noqa: N806
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        seed = int(check_random_state(self.random_state).randint(2**31))
        gpus = [] if self.device == "cpu" else [self.device]
        with torch.random.fork_rng(gpus):  # the caller's randomness is left alone
            torch.manual_seed(seed)
            x, labels = torch.tensor(X, device=self.device), torch.tensor(codes, device=self.device)
            start = self._cross_train(method, x, codes, seed) if self.stages == 2 else None
            self._train(method, x, labels, start)
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """(samples, classes) probabilities, in the order of ``classes_``."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)  # noqa: N806
        # in double: a prediction must not depend on the rows beside it, as in single precision it does a little
        module = copy.deepcopy(self.module_).double().eval()
        with torch.no_grad():
            logits = [module(rows) for rows in torch.split(torch.tensor(X, device=self.device), 4096)]
        found: NDArray[np.float64] = torch.cat(logits).softmax(1).cpu().numpy()
        return found

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        found: NDArray[Any] = self.classes_[probabilities.argmax(1)]
        return found

    def _cross_train(self, method: Method[Any], x: Tensor, codes: NDArray[np.int64], seed: int) -> Tensor:
        """Predictions of all rows, each by the network that has not seen it; averaged over the later epochs."""
        found = torch.zeros(len(x), len(self.classes_), device=x.device)
        halves = [torch.from_numpy(half).to(x.device) for half in folds(codes, 2, seed, "audit halves")]
        for mine, other in (halves, halves[::-1]):
            y = torch.from_numpy(codes).to(x.device)[mine]
            predicted = self._train(method, x[mine], y, None, x[other])
            assert predicted is not None
            found[other] = predicted
        return found

    def _train(
        self, method: Method[Any], x: Tensor, y: Tensor, start: Tensor | None, other: Tensor | None = None
    ) -> Tensor | None:
        """Train on these rows; give the average prediction of ``other`` rows over the later half of the epochs."""
        features, classes, rows = x.shape[1], len(self.classes_), len(x)
        steps = -(-rows // self.batch_size)
        warmup = self.warmup_epochs if method.wants_warmup else 0
        make = self.module or self._layers
        model = self.module_ = make(features, classes).to(self.device)
        criterion = Selection(
            method, warmup=warmup * steps, window=steps, rows=rows, classes=classes, start=start, distributed=False
        ).to(x.device)
        predicted = None
        optimizer = torch.optim.SGD(model.parameters(), lr=self.learning_rate)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, max(self.warmup_epochs, 1), gamma=0.2)
        quality, counted = torch.zeros(rows, device=x.device), 0
        for epoch in range(self.epochs):
            criterion.start_epoch(epoch, _full_pass(model, x, y, method.full_pass) if method.full_pass else None)
            model.train()
            counted += epoch >= warmup
            for index in torch.split(torch.randperm(rows).to(x.device), self.batch_size):
                output, label = model(x[index]), y[index]
                optimizer.zero_grad()
                criterion(output, label, index).backward()
                optimizer.step()
                if epoch >= warmup:
                    quality[index] += output.detach().softmax(1).gather(1, label[:, None])[:, 0].nan_to_num(0.0)
            scheduler.step()
            if other is not None and epoch >= self.epochs // 2:
                now = _logits(model, other).softmax(1)
                predicted = now if predicted is None else predicted + (now - predicted) / (epoch + 1 - self.epochs // 2)
        self.noise_ratio_ = criterion.noise_ratio
        self.label_quality_ = (quality / max(counted, 1)).clamp(0, 1).cpu().numpy()
        self.n_iter_ = self.epochs
        return predicted

    def _layers(self, features: int, classes: int) -> nn.Module:
        widths = (features, *self.hidden)
        layers: list[nn.Module] = []
        for narrow, wide in pairwise(widths):
            layers += [nn.Linear(narrow, wide), nn.ReLU(), nn.Dropout(self.dropout)]
        return nn.Sequential(*layers, nn.Linear(widths[-1], classes))

    def _check(self) -> Method[Any]:
        owner = type(self).__name__
        check_number(owner, "epochs", self.epochs, 1, whole=True)
        check_number(owner, "stages", self.stages, 1, 2, whole=True)
        check_number(owner, "warmup_epochs", self.warmup_epochs, 0, whole=True)
        check_number(owner, "batch_size", self.batch_size, 1, whole=True)
        check_number(owner, "learning_rate", self.learning_rate, 0, open_low=True)
        check_number(owner, "dropout", self.dropout, 0, 1, open_high=True)
        for width in self.hidden:
            check_number(owner, "hidden", width, 1, whole=True)
        method = build(self.method) if isinstance(self.method, str) else self.method
        if not isinstance(method, Method) or method.privileged:
            raise ValueError(f"{owner}: method must be a method that needs no truth, or its name, got {self.method!r}")
        if not trains_plainly(method) or method.full_pass == "features":
            raise ValueError(
                f"{owner}: method must do with one network, trained plainly on one view, and no features of it, got "
                f"{self.method!r}"
            )
        if self.stages == 2 and not method.takes_start:
            raise ValueError(f"{owner}: method must remember predictions for stages=2, got {self.method!r}")
        return method


def _full_pass(model: nn.Module, x: Tensor, y: Tensor, wanted: str) -> Tensor:
    """The losses or logits of all rows."""
    logits = _logits(model, x)
    return cross_entropy(logits, y) if wanted == "losses" else logits


@torch.no_grad()
def _logits(model: nn.Module, x: Tensor) -> Tensor:
    model.eval()
    return torch.cat([model(rows) for rows in torch.split(x, 4096)])
