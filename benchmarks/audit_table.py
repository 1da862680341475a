"""The audit of a table with many rows: seconds and memory.

python benchmarks/audit_table.py
python benchmarks/audit_table.py --rows 1000000
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification

import adaptivek
from adaptivek.noise import Directed, corrupt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=0.2)
    given = parser.parse_args()
    classes = 6
    x, y = make_classification(
        given.rows, 20, n_informative=12, n_redundant=4, n_classes=classes, class_sep=2.0, flip_y=0, random_state=0
    )
    labels = corrupt(y, Directed(given.rate), classes=classes, seed=0)[0].numpy()
    frame = pd.DataFrame(x.astype(np.float32), columns=[f"column {k}" for k in range(x.shape[1])])
    frame["group"] = np.array(["a", "b", "c"])[np.arange(given.rows) % 3]
    frame.loc[::50, "column 0"] = np.nan
    before, started = memory(), time.perf_counter()
    result = adaptivek.audit(frame, labels)
    seconds = time.perf_counter() - started
    noisy = labels != y
    print(f"{given.rows:,} rows of {frame.shape[1]} columns, {classes} classes, {noisy.mean():.1%} of the labels noisy")
    print(f"{seconds:.0f} s, {memory() - before:.0f} MB of memory beyond the data's, {memory():.0f} MB in all")
    print(f"ratio {result.noise_ratio:.3f} ({result.noise_ratio_low:.3f} to {result.noise_ratio_high:.3f})")
    print(f"flagged {result.is_issue.sum():,}, of which {noisy[result.is_issue].mean():.1%} are noisy")


def memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
