"""What an audit found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class AuditResult:
    """One entry of every array of length n for each row that could be read."""

    row: NDArray[np.int64]  #: (n,) number in the data as given, from 0; rows that were skipped are absent
    label: NDArray[np.int64]  #: (n,) codes into classes
    suggested_label: NDArray[np.int64]  #: (n,) codes into classes
    score: NDArray[np.float32]  #: (n,) from 0, surely wrong, to 1, surely right
    is_issue: NDArray[np.bool_]  #: (n,) their number agrees with the ratio
    loss: NDArray[np.float32]  #: (n,) the loss of the histogram
    loss_cut: float  #: between flagged and not; NaN if there is no such number
    classes: list[str]  #: names in order of the codes
    transition: NDArray[np.float64]  #: (K, K) [true, given] share of the rows of a true class given a label
    noise_per_class: NDArray[np.float64]  #: (K,) share of wrong labels among rows given this label
    noise_ratio: float
    noise_ratio_low: float
    noise_ratio_high: float
    accuracy: float  #: how often the remembered prediction agrees with the label
    warnings: list[str]  #: empty if the audit is to be trusted
    skipped: list[tuple[int, str]]  #: rows that could not be read, and why
    seconds: float
    settings: dict[str, Any]
