"""How many labels a network forgets and learns from one visit to the next, and how many come back that were left out.

    python benchmarks/real.py prepare --data-root DATA --weights MINILM MOBILENET --out runs/real
    python benchmarks/forgetting.py --folder runs/real --data-root DATA      # ten minutes on one core

A label is forgotten if it was predicted at the last visit of its row and is not any more, and learned the other way
round. Shown for plain training: the share of predicted labels that is forgotten, and by how much labels learned
outnumber labels forgotten, of both together. By these label agreement decides whether to doubt. A label comes back if
it was left out at the last visit and is predicted now: shown for label agreement itself. Per cent, by epoch, one seed:
hard images (benchmarks/hard_images.py), the development pool of benchmarks/real.py with small networks, and
scikit-learn's digits with our classifier (benchmarks/tables.py).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import hard_images
import tables
import torch
from real_settings import DATA, DEVELOPMENT, NETWORKS, OWN, Job, Setting
from real_train import Loop, load, make_network, observed
from torch import Tensor

import adaptivek
from adaptivek.experiments.data import load as load_images
from adaptivek.integrations import sklearn
from adaptivek.noise import Symmetric, corrupt
from adaptivek.support.streams import stream

METHODS = ("vanilla", "label-agreement")
SHOWN = (2, 3, 4, 6, 10, 15)  # epochs


class Watched(adaptivek.Selection):
    """Counts, epoch by epoch, labels predicted a visit before, forgotten, and learned; left out, and come back."""

    watching: Watched | None = None  #: the last one that was made

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.last = torch.full((self.rows or 0,), -2)  # 1 predicted, 0 not, -1 left out, -2 not seen yet
        self.counts: list[Tensor] = []
        self.passed = 0
        Watched.watching = self

    def forward(self, output: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        loss = super().forward(output, target, index)
        if self.training and index is not None:
            agrees, before = output.argmax(1) == target, self.last[index]
            out = before == -1
            learned = (before > -2) & (before < 1) & agrees
            counted = [before > 0, (before > 0) & ~agrees, learned, out, out & agrees]
            epoch = self.passed // len(self.last)
            self.counts += [torch.zeros(len(counted))] * (epoch + 1 - len(self.counts))
            self.counts[epoch] = self.counts[epoch] + torch.stack(counted).sum(1)
            self.last[index] = torch.where(agrees, 1, -self._left_out(index).long())
            self.passed += len(index)
        return loss

    def _left_out(self, index: Tensor) -> Tensor:
        """As label agreement notes it; other methods do not."""
        if "agreed" not in self.method.tables:
            return torch.zeros(len(index))
        return self.state_agreed[index] < 0  # type: ignore[no-any-return]


def on_hard_images(root: str, rate: float, method: str) -> None:
    data = hard_images.some(load_images("cifar10", root=root))
    labels, _ = corrupt(data.y, Symmetric(rate), classes=data.classes, seed=0)
    hard_images.train(data, labels, Watched(method, rows=len(labels), classes=data.classes))


def on_real(folder: Path, network: str, source: str, rate: float, method: str) -> None:
    recipe = NETWORKS[network]
    noise = ("symmetric", rate) if rate else (OWN, 0.0)
    job = Job(Setting(network, source, *noise, recipe.epochs[0]), method, 0)
    data = load(folder / f"{network}-{source}.npz")
    labels = observed(job, data)
    criterion, model = Watched(method, rows=len(labels), classes=data.classes), make_network(network, data, folder, 0)
    loop, steps = Loop(model, criterion, data.x, labels, recipe, graph=False), len(labels) // recipe.batch_size
    torch.manual_seed(0)
    for epoch in range(job.setting.epochs):
        order = stream(0, "order", epoch).permutation(len(labels))[: steps * recipe.batch_size]
        rates = [recipe.learning_rate_at(epoch * steps + at, steps * job.setting.epochs, epoch) for at in range(steps)]
        loop.epoch(torch.from_numpy(order).view(steps, -1), torch.tensor(rates))


def on_table(rate: float, method: str) -> None:
    sklearn.Selection = Watched  # type: ignore[attr-defined, misc]
    tables.measure(method, "digits", Symmetric(rate), 0)


def line(name: str, run: Callable[[str], None]) -> str:
    found = []
    for method in METHODS:
        run(method)
        assert Watched.watching is not None
        found.append([counts.tolist() for counts in Watched.watching.counts])
    plain, agreement = found
    shown = [
        [(forgotten, number) for number, forgotten, *_ in plain],
        [(learned - forgotten, learned + forgotten) for _, forgotten, learned, *_ in plain],
        [(back, number) for *_, number, back in agreement],
    ]
    return f"| {name} | {' | '.join(map(_by_epoch, shown))} |"


def _by_epoch(counts: Sequence[tuple[float, float]]) -> str:
    """Nothing is told of fewer than ten labels."""
    found = [counts[epoch - 1] for epoch in SHOWN if epoch <= len(counts)]
    return ", ".join(f"{100 * some / number:.0f}" if number >= 10 else "-" for some, number in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs/real"), help="what `real.py prepare` made")
    parser.add_argument("--data-root", default=os.environ.get("ADAPTIVEK_DATA"), help="or ADAPTIVEK_DATA")
    given = parser.parse_args()
    torch.set_num_threads(1)
    epochs = ", ".join(map(str, SHOWN))
    columns = "forgotten, plain training | surplus of learned, plain training | come back, label agreement"
    print(f"| in epoch {epochs}, % | {columns} |\n|---|---|---|---|")
    wanted = {f"hard images, {rate:.0%} noise": partial(on_hard_images, given.data_root, rate) for rate in (0.0, 0.4)}
    wanted |= {f"digits as a table, {rate:.0%} noise": partial(on_table, rate) for rate in (0.0, 0.2)}
    for rate in (0.2, 0.4):
        wanted[f"sarcasm, text-bag, {rate:.0%} noise"] = partial(on_real, given.folder, "text-bag", "sarcasm", rate)
    for source in DEVELOPMENT:
        if source in DATA["perceptron"]:
            wanted[f"{source}, perceptron"] = partial(on_real, given.folder, "perceptron", source, 0.0)
    for name, run in wanted.items():
        print(line(name, run), flush=True)


if __name__ == "__main__":
    main()
