"""CIFAR-10 runs per minute on one GPU: one process, and several at once.

    python benchmarks/processes.py --processes 1 2 3
    python benchmarks/processes.py --device cpu --processes 1 2 --rows 1024 --epochs 1   # to try it out

The recipe of cifar10 on images of noise. Each process trains by itself; the clock starts when all of them have
compiled and done two epochs. Processes share a GPU better under MPS: `nvidia-cuda-mps-control -d` before.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import time
from typing import Any

import torch

from adaptivek.experiments.data import Split
from adaptivek.experiments.prepare import prepare
from adaptivek.experiments.spec import RECIPES, RunSpec
from adaptivek.experiments.stack import Stack
from adaptivek.support.device import find_device

FIRST = 2  # epochs in which libraries set up


def train(method: str, rows: int, epochs: int, device: str, ready: Any, seconds: Any) -> None:
    """After all are ready, so many epochs; their seconds go to the queue."""
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(rows, 3, 32, 32, generator=draw), torch.arange(rows) % 10
    data = Split(x, y, x[: rows // 5], y[: rows // 5], 10)
    recipe = dataclasses.replace(RECIPES["cifar10"], epochs=FIRST + epochs)
    trained = iter(Stack([prepare(RunSpec("cifar10", method, "symmetric", 0.4, recipe=recipe), data)], device))
    for _ in range(FIRST):
        next(trained)
    ready.wait()
    started = time.perf_counter()
    for _ in trained:
        pass
    seconds.put(time.perf_counter() - started)


def slowest(number: int, given: argparse.Namespace) -> float:
    """Seconds of an epoch where so many processes train."""
    context = multiprocessing.get_context("spawn")
    ready, seconds = context.Barrier(number), context.Queue()
    settings = given.method, given.rows, given.epochs, given.device, ready, seconds
    started = [context.Process(target=train, args=settings) for _ in range(number)]
    for process in started:
        process.start()
    found = [seconds.get() for _ in started]
    for process in started:
        process.join()
    return max(found) / given.epochs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--method", default="vanilla")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--epochs", type=int, default=8, help="that are timed")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    device, first = find_device(given.device), None
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "a processor"
    print(f"{name}, torch {torch.__version__}, {given.method}, {given.rows} rows")
    for number in given.processes:
        epoch = slowest(number, given)
        runs = 60 * number / (epoch * RECIPES["cifar10"].epochs)
        first = first or runs
        print(f"{number} at once: {epoch:.3f} s an epoch, {runs:.2f} runs a minute, {runs / first:.2f} of the first")


if __name__ == "__main__":
    main()
