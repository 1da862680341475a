"""Lightning on digits with 40 % noisy labels: plain training, then the same with one line changed."""

import logging
import sys
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from adaptivek import Selection
from adaptivek.experiments.data import load
from adaptivek.integrations.lightning import SelectionCallback
from adaptivek.noise import Directed, corrupt

torch.set_num_threads(1)  # the network is too small to share
warnings.filterwarnings("ignore", module="lightning")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 40

data = load("digits")
labels, _ = corrupt(data.y, Directed(0.4), classes=10, seed=0)


class Digits(L.LightningModule):
    def __init__(self, criterion: nn.Module) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Dropout(), nn.Linear(256, 10))
        self.criterion = criterion  # as an attribute it is saved in every checkpoint

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        x, y = batch
        return self.criterion(self.net(x), y)

    def configure_optimizers(self) -> dict[str, object]:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 15, 0.2)}


def train(criterion: nn.Module, callbacks: list[L.Callback]) -> float:
    L.seed_everything(0, verbose=False)
    model = Digits(criterion)
    trainer = L.Trainer(
        max_epochs=epochs,
        callbacks=callbacks,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(TensorDataset(data.x, labels), batch_size=20, shuffle=True, drop_last=True))
    with torch.no_grad():
        return (model.eval().net(data.x_test).argmax(1) == data.y_test).float().mean().item()


print(f"vanilla     test accuracy {train(nn.CrossEntropyLoss(), []):.3f}")
criterion = Selection(classes=10)  # the change
accuracy = train(criterion, [SelectionCallback()])
print(f"selection   test accuracy {accuracy:.3f}, noise found {criterion.noise_ratio:.3f}")
