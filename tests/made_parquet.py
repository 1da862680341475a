"""Rows with noisy labels in Parquet files, as large data would have them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adaptivek.auditing.large import issues, load, rows

ROWS = 1_500


def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of 100 rows, files of three of them, and a sample of 400."""
    monkeypatch.setattr(rows, "BATCH", 100)
    monkeypatch.setattr(load, "SAMPLE", 400)
    monkeypatch.setattr(issues, "PART", 3)


def table(number: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """Three classes, a fifth of the labels noisy; all kinds of columns, cells and labels missing."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 3, number)
    x = np.eye(3)[true] * 2.5 + rng.normal(0, 1, (number, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    frame["count"] = pd.array(rng.integers(0, 9, number), dtype="Int64")
    frame["city"] = np.array(["Rome", "Bonn", "Paris"])[(true + (rng.random(number) < 0.5)) % 3]
    frame["sold"] = rng.random(number) < 0.5
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, number), unit="D")
    frame.loc[rng.random(number) < 0.05, ["a", "count"]] = None
    noisy = rng.random(number) < 0.2
    frame["label"] = np.array(["low", "mid", "high"])[np.where(noisy, (true + 1) % 3, true)]
    frame.loc[[7, number // 3, number - 1], "label"] = None
    return frame


def reviews(number: int = 600) -> pd.DataFrame:
    """Texts, some of them empty, some twice with another label."""
    rng = np.random.default_rng(1)
    kinds = [[f"good{i}" for i in range(40)], [f"bad{i}" for i in range(40)]]
    true = rng.integers(0, 2, number)
    lines = [" ".join([*rng.choice(kinds[code], 6), *rng.choice([f"w{i}" for i in range(200)], 8)]) for code in true]
    labels = np.where(rng.random(number) < 0.15, 1 - true, true)
    lines[20], lines[300], lines[301] = "", lines[4], lines[5]
    labels[300], labels[301] = 1 - labels[4], 1 - labels[5]
    return pd.DataFrame({"review": lines, "stars": labels})


def split(frame: pd.DataFrame, folder: Path, sizes: Sequence[int]) -> Path:
    folder.mkdir(parents=True)
    ends = [*np.cumsum(sizes).tolist(), len(frame)]
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        frame.iloc[start:end].to_parquet(folder / f"part{number}.parquet", index=False, row_group_size=170)
    return folder
