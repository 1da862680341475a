"""The noise ratio that the default reports at the end of training, beside the true one.

    python benchmarks/noise_found.py run --datasets digits sarcasm 20newsgroups imdb hotel
    python benchmarks/noise_found.py table

The recipes of `adaptivek bench`. "all doubt" is one minus the mean confidence in the labels of the last steps, which is
what was reported before; "reported" is `Selection.noise_ratio`, which may be NaN, and then there is a reason. One line
of JSON for each setting; those that are there are not run again. The limits of the rule were chosen on digits, Sarcasm,
20 newsgroups and some data sets of benchmarks/real.py; the last of them with a look at IMDB and the first epochs of
Hotel reviews too.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measurements import read_lines

from adaptivek.experiments.session import Session
from adaptivek.experiments.spec import RECIPES, RunSpec
from adaptivek.methods import DEFAULT

OUT = Path("results/noise_found.jsonl")
KINDS, RATES = ("directed", "symmetric"), (0.0, 0.1, 0.2, 0.3, 0.4)
NEAR = 0.05  # of the true ratio: right
Line = dict[str, Any]


def settings(datasets: Sequence[str]) -> list[tuple[str, str, float]]:
    """Without noise there is but one kind, and with two classes both are the same."""
    two = ("sarcasm", "imdb")
    return [
        (dataset, kind, rate)
        for dataset in datasets
        for rate in RATES
        for kind in (KINDS[:1] if not rate or dataset in two else KINDS)
    ]


def run(dataset: str, kind: str, rate: float, root: Path | None) -> Line:
    session = Session(RunSpec(dataset, DEFAULT, kind, rate, recipe=RECIPES[dataset]), device="cpu", root=root)
    *_, last = session
    criterion = session.criterion
    return {
        "dataset": dataset, "noise": kind, "rate": rate, "true": last.true_noise_ratio,
        "all_doubt": 1 - float(criterion.tally.recent_confidence / criterion.tally.recent_seen),
        "reported": criterion.noise_ratio, "reason": criterion.noise_ratio_reason, "accuracy": last.test_accuracy,
    }  # fmt: skip


def table(lines: Sequence[Line]) -> str:
    text = ["| data set | noise | true | all doubt | reported |", "|---|---|---:|---:|---:|"]
    for line in lines:
        told = "NaN" if math.isnan(line["reported"]) else f"{line['reported']:.1%}"
        text.append(
            f"| {line['dataset']} | {line['noise'] if line['rate'] else 'none'} | {line['true']:.1%} | "
            f"{line['all_doubt']:.1%} | {told} |"
        )
    for name in ("all_doubt", "reported"):
        known = [abs(line[name] - line["true"]) for line in lines if not math.isnan(line[name])]
        right = sum(error <= NEAR for error in known)
        worst = f", the largest error {100 * max(known):.1f} points" if known else ""
        text.append(
            f"\n{name.replace('_', ' ')}: {right} of {len(lines)} within five points, {len(known) - right} wrong, "
            f"{len(lines) - len(known)} not known{worst}"
        )
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--datasets", nargs="+", default=["digits", "sarcasm", "20newsgroups", "imdb", "hotel"])
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    lines = read_lines(given.out)
    if given.what == "table":
        print(table(lines))
        return
    done = {(line["dataset"], line["noise"], line["rate"]) for line in lines}
    for setting in settings(given.datasets):
        if setting not in done:
            line = run(*setting, given.data_root)
            with given.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
