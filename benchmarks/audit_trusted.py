"""Trusted rows: the noise ratio with and without them, and how often the interval holds the truth.

    python benchmarks/audit_trusted.py --data ../shared/data

Each data set is audited once. Then some rows, drawn at random, get their true label and are trusted, many times over;
the held-out predictions stay those of the one run. Noise is real (labels by rules and by a crowd), or made on Sarcasm.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import adaptivek
from adaptivek.auditing.trusted import Known, ratio_from_trusted

REAL = ("weak_agnews", "weak_trec", "weak_sms", "manifesto_crowd")


def cells(folder: Path, rows: int) -> Iterator[tuple[str, list[str], np.ndarray, np.ndarray]]:
    """Name, texts, labels, true labels."""
    for name in REAL:
        frame = pd.read_parquet(folder / "real" / name / "train.parquet")
        frame = frame.sample(min(rows, len(frame)), random_state=0)
        yield name, frame["text"].tolist(), frame["label"].to_numpy(), frame["gold"].to_numpy()
    frame = pd.read_parquet(folder / "sarcasm/train.parquet").sample(rows, random_state=0)
    true, rng = frame["label"].to_numpy(), np.random.default_rng(0)
    for noise in (0.0, 0.1, 0.3):
        flipped = rng.random(len(true)) < noise
        yield f"sarcasm, symmetric {noise:g}", frame["text"].tolist(), np.where(flipped, 1 - true, true), true
    one = (rng.random(len(true)) < 0.3) & (true == 1)
    yield "sarcasm, 30 % of one class", frame["text"].tolist(), np.where(one, 0, true), true


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--trusted", nargs="+", type=int, default=[100, 300])
    parser.add_argument("--draws", type=int, default=20)
    given = parser.parse_args()
    print(
        "| data | true | without (interval) | trusted | mean ratio (mean interval) | holds |\n|---|---|---|---|---|---|"
    )
    for name, texts, labels, gold in cells(given.data, given.rows):
        result = adaptivek.audit(texts, labels.tolist(), device="cpu")
        code = {each: number for number, each in enumerate(result.classes)}
        true = np.array([code[str(each)] for each in gold[result.row]])
        without = f"{result.noise_ratio:.3f} ({result.noise_ratio_low:.3f} to {result.noise_ratio_high:.3f})"
        for number in given.trusted:
            found, holds = [], 0
            for draw in range(given.draws):
                trusted = np.zeros(len(true), bool)
                trusted[np.random.default_rng(draw).choice(len(true), number, replace=False)] = True
                now = np.where(trusted, true, result.label)
                one = ratio_from_trusted(result.held_out, now, Known(trusted), len(result.classes))
                assert one is not None
                found.append(one.ratio)
                holds += one.ratio.low - 5e-4 <= (now != true).mean() <= one.ratio.high + 5e-4
            ratio, low, high = np.mean(found, axis=0)
            print(
                f"| {name} | {(result.label != true).mean():.3f} | {without} | {number} "
                f"| {ratio:.3f} ({low:.3f} to {high:.3f}) | {holds} of {given.draws} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
