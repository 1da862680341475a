"""What Adaptive-k costs: time of a training step over the time of the same step with plain cross-entropy.

    python benchmarks/step_overhead.py
    python benchmarks/step_overhead.py --device cuda

The contestants take turns, block by block, in one run; each ratio is between neighbouring blocks, and its
median is printed with the range that holds the middle half. "two passes" is the way of the authors'
notebook: losses to the host, then the kept samples, here six in ten, through the network again. "plain
again" is plain cross-entropy against itself: what the measurement cannot tell apart.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import adaptivek
from adaptivek.networks import make_model

Step = Callable[[], None]


class Case(NamedTuple):
    name: str
    model: Callable[[], nn.Module]
    inputs: Callable[[], Tensor]
    classes: int
    bf16: bool = False  # on a GPU


class Transformer(nn.Module):
    """A small encoder that classifies sequences of tokens."""

    def __init__(self, vocabulary: int = 10_000, width: int = 256, layers: int = 4, classes: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.encoder(self.embedding(tokens)).mean(1))


CASES = [
    Case("notebook CNN, batch 10", lambda: make_model("notebook-cnn", 1, 10), lambda: torch.randn(10, 1, 28, 28), 10),
    Case("notebook CNN, batch 256", lambda: make_model("notebook-cnn", 1, 10), lambda: torch.randn(256, 1, 28, 28), 10),
    Case("ResNet-18, batch 128", lambda: make_model("resnet18", 3, 10), lambda: torch.randn(128, 3, 32, 32), 10, True),
    Case("transformer, batch 32", Transformer, lambda: torch.randint(10_000, (32, 128)), 2, True),
]


def make_step(case: Case, kind: str, device: torch.device, compiled: bool) -> Step:
    torch.manual_seed(0)
    model = case.model().to(device)
    x, y = case.inputs().to(device), torch.randint(case.classes, (case.inputs().shape[0],), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    # past warm-up from the first step; how many are kept makes no difference to the work
    criterion = adaptivek.Selection("adaptive-k", warmup=0).to(device)
    bf16 = torch.autocast(device.type, torch.bfloat16, enabled=case.bf16 and device.type == "cuda")

    def loss_of_step() -> Tensor:
        with bf16:
            logits = model(x)
        return F.cross_entropy(logits.float(), y) if kind == "plain" else criterion(logits, y)

    if compiled:
        loss_of_step = torch.compile(loss_of_step, fullgraph=True)

    def two_passes() -> Tensor:
        with bf16:
            losses = F.cross_entropy(model(x).float(), y, reduction="none").detach().cpu().numpy()
        chosen = np.where(losses <= np.quantile(losses, 0.6))[0]
        with bf16:
            return F.cross_entropy(model(x[chosen]).float(), y[chosen])

    def step() -> None:
        loss = two_passes() if kind == "two passes" else loss_of_step()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def block(step: Step, steps: int, device: torch.device) -> float:
    started = time.perf_counter()
    for _ in range(steps):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / steps


def measure(case: Case, compiled: bool, device: torch.device, seconds: float) -> dict[str, list[float]]:
    kinds = ["plain", "adaptive-k", "plain again", *([] if compiled else ["two passes"])]
    steps = {kind: make_step(case, "plain" if kind == "plain again" else kind, device, compiled) for kind in kinds}
    for step in steps.values():
        block(step, 3, device)  # warm up: kernels, compilation, the allocator
    once = block(steps["plain"], 2, device)
    size = max(1, round(0.05 / once))  # blocks of about 50 ms
    rounds = max(5, round(seconds / (len(kinds) * size * once)))
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(rounds):
        order = kinds if turn % 2 == 0 else kinds[::-1]  # so that none always comes first
        for kind in order:
            times[kind].append(block(steps[kind], size, device))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", type=torch.device)
    parser.add_argument("--seconds", type=float, default=30, help="about how long each line takes")
    parser.add_argument("--compiled", action=argparse.BooleanOptionalAction, default=True)
    given = parser.parse_args()
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    torch.set_float32_matmul_precision("high")
    name = torch.cuda.get_device_name() if given.device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    console = Console(width=120)
    table = Table("step", "mode", "plain", "adaptive-k / plain", "plain again / plain", "two passes / plain")
    for case in CASES:
        for compiled in [False, True] if given.compiled else [False]:
            torch._dynamo.reset()
            times = measure(case, compiled, given.device, given.seconds)
            ratios = {kind: [t / p for t, p in zip(times[kind], times["plain"], strict=True)] for kind in times}

            def show(kind: str, ratios: dict[str, list[float]] = ratios) -> str:
                if kind not in ratios:
                    return "-"
                low, middle, high = statistics.quantiles(ratios[kind], n=4)
                return f"{middle:.3f} ({low:.3f} to {high:.3f})"

            mode = ("compiled" if compiled else "eager") + (
                ", bf16" if case.bf16 and given.device.type == "cuda" else ""
            )
            plain = f"{1000 * statistics.median(times['plain']):.2f} ms"
            table.add_row(case.name, mode, plain, *map(show, ("adaptive-k", "plain again", "two passes")))
            console.print(f"{case.name}, {mode}: {show('adaptive-k')}", highlight=False)
    console.print(f"\n{name}, PyTorch {torch.__version__}", highlight=False)
    console.print(table)


if __name__ == "__main__":
    main()
