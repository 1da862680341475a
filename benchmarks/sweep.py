"""Model-steps per second: many runs stacked into one program, over one run at a time in the plain loop.

    python benchmarks/sweep.py
    python benchmarks/sweep.py --device cpu --runs 15 --steps 40

The notebook's network and settings, all five methods, noise rates 0.1 to 0.4, on images of noise: what they show
does not matter for speed. Both are timed in turns within one process, and medians are compared.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator

import torch

from adaptivek.experiments.bench import Grid
from adaptivek.experiments.data import Split
from adaptivek.experiments.session import Session, prepare
from adaptivek.experiments.stack import Stack
from adaptivek.support.device import find_device

ROWS_PER_STEP = 10


def images(steps: int) -> Split:
    """Enough for an epoch of so many steps; few to test on, since only steps are counted."""
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(steps * ROWS_PER_STEP, 1, 28, 28, generator=draw), torch.arange(steps * ROWS_PER_STEP) % 10
    return Split(x, y, x[:10], y[:10], 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=int, default=120)
    parser.add_argument("--steps", type=int, default=300, help="steps in a turn")
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()

    device, data = find_device(given.device), images(given.steps)
    specs = Grid(datasets=["mnist"], seeds=-(-given.runs // 20)).specs(warmup_epochs=1)[: given.runs]
    alone = Session(next(spec for spec in specs if spec.method == "adaptive-k"), data, device)
    stack = Stack([prepare(spec, data) for spec in specs], device)
    turns = [
        (_speed(iter(alone), given.steps), _speed(iter(stack), given.steps * len(specs))) for _ in range(given.turns)
    ]
    one, many = (statistics.median(column) for column in zip(*turns[1:], strict=True))  # the first sets things up
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{torch.get_num_threads()} threads"
    print(f"{name}, torch {torch.__version__}, {len(specs)} runs, {given.steps} steps a turn")
    print(f"one at a time  {one:>10,.0f} model-steps per second")
    print(f"stacked        {many:>10,.0f} model-steps per second")
    print(f"ratio          {many / one:>10.1f}")


def _speed(epochs: Iterator[object], steps: int) -> float:
    started = time.perf_counter()
    next(epochs)
    return steps / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
