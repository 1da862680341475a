"""What cleaning does to a model, over several splits into rows to audit and test rows.

    ADAPTIVEK_DATA=data python benchmarks/audit_downstream.py --splits 8

Where `audit_real.py` has one split of a few hundred test rows, chance moves balanced accuracy by a point or two. The
model is the usual logistic regression. It is trained on the data as given, then on the rows that are not flagged, on
the cleaned data, and on the rows whose label is true, which nobody knows.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from audit_cells import Cell, made
from audit_real import downstream

import adaptivek

CELLS = ("cancer clean", "cancer hard 0.2", "clusters clean", "clusters hard 0.2", "sarcasm clean", "sarcasm hard 0.2",
         "sarcasm symmetric 0.4", "hotel clean", "hotel one-class 0.2", "hotel symmetric 0.2", "news20 clean",
         "news20 symmetric 0.2")  # fmt: skip
HALF_A_POINT = 0.005


def gained(cell: Cell) -> list[float]:
    """By the rows that are not flagged, the cleaned data, and true labels alone, over the data as given."""
    x = cell.x if cell.kind == "text" else np.asarray(cell.x, np.float32)
    result = adaptivek.audit(x, cell.labels, device="cpu")
    before = downstream(cell, np.ones(len(cell.labels), bool))
    after = [downstream(cell, kept) for kept in (~result.is_issue, ~result.left_out, ~cell.noisy)]
    assert before is not None
    return [value - before for value in after if value is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=CELLS)
    parser.add_argument("--splits", type=int, default=8)
    given = parser.parse_args()
    print(
        "| cell | without flagged rows | the cleaned data | splits more than half a point below | true labels alone |\n"
        "|---|---|---|---|---|"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in given.cells:
            data, noise, rate = [*name.split(), "0"][:3]
            found = np.array([gained(made(data, noise, float(rate), 100 + seed)) for seed in range(given.splits)])
            error = found.std(0, ddof=1) / len(found) ** 0.5
            cells = [f"{mean:+.3f} ± {spread:.3f}" for mean, spread in zip(found.mean(0), error, strict=True)]
            below = " / ".join(str(int((found[:, place] < -HALF_A_POINT).sum())) for place in (0, 1))
            print(f"| {name} | {cells[0]} | {cells[1]} | {below} of {len(found)} | {cells[2]} |", flush=True)


if __name__ == "__main__":
    main()
