"""What a criterion costs: time of a training step over the time of the same step with plain cross-entropy.

    OMP_NUM_THREADS=1 python benchmarks/step_overhead.py
    python benchmarks/step_overhead.py --device cuda
    python benchmarks/step_overhead.py --device cuda --modes compiled --cases cnn-256 resnet18
    python benchmarks/step_overhead.py --device cuda --on-host --cases resnet18 classes-1000

The contestants take turns, block by block, in one run; each ratio is between neighbouring blocks, and its median is
printed with the range that holds the middle half. "plain again" is plain cross-entropy against itself: what the
measurement cannot tell apart. Compiled is the whole step, or in the mode "criterion" the criterion alone. "two-passes"
is the way of the authors' notebook: losses to the host, then the kept samples, here six in ten, through the network
again. With --on-host, methods that remember rows take part a second time, with their tables on the host and row numbers
on the CPU; the ratio is then to the same method with all of it on the device. Each line is measured in a process of its
own, so that one that dies takes no other with it. On one CPU thread it is the process's own time that counts, since
others may use the machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
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
METHODS = ("label-agreement", "label-posterior", "label-memory", "adaptive-k", "two-passes")
REMEMBERING = METHODS[:3]
ON_HOST = " on host"  # after the name of a method


class Case(NamedTuple):
    name: str
    model: Callable[[], nn.Module]
    inputs: Callable[[], Tensor]
    classes: int
    rows: int | None = 60_000  # of the training set, for methods that remember them
    bf16: bool = False  # on a GPU
    tokens: bool = False  # one sample for each token, not for each text


class Transformer(nn.Module):
    """A small encoder that classifies sequences of tokens, or each token of them."""

    def __init__(
        self, vocabulary: int = 10_000, width: int = 256, layers: int = 4, classes: int = 2, tokens: bool = False
    ) -> None:
        super().__init__()
        self.embedding, self.tokens = nn.Embedding(vocabulary, width), tokens
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        seen = self.encoder(self.embedding(tokens))
        return self.head(seen.flatten(0, 1) if self.tokens else seen.mean(1))


CASES = {
    "cnn-10": Case(
        "notebook CNN, batch 10", lambda: make_model("notebook-cnn", 1, 10), lambda: torch.randn(10, 1, 28, 28), 10
    ),
    "cnn-256": Case(
        "notebook CNN, batch 256", lambda: make_model("notebook-cnn", 1, 10), lambda: torch.randn(256, 1, 28, 28), 10
    ),
    "resnet18": Case(
        "ResNet-18, batch 128", lambda: make_model("resnet18", 3, 10), lambda: torch.randn(128, 3, 32, 32), 10,
        bf16=True,
    ),
    "transformer": Case(
        "transformer, batch 32", Transformer, lambda: torch.randint(10_000, (32, 128)), 2, bf16=True
    ),
    "classes-1000": Case(
        "ResNet-18, 1,000 classes, batch 128", lambda: make_model("resnet18", 3, 1000),
        lambda: torch.randn(128, 3, 32, 32), 1000, rows=100_000, bf16=True,
    ),
    "linear-1000": Case(
        "one layer, 1,000 classes, batch 64", lambda: nn.Linear(512, 1000), lambda: torch.randn(64, 512), 1000,
        rows=50_000,
    ),
    "linear-50000": Case(
        "one layer, 50,000 classes, batch 64", lambda: nn.Linear(512, 50_000), lambda: torch.randn(64, 512), 50_000,
        rows=None,
    ),
    "tokens-50000": Case(
        "transformer, 1,024 tokens of 50,000", lambda: Transformer(50_000, 512, 4, 50_000, tokens=True),
        lambda: torch.randint(50_000, (8, 128)), 50_000, rows=None, bf16=True, tokens=True,
    ),
}  # fmt: skip


def make_step(case: Case, kind: str, device: torch.device, mode: str) -> Step:
    torch.manual_seed(0)
    on_host, kind = kind.endswith(ON_HOST), kind.removesuffix(ON_HOST)
    model, x = case.model().to(device), case.inputs().to(device)
    samples = x.numel() if case.tokens else len(x)
    y = torch.randint(case.classes, (samples,), device=device)
    rows = torch.randperm(case.rows or samples)[:samples]
    index = (rows if on_host else rows.to(device),) if case.rows and kind in REMEMBERING else ()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    # past warm-up from the first step; how many are kept makes no difference to the work
    criterion = (
        adaptivek.Selection(
            kind, warmup=0, rows=case.rows, classes=case.classes, table_device="cpu" if on_host else None
        ).to(device)
        if kind in adaptivek.METHODS
        else None
    )
    bf16 = torch.autocast(device.type, torch.bfloat16, enabled=case.bf16 and device.type == "cuda")

    def loss_of_step() -> Tensor:
        with bf16:
            logits = model(x)
        return F.cross_entropy(logits.float(), y) if criterion is None else criterion(logits, y, *index)

    if mode == "criterion" and criterion is not None:
        criterion.compile(fullgraph=True)
    if mode == "compiled":
        loss_of_step = torch.compile(loss_of_step, fullgraph=True)

    def two_passes() -> Tensor:
        with bf16:
            losses = F.cross_entropy(model(x).float(), y, reduction="none").detach().cpu().numpy()
        chosen = np.where(losses <= np.quantile(losses, 0.6))[0]
        with bf16:
            return F.cross_entropy(model(x[chosen]).float(), y[chosen])

    def step() -> None:
        loss = two_passes() if kind == "two-passes" else loss_of_step()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def block(step: Step, steps: int, device: torch.device) -> float:
    now = time.process_time if device.type == "cpu" and torch.get_num_threads() == 1 else time.perf_counter
    started = now()
    for _ in range(steps):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (now() - started) / steps


def measure(case: Case, methods: list[str], mode: str, device: torch.device, seconds: float) -> dict[str, list[float]]:
    """Seconds of a step in each block, by contestant."""
    kinds = ["plain", *methods, "plain again"]
    steps = {kind: make_step(case, "plain" if kind == "plain again" else kind, device, mode) for kind in kinds}
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


def compared(kind: str) -> str:
    """With whom a contestant is."""
    return kind.removesuffix(ON_HOST) if kind.endswith(ON_HOST) else "plain"


def summary(times: dict[str, list[float]]) -> dict[str, str]:
    """Milliseconds of the plain step, and of each contestant the ratio to whom it is compared with, as text."""
    found = {"plain": f"{1000 * statistics.median(times['plain']):.2f} ms"}
    for kind in times.keys() - {"plain"}:
        ratios = [t / p for t, p in zip(times[kind], times[compared(kind)], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        found[kind] = f"{middle:.3f} ({low:.3f} to {high:.3f})"
    return found


def in_a_process(case: str, mode: str, given: argparse.Namespace) -> dict[str, str] | str:
    """The summary of a line, or what its process said last."""
    methods = [method for method in given.methods if (method, mode) != ("two-passes", "compiled")]
    command = [sys.executable, __file__, "--cases", case, "--modes", mode, "--methods", *methods, "--here"]
    command += ["--device", str(given.device), "--seconds", str(given.seconds)]
    command += ["--on-host"] if given.on_host else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"ended with {done.returncode}: {(done.stderr.strip().splitlines() or ['nothing said'])[-1]}"
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", type=torch.device)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--modes", nargs="+", choices=("eager", "criterion", "compiled"), default=["eager"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS[:3]))
    parser.add_argument("--seconds", type=float, default=3, help="about how long each line is measured")
    parser.add_argument("--on-host", action="store_true", help="with tables on the host too; eager")
    parser.add_argument("--here", action="store_true", help="one line, in this process")
    given = parser.parse_args()
    if given.on_host and given.modes != ["eager"]:
        parser.error("--on-host goes with --modes eager alone: such a step cannot be compiled")
    if given.here:
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        torch.set_float32_matmul_precision("high")
        case, methods = CASES[given.cases[0]], given.methods
        if given.on_host:
            methods = [*methods, *(method + ON_HOST for method in methods if case.rows and method in REMEMBERING)]
        times = measure(case, methods, given.modes[0], given.device, given.seconds)
        print(json.dumps(summary(times)))
        return
    name = torch.cuda.get_device_name() if given.device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    twice = [method + ON_HOST for method in given.methods if given.on_host and method in REMEMBERING]
    console, columns = Console(width=140), [*given.methods, *twice, "plain again"]
    table = Table("step", "mode", "plain", *(f"{column} / {compared(column)}" for column in columns))
    for case in given.cases:
        for mode in given.modes:
            found = in_a_process(case, mode, given)
            half = ", bf16" if CASES[case].bf16 and given.device.type == "cuda" else ""
            if isinstance(found, str):
                table.add_row(CASES[case].name, mode + half, found)
            else:
                table.add_row(CASES[case].name, mode + half, *(found.get(kind, "") for kind in ("plain", *columns)))
            console.print(f"{CASES[case].name}, {mode}{half}: {found}", highlight=False)
    console.print(f"\n{name}, PyTorch {torch.__version__}", highlight=False)
    console.print(table)


if __name__ == "__main__":
    main()
