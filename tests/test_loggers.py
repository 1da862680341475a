"""Numbers of the criterion in the loggers that people use, read back from what these have written."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import adaptivek

from .tiny import SIZE, Net, Rows, make, optimizer

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),  # of the loggers, about each other
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
STEPS = 12  # two epochs, the first of them warm-up
NAMES = {"noise_ratio", "kept_share", "threshold"}


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """What TensorBoard would show: of each name the numbers by step."""
    loading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found: dict[str, dict[int, float]] = {}
    for file in folder.rglob("events.out.tfevents.*"):
        events = loading.EventAccumulator(str(file)).Reload()
        for name in events.Tags()["scalars"]:
            found.setdefault(name, {}).update({event.step: event.value for event in events.Scalars(name)})
    return found


def own_loop(write) -> adaptivek.Selection:
    """With a history that writes after each step."""
    model, criterion, data = Net(), make("adaptive-k", warmup=6), Rows()
    history, step = adaptivek.History(criterion, every=1, write=write), optimizer(model)
    for _ in range(2):
        for x, y in zip(data.x.split(SIZE), data.y.split(SIZE), strict=True):
            logits = model(x)["logits"]
            step.zero_grad()
            criterion(logits, y).backward()
            step.step()
            history(criterion.loss(logits.detach(), y))
    return criterion


def in_lightning(logger) -> adaptivek.Selection:
    from .test_lightning import Module, loader, trainer

    module = Module(make("adaptive-k", warmup=6))
    trainer(2, logger=logger, log_every_n_steps=1).fit(module, loader())
    return module.criterion


def in_hugging_face(folder: Path, to: str) -> adaptivek.Selection:
    from .test_huggingface import trainer

    criterion = make("adaptive-k", warmup=6)
    options = {"num_train_epochs": 2, "logging_steps": 1, "report_to": to}
    trainer(folder, Net(), adaptivek.indexed(Rows()), criterion, **options).train()
    return criterion


def test_tensorboard_from_a_loop_of_ones_own(tmp_path):
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        criterion = own_loop(
            lambda values, step: [writer.add_scalar(name, value, step) for name, value in values.items()]
        )
    found = scalars(tmp_path)
    assert found.keys() == NAMES | {"kept_loss", "left_out_loss"}
    assert found["noise_ratio"].keys() == set(range(7, STEPS + 1))
    assert found["noise_ratio"][STEPS] == pytest.approx(criterion.noise_ratio)
    assert found["kept_share"][STEPS] == pytest.approx(criterion.kept_share)
    assert found["threshold"][STEPS] == pytest.approx(criterion.threshold)


def test_tensorboard_through_lightning(tmp_path):
    pytest.importorskip("tensorboard")
    loggers = pytest.importorskip("lightning.pytorch.loggers")
    criterion = in_lightning(loggers.TensorBoardLogger(tmp_path))
    found = scalars(tmp_path)
    assert found.keys() >= NAMES
    last = max(found["noise_ratio"])
    assert found["noise_ratio"][last] == pytest.approx(criterion.noise_ratio)
    assert found["threshold"][last] == pytest.approx(criterion.threshold)
    assert math.isnan(found["noise_ratio"][0])  # warm-up


def test_tensorboard_through_hugging_face(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    pytest.importorskip("transformers")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    criterion = in_hugging_face(tmp_path, "tensorboard")
    found = scalars(tmp_path / "board")
    assert {f"train/{name}" for name in NAMES} <= found.keys()
    assert found["train/noise_ratio"][STEPS] == pytest.approx(criterion.noise_ratio)
    assert found["train/kept_share"][STEPS] == pytest.approx(criterion.kept_share)


def test_mlflow_from_a_loop_and_through_lightning(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    loggers = pytest.importorskip("lightning.pytorch.loggers")
    address = f"sqlite:///{tmp_path}/runs.db"
    mlflow.set_tracking_uri(address)
    client = mlflow.MlflowClient(address)
    with mlflow.start_run() as run:
        criterion = own_loop(mlflow.log_metrics)
    steps = client.get_metric_history(run.info.run_id, "noise_ratio")
    assert [entry.step for entry in steps] == list(range(7, STEPS + 1))
    assert steps[-1].value == pytest.approx(criterion.noise_ratio)
    logger = loggers.MLFlowLogger("selection", tracking_uri=address)
    criterion = in_lightning(logger)
    assert client.get_metric_history(logger.run_id, "noise_ratio")[-1].value == pytest.approx(criterion.noise_ratio)


def test_weights_and_biases_from_a_loop_and_through_lightning(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    loggers = pytest.importorskip("lightning.pytorch.loggers")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with wandb.init(dir=str(tmp_path), project="selection") as run:
        criterion = own_loop(wandb.log)
        wandb.log({}, step=STEPS + 1)  # a step is done when the next one begins
        assert run.summary["noise_ratio"] == pytest.approx(criterion.noise_ratio)
    logger = loggers.WandbLogger("selection", save_dir=str(tmp_path), offline=True)
    criterion = in_lightning(logger)
    logger.experiment.log({})
    assert logger.experiment.summary["noise_ratio"] == pytest.approx(criterion.noise_ratio)
    wandb.finish()
