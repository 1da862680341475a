"""Whether results agree with what the paper's figures show: a number or two for each data set. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from ...pages.drawing import average
from ..records import Detail, EpochRecord
from ..store import Result
from .tables import ADAPTIVE_K, MKL, VANILLA, Row

#: how close to the truth a noise ratio must be to be found "with high precision"
PRECISE = 0.02
#: how often, of the epochs with selection, the threshold must lie between the two means
MOSTLY = 0.9
#: how much of the changes from mini-batch to mini-batch must be followed: a correlation
FOLLOWED = 0.5


class Verdict(NamedTuple):
    """Of one claim on one data set."""

    agrees: bool
    numbers: str  #: what it is read from


def quality(row: Row) -> Verdict:
    """(a) Whether what Adaptive-k keeps is cleaner than what MKL keeps, and misses less of the clean; last epoch."""
    ours, theirs = (_last(row, method) for method in (ADAPTIVE_K, MKL))
    told, better = [], []
    for name in ("precision", "recall"):
        one, other = (average([getattr(record, name) for record in records]) for records in (ours, theirs))
        told.append(f"{name} {_share(one)} (MKL {_share(other)})")
        better.append(one > other)
    return Verdict(all(better), ", ".join(told))


def batches(row: Row) -> Verdict | None:
    """(b) Whether the share that Adaptive-k keeps follows the clean share of the mini-batches, and MKL's less so."""
    ours, theirs = (_last_details(row.cells[method].results) for method in (ADAPTIVE_K, MKL))
    if not ours or not theirs:
        return None
    off, off_mkl = (_off(details) for details in (ours, theirs))
    follows = _correlation(
        [share for detail in ours for share in detail.clean_share],
        [share for each in ours for share in each.kept_share],
    )
    numbers = f"correlation {follows:.2f}; {_points(off)} off the clean share on average (MKL {_points(off_mkl)})"
    return Verdict(follows >= FOLLOWED and off < off_mkl, numbers)


def threshold(row: Row) -> Verdict | None:
    """(c) Whether the threshold lies between the mean losses of clean and of noisy labels while there is one."""
    records = [record for result in row.cells[ADAPTIVE_K].results for record in result.epochs if record.selecting]
    if not records:
        return None
    between = sum(record.clean_loss_mean < record.threshold < record.noisy_loss_mean for record in records)
    return Verdict(
        between >= MOSTLY * len(records), f"in {_share(between / len(records))} of the epochs with selection"
    )


def kept(rows: Sequence[Row]) -> Verdict:
    """(d) Whether the share kept at the end is the clean share, at every noise rate."""
    errors = []
    for row in rows:
        records = _last(row, ADAPTIVE_K)
        errors.append(average([record.kept_share - (1 - record.true_noise_ratio) for record in records]))
    told = (f"{100 * error:+.1f}".replace("-", "\N{MINUS SIGN}") for error in errors)
    return Verdict(
        all(abs(error) <= PRECISE for error in errors), f"points off at the rates in turn: {', '.join(told)}"
    )


def apart(row: Row) -> Verdict | None:
    """(e) Whether the losses of clean and noisy labels are further apart at the end than when selection began."""
    ours = [_separations(result) for result in row.cells[ADAPTIVE_K].results if len(result.details) > 1]
    if not ours:
        return None
    before, after = (average([each[place] for each in ours]) for place in (0, 1))
    numbers = f"{_share(before)} of pairs in the right order when selection begins, {_share(after)} at the end"
    others = row.cells[VANILLA].results if row.has(VANILLA) else ()
    plain = [_separations(result)[1] for result in others if len(result.details) > 1]
    return Verdict(after > before, numbers + (f" (Vanilla {_share(average(plain))})" if plain else ""))


def separation(detail: Detail) -> float:
    """How often a noisy label has a higher loss than a clean one, of all pairs; in one bin they count half: AUROC."""
    pairs = sum(detail.clean_losses) * sum(detail.noisy_losses)
    below = [0, *accumulate(detail.clean_losses)]
    won = sum(
        noisy * (lower + clean / 2)
        for noisy, clean, lower in zip(detail.noisy_losses, detail.clean_losses, below, strict=False)
    )
    return won / pairs if pairs else math.nan


def _separations(result: Result) -> tuple[float, float]:
    """At the end of plain training, or of the first epoch if there is none; and at the end."""
    plain = max(result.spec.recipe.warmup_epochs, 1)
    first = next((detail for detail in result.details if detail.epoch >= plain), result.details[0])
    return separation(first), separation(result.details[-1])


def _last(row: Row, method: str) -> list[EpochRecord]:
    return [result.epochs[-1] for result in row.cells[method].results]


def _last_details(results: Sequence[Result]) -> list[Detail]:
    return [result.details[-1] for result in results if result.details]


def _off(details: Sequence[Detail]) -> float:
    """How far the share kept is from the clean share of a mini-batch, on average."""
    both = [pair for detail in details for pair in zip(detail.clean_share, detail.kept_share, strict=True)]
    return average([abs(clean - taken) for clean, taken in both])


def _correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Pearson's; 0 where one of them never changes."""
    mean, mean_other = average(one), average(other)
    product = math.fsum((a - mean) * (b - mean_other) for a, b in zip(one, other, strict=True))
    scale = math.sqrt(math.fsum((a - mean) ** 2 for a in one) * math.fsum((b - mean_other) ** 2 for b in other))
    return product / scale if scale else 0.0


def _share(value: float) -> str:
    return f"{100 * value:.1f} %" if math.isfinite(value) else "n/a"


def _points(value: float) -> str:
    return f"{100 * value:.1f} points"
