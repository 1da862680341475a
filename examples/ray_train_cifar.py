"""The training of torchrun_cifar.py on a Ray cluster: Ray Train starts the workers, and starts them again.

    pip install 'adaptivek[data]' 'ray[train]'
    python examples/ray_train_cifar.py --workers 4 --storage /shared/runs

A worker that dies, or whose node does, takes the others with it. Then all of them begin anew with the last checkpoint,
and the result is that of a run in which nothing happened. Started again with the same name and storage, a run that was
stopped goes on, also with another number of workers.
"""

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import ray
import torch
import torch.distributed as dist
from ray import train
from ray.train.torch import TorchTrainer, get_device
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset

import adaptivek
from adaptivek.experiments.data import Split, load
from adaptivek.networks import make_model
from adaptivek.noise import Directed, corrupt


def prepared(dataset: str, network: str) -> tuple[Split, Dataset[Any], nn.Module, adaptivek.Selection]:
    """Test data, training rows with noisy labels, a network and the criterion. Apart from `work`, because a function
    that names both ``torch`` and ``.classes`` cannot be sent to a worker: it would take ``torch.classes`` along."""
    data = load(dataset)
    labels, _ = corrupt(data.y, Directed(0.4), classes=data.classes, seed=0)
    rows = adaptivek.indexed(TensorDataset(data.x, labels))
    model = make_model(network, data.inputs, data.classes)
    return data, rows, model, adaptivek.Selection(rows=len(rows), classes=data.classes)


def work(given: dict[str, Any]) -> None:
    """What each worker does; Ray has made them a process group."""
    rank, ranks, device = dist.get_rank(), dist.get_world_size(), get_device()
    gpu = device.type == "cuda"
    torch.manual_seed(0)
    data, rows, model, criterion = prepared(given["dataset"], given["network"])
    sampler = DistributedSampler(rows, seed=0, drop_last=True)
    loader = DataLoader(rows, given["batch"] // ranks, sampler=sampler, drop_last=True, pin_memory=gpu)

    model, criterion = model.to(device), criterion.to(device)
    if gpu:  # statistics of the batch of all ranks, as the criterion judges it
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    model = DistributedDataParallel(model)
    lr, epochs = given["lr"], given["epochs"]
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, epochs=epochs, steps_per_epoch=len(loader))

    parts = {"model": model.module, "optimizer": optimizer, "scheduler": scheduler, "criterion": criterion}
    first, checkpoint = 0, train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder, "run.pt"), map_location=device, weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        first = saved["epoch"] + 1
        if rank == 0:
            print(f"goes on with epoch {first + 1} of {epochs}, on {ranks} workers", flush=True)

    for epoch in range(first, epochs):
        sampler.set_epoch(epoch)  # the order of an epoch does not depend on the number of workers
        model.train()
        for x, y, index in loader:
            x, y, index = (part.to(device, non_blocking=True) for part in (x, y, index))
            loss = criterion(model(x), y, index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
        if rank > 0:
            train.report({})  # Ray waits for a report of every worker
            continue
        model.eval()
        with torch.no_grad():
            found = torch.cat([model.module(x.to(device)).argmax(1).cpu() for x in data.x_test.split(1_000)])
        accuracy = (found == data.y_test).float().mean().item()
        with tempfile.TemporaryDirectory() as folder:
            saved = {name: part.state_dict() for name, part in parts.items()} | {"epoch": epoch}
            torch.save(saved, Path(folder, "run.pt"))
            measured = {"epoch": epoch + 1, "test accuracy": accuracy, "noise ratio": criterion.noise_ratio}
            train.report(measured, checkpoint=train.Checkpoint(folder))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset", default="cifar10")
    parser.add_argument("--network", default="resnet9")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch", type=int, default=512, help="of all workers together")
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--workers", type=int, default=1, help="a GPU for each, where the cluster has any")
    parser.add_argument("--address", help="of a running cluster; one of this machine alone if there is none")
    parser.add_argument("--storage", default=os.path.abspath("ray_train"), help="a folder or bucket all nodes reach")
    parser.add_argument("--name", default="cifar", help="of the run, in the storage")
    parser.add_argument("--failures", type=int, default=3, help="so many times the workers are started again")
    given = parser.parse_args()
    if given.batch % given.workers:
        raise SystemExit(f"--batch must be a multiple of the {given.workers} workers, got {given.batch}")

    ray.init(given.address)
    done = TorchTrainer(
        work,
        train_loop_config={name: getattr(given, name) for name in ("dataset", "network", "epochs", "batch", "lr")},
        scaling_config=train.ScalingConfig(num_workers=given.workers, use_gpu="GPU" in ray.cluster_resources()),
        run_config=train.RunConfig(
            name=given.name,
            storage_path=given.storage,
            failure_config=train.FailureConfig(max_failures=given.failures),
            checkpoint_config=train.CheckpointConfig(num_to_keep=1),
        ),
    ).fit()
    print(f"done: test accuracy {done.metrics['test accuracy']:.3f}, saved in {done.checkpoint.path}")


if __name__ == "__main__":
    main()
