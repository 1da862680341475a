"""The figures of the methods' pages: how much is learned from a label, by the loss of its row.

    python benchmarks/method_figures.py            # all of them, into docs/figures/methods
    python benchmarks/method_figures.py gce elr    # these

A made training set of 2,000 rows and ten classes: 1,200 clean labels, with losses as a half-trained network has them,
and 800 noisy ones. A row's logits are the same at every visit. Each method goes over it in batches of 100, and what it
makes of each row is read off the gradient: how hard a step pulls up the logit of the row's label. 0 leaves the row
alone, below 0 the label is pushed down, and plain cross-entropy, drawn beside it, pulls by 1 minus the probability.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from docs_drawing import PENS, STYLE, save
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor

import adaptivek
from adaptivek.method import outputs
from adaptivek.methods import METHODS, build

ROWS, CLASSES, SIZE, RATIO = 2000, 10, 100, 0.4
VISITS = (1, 5, 50)
LINES = (("blue", "-"), ("violet", "--"), ("grey", ":"))
#: Oracle goes by the truth, Vanilla takes all, mixup sees no single samples, MOIT goes by features, PES by the layers
WITHOUT = ("mixup", "moit", "oracle", "pes", "vanilla")


def training_set() -> tuple[Tensor, Tensor, Tensor]:
    """Logits, labels, and which labels are noisy. The rest of each row's probability is with one other class."""
    draws = torch.Generator().manual_seed(0)
    noisy = torch.arange(ROWS) >= (1 - RATIO) * ROWS
    loss = torch.empty(ROWS).exponential_(2.0, generator=draws)
    loss = loss.where(~noisy, 2.4 + 0.8 * torch.randn(ROWS, generator=draws)).clamp(0.02, 5)
    labels = torch.randint(CLASSES, (ROWS,), generator=draws)
    p = (-loss).exp()
    probability = torch.full((ROWS, CLASSES), 0.002)
    rows = torch.arange(ROWS)
    # the other class of a label is always the next but one, as with directed noise
    probability[rows, (labels + 2) % CLASSES] = (1 - p - 0.002 * (CLASSES - 2)).clamp(min=0.002)
    probability[rows, labels] = p
    return (probability / probability.sum(1, keepdim=True)).log(), labels, noisy


def pulls(name: str) -> dict[int, Tensor]:
    """How hard each row's label is pulled at, at these visits; one of them is enough where nothing is remembered."""
    logits, labels, _ = training_set()
    method = build(name, noise_ratio=RATIO)
    criterion = adaptivek.Selection(method, warmup=0, rows=ROWS, classes=CLASSES)
    draws, found = torch.Generator().manual_seed(1), {}
    losses = F.cross_entropy(logits, labels, reduction="none")
    for visit in range(1, VISITS[-1] + 1):
        pull = torch.zeros(ROWS)
        if method.needs_epochs:
            criterion.start_epoch(visit - 1, {"losses": losses, "logits": logits}.get(method.full_pass))
        for rows in torch.randperm(ROWS, generator=draws).split(SIZE):
            part = logits[rows].requires_grad_()
            both = torch.stack([part] * outputs(method)) if outputs(method) > 1 else part
            (gradient,) = torch.autograd.grad(criterion(both, labels[rows], rows), part)
            kept = criterion.weights.sum(-1).max() / method.networks  # the loss is a mean over these
            pull[rows] = -gradient.gather(1, labels[rows, None]).squeeze(1) * kept
        if visit in VISITS:
            found[visit] = pull
        if not criterion.memory.state and not method.needs_epochs:
            break
    return found


def means(losses: Tensor, counted: Tensor, width: float = 0.1) -> tuple[list[float], list[float]]:
    """Over losses that are about the same: where they are, and how much they count."""
    place = (losses / width).long()
    places = place.unique().tolist()
    return [(at + 0.5) * width for at in places], [float(counted[place == at].mean()) for at in places]


def draw(name: str, path: Path) -> None:
    logits, labels, noisy = training_set()
    losses, found = F.cross_entropy(logits, labels, reduction="none"), pulls(name)
    with rc_context(STYLE):
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        axes = figure.subplots()
        behind = axes.twinx()
        behind.set_axis_off()
        axes.set_zorder(1)
        bins = torch.linspace(0, 5, 41).tolist()
        for which, pen, label in ((~noisy, "green", "clean labels"), (noisy, "red", "noisy labels")):
            behind.hist(losses[which], bins, color=PENS[pen], alpha=0.22, label=label, linewidth=0)
        behind.set_ylim(0, behind.get_ylim()[1] * 1.8)
        axes.plot(*means(losses, 1 - (-losses).exp()), color=PENS["grey"], lw=1, label="cross-entropy")
        for (visit, pull), (pen, line) in zip(reversed(found.items()), LINES, strict=False):
            label = f"visit {visit}" if len(found) > 1 else name
            axes.plot(*means(losses, pull), line, color=PENS[pen], label=label)
        axes.set(xlabel="loss of the row", ylabel="pull on its label", xlim=(0, 5))
        low, high = torch.stack(list(found.values())).aminmax()
        axes.set_ylim(min(-0.08, 1.1 * float(low)), max(1.08, 1.1 * float(high)))
        handles = [*axes.get_legend_handles_labels()[0], *behind.get_legend_handles_labels()[0]]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=10, columnspacing=1.2)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=[name for name in METHODS if name not in WITHOUT])
    parser.add_argument("--out", type=Path, default=Path("docs/figures/methods"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # warm-up is 0 on purpose
    for name in given.methods:
        draw(name, given.out / f"{name}.svg")
        print(given.out / f"{name}.svg")


if __name__ == "__main__":
    main()
