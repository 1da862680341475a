"""The audit of Parquet files that are not held in memory: rows a second, memory, and how well noisy rows are found.

python benchmarks/audit_large.py                          # a table of 20 columns: 100,000 and 1 million rows
python benchmarks/audit_large.py --rows 10000000          # ten million
python benchmarks/audit_large.py --kind text --rows 1000000
python benchmarks/audit_large.py --rows 1000000 --processes 1 2   # the same in one process and in two

Rows are made file by file, as they would come from elsewhere, and the labels of some are then replaced. CPU seconds
and peak are those of the process that took most: what others do on the machine hardly changes them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch.distributed as dist
from sklearn.metrics import roc_auc_score

import adaptivek
from adaptivek.auditing.held_out import Progress
from adaptivek.noise import Directed, corrupt

CLASSES = 6
OF_A_FILE = 250_000
WORDS, LENGTH = 20_000, 60  #: different words, and of a text
CITIES = np.array(["Paris", "Rome", "Bonn", "Oslo", "Riga", "Bern", "Graz", "Lyon"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--kind", choices=["table", "text"], default="table")
    parser.add_argument("--processes", type=int, nargs="+", default=[1], help="that share an audit: 1 2 measures both")
    parser.add_argument("--rate", type=float, default=0.2)
    parser.add_argument("--progress", action="store_true", help="print how far it is")
    given = parser.parse_args()
    print(
        "| rows | files | MB | processes | seconds | CPU seconds | rows a second | peak MB | true | ratio (interval) | "
        "flagged | AUROC |\n" + "|---" * 12 + "|"
    )
    for rows in given.rows:
        with tempfile.TemporaryDirectory() as folder:
            noisy = write(Path(folder) / "data", rows, given.kind, given.rate)
            for processes in given.processes:
                print(measure(Path(folder), noisy, processes, given.progress), flush=True)


def measure(folder: Path, noisy: np.ndarray, processes: int, shown: bool) -> str:
    """A line of the table."""
    data, out = folder / "data", folder / f"audit{processes}"
    files = list(data.iterdir())
    # processes of their own: the peak is that of this run alone
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        ranks = [pool.submit(carry_out, data, out, rank, processes, shown and not rank) for rank in range(processes)]
        found = [rank.result() for rank in ranks]
    rows, size, (seconds, _, _, ratio) = len(noisy), sum(file.stat().st_size for file in files), found[0]
    busy, peak = (max(each[number] for each in found) for number in (1, 2))
    parts = [pq.read_table(part, columns=["score", "is_issue"]) for part in sorted(out.glob("issues/*"))]
    score, flagged = (np.concatenate([part[name].to_numpy() for part in parts]) for name in ("score", "is_issue"))
    return (
        f"| {rows:,} | {len(files)} | {size / 1e6:,.0f} | {processes} | {seconds:.0f} | {busy:.0f} | "
        f"{rows / seconds:,.0f} | {peak:,.0f} | {noisy.mean():.3f} | {ratio} | {flagged.sum():,} | "
        f"{roc_auc_score(noisy, -score):.4f} |"
    )


def carry_out(data: Path, out: Path, rank: int, processes: int, shown: bool) -> tuple[float, float, float, str]:
    """The audit, in one of several processes: seconds, those of the processor, peak in MB, and the noise ratio."""
    if processes > 1:
        store = f"file://{out.parent}/store{processes}"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=processes)
    started, before = time.perf_counter(), time.process_time()
    progress = told(started) if shown else None
    result = adaptivek.audit(data, "label", folder=out, progress=progress, distributed=processes > 1)
    seconds, busy = time.perf_counter() - started, time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if processes > 1:
        dist.destroy_process_group()
    ratio = f"{result.noise_ratio:.3f} ({result.noise_ratio_low:.3f} to {result.noise_ratio_high:.3f})"
    return seconds, busy, peak, ratio


def told(started: float) -> Progress:
    def tell(done: int, total: int) -> None:
        print(f"{time.perf_counter() - started:.0f} s: {done} of {total}", flush=True)

    return tell


def write(folder: Path, rows: int, kind: str, rate: float) -> np.ndarray:
    """Files of rows; which labels are noisy."""
    folder.mkdir()
    noisy = []
    make = table if kind == "table" else texts
    for number, start in enumerate(range(0, rows, OF_A_FILE)):
        count = min(OF_A_FILE, rows - start)
        true = np.random.default_rng([1, number]).integers(0, CLASSES, count)
        labels = corrupt(true, Directed(rate), classes=CLASSES, seed=number)[0].numpy()
        noisy.append(labels != true)
        frame = make(true, np.random.default_rng([2, number]))
        frame["label"] = labels
        frame.to_parquet(folder / f"{number:05d}.parquet", index=False)
    return np.concatenate(noisy)


def table(true: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """Twenty columns: numbers, some of them missing, categories and a date; each class is two clusters."""
    centres = np.random.default_rng(0).normal(0, 1.1, (2 * CLASSES, 12))
    x = centres[2 * true + rng.integers(0, 2, len(true))] + rng.normal(0, 1, (len(true), 12))
    frame = pd.DataFrame(x.astype(np.float32), columns=[f"x{number}" for number in range(12)])
    frame.loc[rng.random(len(true)) < 0.02, "x0"] = np.nan
    for number in range(4):
        frame[f"noise{number}"] = rng.normal(0, 1, len(true)).astype(np.float32)
    frame["stars"] = rng.integers(1, 6, len(true))
    frame["city"] = CITIES[(true + rng.integers(0, 5, len(true))) % len(CITIES)]
    frame["kind"] = np.array(["a", "b", "c"])[rng.integers(0, 3, len(true))]
    frame["day"] = np.datetime64("2024-01-01") + rng.integers(0, 365, len(true)).astype("timedelta64[D]")
    return frame


def texts(true: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """Words by Zipf's law; in each class some of them are three times as frequent."""
    words = np.array([f"w{number}" for number in range(WORDS)])
    lines = np.empty(len(true), object)
    for code in range(CLASSES):
        mine = np.flatnonzero(true == code)
        share = 1 / np.arange(10, WORDS + 10)
        share[np.random.default_rng([3, code]).permutation(WORDS)[: WORDS // 20]] *= 3
        drawn = np.searchsorted(np.cumsum(share / share.sum()), rng.random((len(mine), LENGTH))).clip(max=WORDS - 1)
        lines[mine] = [" ".join(words[row]) for row in drawn]
    return pd.DataFrame({"review": lines})


if __name__ == "__main__":
    main()
