"""Which number of a training run tells noisy labels best, and which estimates the noise ratio best.

    python benchmarks/audit_scores.py
    python benchmarks/audit_scores.py --datasets digits --noises directed --rates 0.4 --methods elr gce vanilla

Scores: AUROC of finding noisy labels. Ratios: points above the truth. "in-sample" numbers come from the network that
trains on the row, "held-out" ones from the network that has never seen it; "both" is the mean of their predictions, and
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
from adaptivek.auditing.networks import PLANS, maker, suited, taken_from
from adaptivek.auditing.predictions import Predictions, label_probability, mean_prediction
from adaptivek.auditing.scoring import Scores, score_labels
from adaptivek.auditing.training import Run
from adaptivek.auditing.transition import fit_at_power, posterior
from adaptivek.methods.beta_mixture import posterior as mixture


def train(cell: Cell, method: str, seed: int, device: str) -> Run:
    plan = replace(suited(PLANS[cell.kind], len(cell.labels)), method=method, seed=seed)
    run = Run(
        taken_from(cell.x), cell.labels, cell.classes, maker(cell.kind, cell.inputs, cell.classes, None), plan, device
    )
    for _ in range(plan.epochs):
        run.epoch()
    return run


def scores(cell: Cell, seen: Dynamics, found: Scores) -> dict[str, np.ndarray]:
    """Higher: more likely clean."""
    in_sample, held_out = Predictions(*seen.in_sample.tables()), Predictions(*seen.held_out.tables())
    both = mean_prediction(held_out, in_sample)
    visits = np.maximum(seen.visits.cpu().numpy(), 1)
    return {
        "late loss": -seen.late_loss.cpu().numpy(),
        "mean loss": -seen.loss.cpu().numpy() / visits,
        "mean margin": seen.margin.cpu().numpy() / visits,
        "times misclassified": -seen.misclassified.cpu().numpy() / visits,
        "in-sample average": label_probability(in_sample, cell.labels),
        "held-out average": label_probability(held_out, cell.labels),
        "both averages": label_probability(both, cell.labels),
        "posterior, held-out": posterior(held_out, cell.labels, found.model).clean,
        "posterior, both": found.score,
    }


def ratios(cell: Cell, seen: Dynamics, found: Scores) -> dict[str, float]:
    held_out = Predictions(*seen.held_out.tables())
    loss = torch.from_numpy(-np.log(np.maximum(label_probability(held_out, cell.labels), 1e-6)))
    predicted = held_out.predicted()
    return {
        "noise floor": found.ratio.ratio,
        "interval, low": found.ratio.low,
        "interval, high": found.ratio.high,
        "another class is likelier": float((predicted != cell.labels).mean()),
        "confident counting": confident(held_out, cell.labels, cell.classes),
        "mixture of losses": float((mixture(loss, 10) > 0.5).double().mean()),
        "matrix by EM": fit_at_power(held_out, cell.labels, cell.classes, 1.0, symmetric=False)[0],
    }


def confident(predictions: Predictions, labels: np.ndarray, classes: int) -> float:
    """Share of rows whose label is another than a class that is likelier than on average among its own rows."""
    p = np.zeros((len(labels), classes), np.float32)
    if predictions.classes is None:
        p[:] = predictions.p
    else:
        np.put_along_axis(p, predictions.classes, predictions.p, 1)
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
                    names = [str(k) for k in range(cell.classes)]
                    found = score_labels(run.dynamics, cell.labels, names, noise=run.noise)
                    ranked = {
                        name: f"{roc_auc_score(~cell.noisy, score):.3f}" if rate else "-"
                        for name, score in scores(cell, run.dynamics, found).items()
                    }
                    off = {
                        name: f"{100 * (ratio - cell.noisy.mean()):+.1f}"
                        for name, ratio in ratios(cell, run.dynamics, found).items()
                    }
                    if not titles:
                        titles = ["data", "noise", "method", *ranked, *off]
                        print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
                    kind = f"{noise} {rate:g}" if rate else "none"
                    line = [dataset, kind, method, *ranked.values(), *off.values()]
                    print("| " + " | ".join(line) + " |", flush=True)


if __name__ == "__main__":
    main()
