"""Lightning: the same run as the plain loop, logged, stopped and gone on."""

from __future__ import annotations

import math

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.plugins import MixedPrecision
from torch import nn
from torch.utils.data import DataLoader

import adaptivek
from adaptivek.integrations.lightning import SelectionCallback

from .tiny import (
    IN_FRAMEWORKS,
    ROWS,
    SIZE,
    STARTED,
    CountsEpochs,
    Net,
    Recorder,
    Rows,
    distance,
    make,
    optimizer,
    plain_loop,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:lightning"),  # its advice on workers, loggers and the like
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


class Module(LightningModule):
    def __init__(self, criterion: nn.Module) -> None:
        super().__init__()
        self.net, self.criterion = Net(), criterion

    def training_step(self, batch, _):
        return self.criterion(self.net(batch["x"])["logits"], batch["labels"], batch["index"])

    def configure_optimizers(self):
        return optimizer(self)


def trainer(epochs: int, **options) -> Trainer:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    ours = {"accelerator": "cpu", "logger": False, "callbacks": [SelectionCallback()]}
    return Trainer(max_epochs=epochs, **(quiet | ours | options))


def loader() -> DataLoader:
    return DataLoader(adaptivek.indexed(Rows()), batch_size=SIZE)


@pytest.mark.parametrize("text", [*IN_FRAMEWORKS, STARTED])
@pytest.mark.parametrize("window", [1, 4])  # six batches an epoch: the second window is shorter
def test_the_same_selections_and_weights_as_the_plain_loop(text, window):
    model, _, kept = plain_loop(text, epochs=3, window=window)
    module = Module(make(text))
    recorder = Recorder(module.criterion)
    trainer(3, accumulate_grad_batches=window).fit(module, loader())
    assert recorder.kept == kept
    assert recorder.partial or not recorder.criterion.method.leaves_out
    torch.testing.assert_close(list(module.net.parameters()), list(model.parameters()))


def test_mixed_precision_is_the_plain_loops():
    model, _, kept = plain_loop("adaptive-k", epochs=1, window=4, half=torch.bfloat16)
    module = Module(make("adaptive-k"))
    recorder = Recorder(module.criterion)
    trainer(1, accumulate_grad_batches=4, precision="bf16-mixed").fit(module, loader())
    assert recorder.kept == kept
    torch.testing.assert_close(list(module.net.parameters()), list(model.parameters()), rtol=0.01, atol=1e-3)


def half(scale: float, device: str) -> dict[str, object]:
    """Options for fp16 with a loss scaler that begins at ``scale``."""
    scaler = torch.amp.GradScaler(device, init_scale=scale)
    return {"plugins": [MixedPrecision("16-mixed", device, scaler)]}


@pytest.mark.parametrize("text", IN_FRAMEWORKS)
def test_in_fp16_it_learns_what_the_plain_loop_learns(text):
    """With a scale at which no step is skipped."""
    expected, _, _ = plain_loop(text, epochs=4, window=4)
    module = Module(make(text))
    trainer(4, accumulate_grad_batches=4, **half(1.0, "cpu")).fit(module, loader())
    assert distance(module.net, expected) < 0.02


def test_steps_that_a_loss_scaler_skips_are_judged_all_the_same():
    module, before = Module(make("adaptive-k")), Net()
    trainer(1, accumulate_grad_batches=4, **half(2.0**60, "cpu")).fit(module, loader())
    assert module.criterion.tally_step == ROWS // SIZE
    torch.testing.assert_close(list(module.net.parameters()), list(before.parameters()), rtol=0, atol=0)


@pytest.mark.gpu
@pytest.mark.parametrize("text", IN_FRAMEWORKS)
@pytest.mark.parametrize(("precision", "allowed"), [("32-true", 0.02), ("bf16-mixed", 0.2), ("16-mixed", 0.05)])
def test_on_a_gpu_it_learns_what_the_plain_loop_learns(text, precision, allowed):
    expected, _, _ = plain_loop(text, epochs=4, window=4)
    module, options = Module(make(text)), half(1.0, "cuda") if precision == "16-mixed" else {"precision": precision}
    trainer(4, accelerator="gpu", devices=1, accumulate_grad_batches=4, **options).fit(module, loader())
    assert module.criterion.tally_step == 4 * ROWS // SIZE
    assert distance(module.net, expected) < allowed


def test_gradients_are_clipped_as_they_should_be():
    """Clipping comes after the window is normalised: with its own mean loss the norm would be another."""
    seen = []

    class Watched(Module):
        def on_before_optimizer_step(self, _):
            seen.append(torch.cat([p.grad.flatten() for p in self.parameters()]).norm().item())

    trainer(1, accumulate_grad_batches=3, gradient_clip_val=0.01).fit(Watched(make("mkl", warmup=0)), loader())
    model, criterion, data = Net(), make("mkl", warmup=0), Rows()
    losses = [
        criterion.loss(model(x)["logits"], y) for x, y in zip(data.x.split(SIZE), data.y.split(SIZE), strict=True)
    ]
    kept = []
    for part in losses[:3]:
        criterion.reduce(part)
        kept.append(part[criterion.kept])
    torch.cat(kept).mean().backward()
    assert seen[0] == pytest.approx(torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item(), rel=1e-5)


def test_noise_ratio_kept_share_and_threshold_reach_the_logger(tmp_path):
    module = Module(make("adaptive-k", warmup=6))
    runner = trainer(2, logger=CSVLogger(tmp_path), log_every_n_steps=1)
    runner.fit(module, loader())
    header, *lines = (tmp_path / "lightning_logs/version_0/metrics.csv").read_text().splitlines()
    rows = [dict(zip(header.split(","), map(float, line.split(",")), strict=True)) for line in lines]
    assert len(rows) == 12
    assert all(math.isnan(row["noise_ratio"]) and row["kept_share"] == 1 for row in rows[:6])  # warm-up
    criterion = module.criterion
    assert rows[-1]["noise_ratio"] == pytest.approx(criterion.noise_ratio, rel=1e-5)
    assert rows[-1]["kept_share"] == pytest.approx(criterion.kept_share)
    assert rows[-1]["threshold"] == pytest.approx(criterion.threshold)
    assert 0 < criterion.noise_ratio < 1
    assert float(runner.callback_metrics["noise_ratio"]) == pytest.approx(criterion.noise_ratio)


class Placed:
    """A loader that knows its place in the epoch: what Lightning asks of one, to go on from there."""

    def __init__(self) -> None:
        self.start = self.place = 0

    def __len__(self) -> int:
        return ROWS // SIZE

    def __iter__(self):
        start, self.start = self.start, 0
        for self.place, batch in enumerate(loader(), 1):
            if self.place > start:
                yield batch

    def state_dict(self) -> dict[str, int]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.start = state["place"]


@pytest.mark.parametrize("text", IN_FRAMEWORKS)
def test_a_checkpoint_in_mid_epoch_brings_the_criterion_back(text, tmp_path):
    whole, second = Module(make(text)), Module(make(text))
    saving = ModelCheckpoint(
        tmp_path, filename="{step}", save_top_k=-1, every_n_train_steps=8
    )  # two batches into the second epoch
    trainer(3, callbacks=[SelectionCallback(), saving], enable_checkpointing=True).fit(whole, Placed())
    file = tmp_path / "step=8.ckpt"
    assert torch.load(file, weights_only=True)["state_dict"]["criterion.tally_step"] == 8
    trainer(3).fit(second, Placed(), ckpt_path=file, weights_only=True)
    assert second.criterion.tally_step == 3 * ROWS // SIZE
    for name, value in whole.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name


def test_methods_that_go_by_epochs_are_told_once_of_each(tmp_path):
    whole, second = (Module(adaptivek.Selection(CountsEpochs())) for _ in range(2))
    saving = ModelCheckpoint(tmp_path, filename="{step}", save_top_k=-1, every_n_train_steps=8)  # in mid-epoch
    trainer(3, callbacks=[SelectionCallback(), saving], enable_checkpointing=True).fit(whole, Placed())
    trainer(3).fit(second, Placed(), ckpt_path=tmp_path / "step=8.ckpt", weights_only=True)
    for module in (whole, second):
        assert (module.criterion.state_begun, module.criterion.tally_epoch) == (3, 2)


@pytest.mark.parametrize(
    ("criterion", "number"), [(nn.CrossEntropyLoss(), 0), (nn.ModuleList([make("mkl"), make("mkl")]), 2)]
)
def test_a_module_without_its_one_criterion_is_named_before_training(criterion, number):
    with pytest.raises(ValueError, match=f"Module must have one Selection as an attribute.*got {number}"):
        trainer(1).fit(Module(criterion), loader())


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda m, x, y: m.criterion(x, y[:-1]), r"labels must have shape \(12,\), got \(11,\)"),
        (lambda m, x, y: m.criterion(x, y + 7), "labels must be from 0 to 4"),
        (lambda m, x, y: m.criterion.reduce(nn.functional.cross_entropy(x, y)), "got a single number"),
        (lambda m, x, y: m.criterion(x, y), "oracle needs row numbers"),
    ],
)
def test_broken_use_is_named_at_the_first_step(step, message):
    class Broken(Module):
        def training_step(self, batch, _):
            return step(self, self.net(batch["x"])["logits"], batch["labels"])

    module = Broken(make("oracle" if "oracle" in message else "adaptive-k"))
    with pytest.raises(ValueError, match=message):
        trainer(1).fit(module, loader())
    assert module.criterion.tally_step == 0
