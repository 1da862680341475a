"""Lightning: a callback for modules that hold a `Selection`.

No hook of Lightning sees losses per sample, so the criterion is called in ``training_step``. As an attribute
of the module it moves with it and is saved and restored with every checkpoint of the trainer.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from ..criterion import Selection
from ..training.accumulation import Accumulation
from ..training.history import metrics

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError:
    raise ImportError("adaptivek.integrations.lightning needs Lightning: pip install 'adaptivek[lightning]'") from None


class SelectionCallback(Callback):
    """Logs noise ratio, kept share and threshold, and makes accumulated gradients the mean over what was kept.

    >>> trainer = Trainer(callbacks=[SelectionCallback()])

    Noise ratio and threshold are NaN until warm-up is over. With ``accumulate_grad_batches`` each micro-batch is judged
    by itself and the step is divided once by all that was kept in its window.
    """

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            _criterion(pl_module)  # or an error, before anything else runs

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._accumulate = Accumulation(_criterion(pl_module), pl_module.parameters())

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        criterion, epoch = self._accumulate.criterion, trainer.current_epoch
        # not again where a checkpoint goes on in mid-epoch; a full pass is the module's to make
        if (
            criterion.method.needs_epochs
            and not criterion.method.full_pass
            and int(criterion.memory.tally.epoch) != epoch
        ):
            criterion.start_epoch(epoch)

    def on_before_zero_grad(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        self._accumulate.start()

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        batches = trainer.accumulate_grad_batches
        if batches > 1:
            factor = self._accumulate.share() * batches  # Lightning has divided the loss by their number
            loss.register_hook(lambda gradient: gradient * factor)  # type: ignore[no-untyped-call]

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.log_dict(metrics(self._accumulate.criterion))  # tensors: nothing waits for the device until a logger looks


def _criterion(module: LightningModule) -> Selection:
    found = [part for part in module.modules() if isinstance(part, Selection)]
    if len(found) != 1:
        raise ValueError(
            f"SelectionCallback: {type(module).__name__} must have one Selection as an attribute, "
            f"self.criterion = Selection(...), got {len(found)}"
        )
    return found[0]
