"""The audit where all noisy labels are of one class: two classes, a share of the first one labelled as the second.

    python benchmarks/audit_one_class.py

Prints the ratio with its interval and AUROC of finding the noisy labels. The classes differ in one of five columns, by
so many standard deviations.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.metrics import roc_auc_score

import adaptivek


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--apart", nargs="+", type=float, default=[2.0, 3.0, 4.0])
    parser.add_argument("--shares", nargs="+", type=float, default=[0.0, 0.1, 0.2, 0.4])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print("| apart | of the first class | true | ratio (interval) | AUROC |\n|---|---|---|---|---|")
    for apart in given.apart:
        for share in given.shares:
            rng = np.random.default_rng(given.seed)
            y = np.arange(given.rows) % 2
            x = rng.standard_normal((given.rows, 5))
            x[:, 0] += apart * y
            noisy = (y == 0) & (rng.random(given.rows) < share)
            found = adaptivek.audit(x, np.where(noisy, 1, y), device="cpu", seed=given.seed)
            interval = f"{found.noise_ratio_low:.3f} to {found.noise_ratio_high:.3f}"
            area = f"{roc_auc_score(noisy, -found.score):.3f}" if noisy.any() else "-"
            print(
                f"| {apart:g} | {share:g} | {noisy.mean():.3f} | {found.noise_ratio:.3f} ({interval}) | {area} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
