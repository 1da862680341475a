"""What a criterion's step is made of on a CPU: how many operations, how long they take, and page faults.

    OMP_NUM_THREADS=1 python benchmarks/step_operations.py                              # ten rows, ten classes
    OMP_NUM_THREADS=1 python benchmarks/step_operations.py --batch 64 --classes 1000 --rows 50000
    OMP_NUM_THREADS=1 python benchmarks/step_operations.py --methods label-posterior --list 20

Time is that of the process, forward and backward, from the logits on. Operations are those that the profiler sees, each
with those inside of it; it slows them down, so of the list only the order is to be believed. A page fault is memory
that the system hands out anew.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time

import torch
from step_overhead import Step
from torch.profiler import ProfilerActivity, profile

import adaptivek


def make_step(method: str, batch: int, classes: int, rows: int) -> Step:
    torch.manual_seed(0)
    logits, labels = torch.randn(batch, classes, requires_grad=True), torch.randint(classes, (batch,))
    criterion = adaptivek.Selection(method, warmup=0, rows=rows, classes=classes)
    index = (torch.randperm(rows)[:batch],) if criterion.method.tables else ()

    def step() -> None:
        logits.grad = None
        criterion(logits, labels, *index).backward()

    return step


def measure(step: Step, steps: int) -> tuple[float, float]:
    """Microseconds and page faults of a step: the median of blocks, and the mean."""
    faults, times = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, []
    for _ in range(20):
        started = time.process_time()
        for _ in range(steps):
            step()
        times.append((time.process_time() - started) / steps * 1e6)
    return statistics.median(times), (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults) / (20 * steps)


def operations(step: Step, steps: int = 100) -> list[tuple[str, float, float]]:
    """By name: how many of a step, and the microseconds of all of them."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        for _ in range(steps):
            step()
    found: dict[str, list[float]] = {}
    for event in seen.events():
        if event.cpu_parent is None and event.name.startswith(("aten::", "autograd::")):
            found.setdefault(event.name.rpartition(": ")[2], []).append(event.cpu_time_total)
    each = [(name, len(times) / steps, sum(times) / steps) for name, times in found.items()]
    return sorted(each, key=lambda line: -line[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["label-memory", "label-posterior", "adaptive-k"])
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--steps", type=int, default=20, help="of a block, of which there are twenty")
    parser.add_argument("--list", type=int, default=0, help="so many kinds of operations, those that take longest")
    given = parser.parse_args()
    print("| method | operations | µs a step | page faults a step |\n|---|---|---|---|")
    lists = []
    for method in given.methods:
        step = make_step(method, given.batch, given.classes, given.rows)
        for _ in range(10):
            step()
        took, faults = measure(step, given.steps)
        found = operations(step)
        print(f"| {method} | {sum(count for _, count, _ in found):.0f} | {took:.0f} | {faults:.0f} |", flush=True)
        lists.append((method, found[: given.list]))
    for method, found in lists:
        for name, count, took in found:
            print(f"{method}: {name}, {count:.0f} of them, {took:.0f} µs")


if __name__ == "__main__":
    main()
