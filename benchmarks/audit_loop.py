"""The loop of fixing: audit, decide on what is flagged, audit again with the decisions.

    python benchmarks/audit_loop.py --data ../shared/data

The decisions are those of a person who always finds the true label. In each round all flagged rows are decided, at
least 60 of the lowest score. Prints, for every round, the true noise ratio of the labels as they are then, the estimate
with its interval, and how many of the flagged rows are noisy.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import adaptivek

REAL = ("weak_agnews", "manifesto_crowd", "weak_sms")
LEAST = 60


def cells(folder: Path, rows: int) -> Iterator[tuple[str, list[str], np.ndarray, np.ndarray]]:
    """Name, texts, labels, true labels."""
    frame = pd.read_parquet(folder / "sarcasm/train.parquet").sample(rows, random_state=0)
    true = frame["label"].to_numpy()
    flipped = np.random.default_rng(0).random(rows) < 0.2
    yield "sarcasm, symmetric 0.2", frame["text"].tolist(), np.where(flipped, 1 - true, true), true
    for name in REAL:
        frame = pd.read_parquet(folder / "real" / name / "train.parquet")
        frame = frame.sample(min(rows, len(frame)), random_state=0)
        yield name, frame["text"].tolist(), frame["label"].to_numpy(), frame["gold"].to_numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=2_500)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print("| data | round | decided before | true | ratio (interval) | flagged | noisy of these |")
    print("|---|---|---|---|---|---|---|")
    path = Path(tempfile.mkdtemp()) / "corrected.csv"
    for name, texts, given_labels, gold in cells(given.data, given.rows):
        labels, true = given_labels.astype(str), gold.astype(str)
        decided: dict[int, list[str]] = {}
        for number in range(1, given.rounds + 1):
            with path.open("w", newline="", encoding="utf-8") as file:
                table = csv.writer(file)
                table.writerow(["row", "label", "corrected_label", "decision"])
                table.writerows([row, *said] for row, said in decided.items())
            found = adaptivek.audit(texts, labels.tolist(), device="cpu", decisions=path if decided else None)
            noisy = np.array(found.classes)[found.label] != true[found.row]
            share = f"{noisy[found.is_issue].mean():.2f}" if found.is_issue.any() else "-"
            print(
                f"| {name} | {number} | {len(decided):,} | {noisy.mean():.3f} | {found.noise_ratio:.3f} "
                f"({found.noise_ratio_low:.3f} to {found.noise_ratio_high:.3f}) | {found.is_issue.sum()} | {share} |",
                flush=True,
            )
            open_rows = [int(row) for row in found.row[np.argsort(found.score)] if int(row) not in decided]
            for row in open_rows[: max(LEAST, int(found.is_issue.sum()))]:
                decided[row] = [labels[row], true[row], "keep" if labels[row] == true[row] else "fix"]


if __name__ == "__main__":
    main()
