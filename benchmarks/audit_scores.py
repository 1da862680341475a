"""Which number of a training run tells wrong labels best, and which tells how many there are.

    python benchmarks/audit_scores.py
    python benchmarks/audit_scores.py --datasets digits --noises directed --rates 0.4 --methods elr gce vanilla

Scores: AUROC of finding wrong labels. Ratios: points above the truth. "own" numbers come from the network that trains
on the row, "other" ones from the network that has never seen it; "both" is the mean of their predictions, and
"posterior" what the audit uses.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import torch
from audit_data import DATASETS, KINDS, Cell, make
from sklearn.metrics import roc_auc_score

from adaptivek.auditing.dynamics import Dynamics
from adaptivek.auditing.estimate import Slots, _fit, posterior
from adaptivek.auditing.judge import Verdict, judge, probability, together
from adaptivek.auditing.networks import PLANS, maker, suited, taken_from
from adaptivek.auditing.training import Run
from adaptivek.methods.beta_mixture import posterior as mixture


def train(cell: Cell, method: str, seed: int, device: str) -> Run:
    plan = replace(suited(PLANS[cell.kind], len(cell.labels)), method=method, seed=seed)
    run = Run(
        taken_from(cell.x), cell.labels, cell.classes, maker(cell.kind, cell.inputs, cell.classes, None), plan, device
    )
    for _ in range(plan.epochs):
        run.epoch()
    return run


def scores(cell: Cell, seen: Dynamics, verdict: Verdict) -> dict[str, np.ndarray]:
    """Higher: more likely right."""
    own, other = Slots(*seen.own.tables()), Slots(*seen.other.tables())
    both = together(other, own)
    visits = np.maximum(seen.visits.cpu().numpy(), 1)
    return {
        "late loss": -seen.late_loss.cpu().numpy(),
        "mean loss": -seen.loss.cpu().numpy() / visits,
        "mean margin": seen.margin.cpu().numpy() / visits,
        "times wrong": -seen.wrong.cpu().numpy() / visits,
        "own average": probability(own, cell.labels),
        "other average": probability(other, cell.labels),
        "both averages": probability(both, cell.labels),
        "posterior, other": posterior(other, cell.labels, verdict.fitted).right,
        "posterior, both": verdict.score,
    }


def ratios(cell: Cell, seen: Dynamics, verdict: Verdict) -> dict[str, float]:
    other = Slots(*seen.other.tables())
    loss = torch.from_numpy(-np.log(np.maximum(probability(other, cell.labels), 1e-6)))
    guess = other.named()
    return {
        "noise floor": verdict.ratio.ratio,
        "interval, low": verdict.ratio.low,
        "interval, high": verdict.ratio.high,
        "other class is likelier": float((guess != cell.labels).mean()),
        "confident counting": confident(other, cell.labels, cell.classes),
        "mixture of losses": float((mixture(loss, 10) > 0.5).double().mean()),
        "matrix by EM": _fit(other, cell.labels, cell.classes, 1.0, even=False)[0],
    }


def confident(slots: Slots, labels: np.ndarray, classes: int) -> float:
    """Share of rows whose label is another than a class that is likelier than on average among its own rows."""
    p = np.zeros((len(labels), classes), np.float32)
    if slots.classes is None:
        p[:] = slots.p
    else:
        np.put_along_axis(p, slots.classes, slots.p, 1)
    limits = np.array([p[labels == k, k].mean() for k in range(classes)])
    above = np.where(p >= limits, p, -1)
    sure = above.max(1) > 0
    return float((above.argmax(1) != labels)[sure].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--datasets", nargs="+", default=["digits", "mnist", "fashion-mnist", "sarcasm"], choices=DATASETS
    )
    parser.add_argument("--noises", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--rates", nargs="+", type=float, default=[0.0, 0.2, 0.4])
    parser.add_argument("--methods", nargs="+", default=["elr"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    titles: list[str] = []
    for dataset in given.datasets:
        for rate in given.rates:
            for noise in given.noises if rate else given.noises[:1]:
                cell = make(dataset, noise, rate, given.seed)
                for method in given.methods:
                    run = train(cell, method, given.seed, given.device)
                    verdict = judge(run.dynamics, cell.labels, [str(k) for k in range(cell.classes)], stock=run.stock)
                    ranked = {
                        name: f"{roc_auc_score(~cell.wrong, score):.3f}" if rate else "-"
                        for name, score in scores(cell, run.dynamics, verdict).items()
                    }
                    off = {
                        name: f"{100 * (found - cell.wrong.mean()):+.1f}"
                        for name, found in ratios(cell, run.dynamics, verdict).items()
                    }
                    if not titles:
                        titles = ["data", "noise", "method", *ranked, *off]
                        print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
                    kind = f"{noise} {rate:g}" if rate else "none"
                    line = [dataset, kind, method, *ranked.values(), *off.values()]
                    print("| " + " | ".join(line) + " |", flush=True)


if __name__ == "__main__":
    main()
