"""CIFAR-10 with 40 % noisy labels on any number of GPUs, or of processes on a CPU, saved after each epoch.

    torchrun --nproc-per-node 4 examples/torchrun_cifar.py

Started again, it goes on where it stopped, also with another number of processes: the batch of all of them together
has the same size, and the criterion judges it as one.
"""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import adaptivek
from adaptivek.experiments.data import load
from adaptivek.networks import make_model
from adaptivek.noise import Directed, corrupt

parser = argparse.ArgumentParser()
parser.add_argument("--dataset", default="cifar10")
parser.add_argument("--network", default="resnet9")
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--batch", type=int, default=512, help="of all processes together")
parser.add_argument("--lr", type=float, default=0.2)
parser.add_argument("--checkpoint", type=Path, default=Path("torchrun_cifar.pt"))
given = parser.parse_args()

gpu = torch.cuda.is_available()
dist.init_process_group("nccl" if gpu else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
if gpu:
    torch.cuda.set_device(device)
if given.batch % ranks:
    raise SystemExit(f"--batch must be a multiple of the {ranks} processes, got {given.batch}")

data = load(given.dataset)
labels, _ = corrupt(data.y, Directed(0.4), classes=data.classes, seed=0)
rows = adaptivek.indexed(TensorDataset(data.x, labels))
sampler = DistributedSampler(rows, seed=0, drop_last=True)
loader = DataLoader(rows, given.batch // ranks, sampler=sampler, drop_last=True, pin_memory=gpu)

torch.manual_seed(0)
model = make_model(given.network, data.inputs, data.classes).to(device)
if gpu:  # statistics of the batch of all ranks, as the criterion judges it
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=given.lr, momentum=0.9, weight_decay=5e-4)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, given.lr, epochs=given.epochs, steps_per_epoch=len(loader))
criterion = adaptivek.Selection(rows=len(rows), classes=data.classes).to(device)

parts = {"model": model.module, "optimizer": optimizer, "scheduler": scheduler, "criterion": criterion}
first = 0
if given.checkpoint.exists():
    saved = torch.load(given.checkpoint, map_location=device, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    first = saved["epoch"] + 1
    if rank == 0:
        print(f"goes on with epoch {first + 1} of {given.epochs}, on {ranks} processes", flush=True)

for epoch in range(first, given.epochs):
    sampler.set_epoch(epoch)  # the order of an epoch does not depend on the number of processes
    model.train()
    for x, y, index in loader:
        x, y, index = (part.to(device, non_blocking=True) for part in (x, y, index))
        loss = criterion(model(x), y, index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    if rank == 0:
        model.eval()
        with torch.no_grad():
            found = torch.cat([model.module(x.to(device)).argmax(1).cpu() for x in data.x_test.split(1_000)])
        accuracy = (found == data.y_test).float().mean().item()
        print(f"epoch {epoch + 1}: test accuracy {accuracy:.3f}, noise ratio {criterion.noise_ratio:.2f}", flush=True)
        # a name of its own first: a process that is killed in the middle leaves the last whole one
        unfinished = given.checkpoint.with_suffix(".unfinished")
        torch.save({name: part.state_dict() for name, part in parts.items()} | {"epoch": epoch}, unfinished)
        unfinished.replace(given.checkpoint)
    dist.barrier()
dist.destroy_process_group()
