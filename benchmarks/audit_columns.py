"""A table with a text column: noisy labels found by the text alone, by the other columns alone, and by all together.

    python benchmarks/audit_columns.py --data ../shared/data

Pairs of products with a crowd worker's labels (12 similarities and the titles), and Sarcasm with 20 % noise, to which a
number that tells something of the label, one that tells nothing, and a category that tells nothing are added.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score

import adaptivek


def cells(folder: Path, rows: int) -> Iterator[tuple[str, pd.DataFrame, np.ndarray, np.ndarray]]:
    """Name, inputs, labels, true labels."""
    frame = pd.read_parquet(folder / "real/product_pairs_amt/train.parquet").iloc[:rows]
    yield (
        "pairs",
        frame.drop(columns=["label", "majority", "gold"]),
        frame["label"].to_numpy(),
        frame["gold"].to_numpy(),
    )
    frame = pd.read_parquet(folder / "sarcasm/train.parquet").sample(rows, random_state=0).reset_index(drop=True)
    true, rng = frame["label"].to_numpy(), np.random.default_rng(0)
    labels = np.where(rng.random(rows) < 0.2, 1 - true, true)
    source = rng.choice(["a", "b", "c", "d"], rows)
    nothing, something = rng.standard_normal(rows), rng.standard_normal(rows) + true
    columns = {"text": frame["text"], "source": source, "nothing": nothing, "something": something}
    yield "sarcasm and three columns", pd.DataFrame(columns), labels, true


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=4_000)
    given = parser.parse_args()
    print("| data | learned from | AUROC | average precision |\n|---|---|---|---|")
    for name, frame, labels, true in cells(given.data, given.rows):
        noisy = labels != true
        for used, options in {
            "text": {"text": "text"},
            "other columns": {"ignore": ["text"]},
            "all columns": {},
        }.items():
            found = adaptivek.audit(frame, labels, device="cpu", **options)
            area = roc_auc_score(noisy[found.row], -found.score)
            precision = average_precision_score(noisy[found.row], -found.score)
            print(f"| {name} | {used} | {area:.3f} | {precision:.3f} |", flush=True)


if __name__ == "__main__":
    main()
