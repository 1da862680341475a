"""The paper's claims, and the same asked of the default method: in how many settings each holds. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..spec import PAPER_DATASETS, PAPER_METHODS, PAPER_RATES
from .names import named
from .tables import ADAPTIVE_K, DEFAULT, MKL, ORACLE, VANILLA, Measure, Row, Setting

#: what the paper counts, of its 28 settings
PAPER_SETTINGS, BEATS_VANILLA, BEATS_MKL, CLOSEST = 28, 21, 27, 18


@dataclass(frozen=True)
class Claim:
    """In how many settings a claim holds."""

    text: str
    holds: int
    settings: int
    paper: int  #: of the paper's 28; 0 where it is no claim of the paper
    against: tuple[Setting, ...]  #: where it does not hold


def claims(table: Sequence[Row], measure: Measure, method: str = ADAPTIVE_K, name: str = "Adaptive-k") -> list[Claim]:
    """The paper's three, by means over seeds, counted over the settings with noise that have all that is compared.

    For another ``method``, called ``name``, closest to Oracle is said of it beside all of the paper's.
    """
    noisy = [row for row in table if row.setting.rate > 0]
    closest = {}
    for row in noisy:
        if row.has(*PAPER_METHODS, method):
            oracle, rivals = row.stat(ORACLE, measure).mean, {*PAPER_METHODS, method} - {ORACLE}
            away = {rival: abs(oracle - row.stat(rival, measure).mean) for rival in rivals}
            closest[row.setting] = away[method] == min(away.values())
    asked = (
        (f"{name} beats Vanilla", _beats(noisy, method, VANILLA, measure), BEATS_VANILLA),
        (f"{name} beats MKL", _beats(noisy, method, MKL, measure), BEATS_MKL),
        (f"{name} is closest to Oracle", closest, CLOSEST),
    )
    return [_claim(*each) for each in asked]


def claims_of_default(table: Sequence[Row], measure: Measure) -> list[Claim]:
    """What one would ask of the default method, counted likewise; no claims of the paper."""
    noisy = [row for row in table if row.setting.rate > 0]
    own = named(DEFAULT)
    rivals = {"Vanilla": VANILLA, "MKL": MKL, "Adaptive-k": ADAPTIVE_K}
    return [_claim(f"{own} beats {name}", _beats(noisy, DEFAULT, rival, measure)) for name, rival in rivals.items()]


def counted(table: Sequence[Row], method: str = ADAPTIVE_K, name: str = "Adaptive-k") -> list[tuple[Claim, Claim]]:
    """The paper's claims that there is a setting to count for, by the last epoch and by the best."""
    return _counted(claims(table, "last", method, name), claims(table, "best", method, name))


def counted_of_default(table: Sequence[Row]) -> list[tuple[Claim, Claim]]:
    """The same of the default method's."""
    return _counted(claims_of_default(table, "last"), claims_of_default(table, "best"))


def _counted(last: Sequence[Claim], best: Sequence[Claim]) -> list[tuple[Claim, Claim]]:
    return [both for both in zip(last, best, strict=True) if both[0].settings]


def _beats(noisy: Sequence[Row], method: str, rival: str, measure: Measure) -> dict[Setting, bool]:
    return {
        row.setting: row.stat(method, measure).mean > row.stat(rival, measure).mean
        for row in noisy
        if row.has(method, rival)
    }


def _claim(text: str, found: dict[Setting, bool], paper: int = 0) -> Claim:
    against = tuple(setting for setting, holds in found.items() if not holds)
    return Claim(text, sum(found.values()), len(found), paper, against)


def paper_settings(table: Sequence[Row]) -> int:
    """How many of the paper's settings are there, with all five methods."""
    return len(
        {
            (row.setting.dataset, row.setting.rate)
            for row in table
            if row.setting.dataset in PAPER_DATASETS
            and row.setting.noise == "directed"
            and row.setting.rate in PAPER_RATES
            and row.has(*PAPER_METHODS)
        }
    )
