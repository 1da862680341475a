"""The paper's figures with these results, for every data set: each below the paper's claim, with a verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ... import __version__
from ...pages.drawing import Key, Panel, Picture
from ...pages.render import render, shared_style
from ...support.files import make_folder, place, write_whole
from ..spec import PAPER_METHODS
from ..store import Result
from . import closeups, figures, verdicts
from .claims import PAPER_SETTINGS, Claim, counted, paper_settings
from .names import NAMES, named
from .page import HERE, SHADES, Entry, accuracy_line, read
from .tables import ADAPTIVE_K, DEFAULT, MKL, Row, all_methods, dataset_order, rows
from .text import setting_name
from .verdicts import Verdict


@dataclass(frozen=True)
class Figure:
    """One of the paper's, with ours."""

    name: str
    title: str
    claim: str  #: what the paper reads from it, in our words
    reading: str
    keys: tuple[Key, ...]
    panels: tuple[Panel, ...]
    found: tuple[tuple[str, Verdict], ...]  #: by setting

    @property
    def agree(self) -> int:
        return sum(verdict.agrees for _, verdict in self.found)


@dataclass(frozen=True)
class _Closeup:
    """A figure that the paper has of one data set, at one noise rate."""

    name: str
    title: str
    claim: str
    rate: float
    methods: tuple[str, ...]  #: that it needs
    judge: Callable[[Row], Verdict | None]
    draw: Callable[[Row, str], Picture]


def _closeups(methods: Sequence[str]) -> tuple[_Closeup, ...]:
    return (
        _Closeup(
            "quality", "(a) Precision and recall, epoch by epoch",
            "What Adaptive-k keeps is cleaner than what MKL keeps, and it loses less of what is clean, although it is "
            "not told the noise ratio. (MNIST, 40 % noise.)",
            0.4, (ADAPTIVE_K, MKL), verdicts.quality,
            lambda row, mark: closeups.selection_quality(row, methods, mark),
        ),
        _Closeup(
            "batches", "(b) The share selected, mini-batch by mini-batch",
            "The share that Adaptive-k selects follows the clean share of each mini-batch, while MKL always selects "
            "the same. (MNIST, 40 % noise.)",
            0.4, (ADAPTIVE_K, MKL), verdicts.batches, lambda row, mark: closeups.batches(row, methods, mark),
        ),
        _Closeup(
            "losses", "(c) Losses and the threshold",
            "Once selection begins, the threshold lies between the losses of clean and of noisy labels. (MNIST, 30 % "
            "noise.)",
            0.3, (ADAPTIVE_K,), verdicts.threshold, lambda row, mark: closeups.losses(row, mark),
        ),
        _Closeup(
            "histograms", "(e) Losses at stages of training",
            "With Adaptive-k the losses of clean and of noisy labels move apart as training goes on. (MNIST, 30 % "
            "noise.)",
            0.3, (ADAPTIVE_K,), verdicts.apart, lambda row, mark: closeups.histograms(row, mark),
        ),
    )  # fmt: skip


def _figure(about: _Closeup, table: Sequence[Row]) -> Figure | None:
    """The figure for each data set that has what it needs."""
    panels: list[Panel] = []
    found: list[tuple[str, Verdict]] = []
    drawn: Picture | None = None
    for number, dataset in enumerate(sorted({row.setting.dataset for row in table}, key=dataset_order)):
        row = closeups.choose([each for each in table if each.setting.dataset == dataset], about.rate, *about.methods)
        verdict = None if row is None else about.judge(row)
        if row is None or verdict is None:
            continue
        drawn = about.draw(row, f"-{number}")
        found.append((setting_name(row.setting), verdict))
        panels += [dataclasses.replace(panel, title=f"{named(dataset)}: {panel.title}") for panel in drawn.panels]
    if drawn is None:
        return None
    return Figure(about.name, about.title, about.claim, drawn.reading, drawn.keys, tuple(panels), tuple(found))


def _kept(table: Sequence[Row]) -> Figure | None:
    groups = {
        setting: [row for row in group if row.has(ADAPTIVE_K)]
        for setting, group in figures.panels_of([row for row in table if row.has(ADAPTIVE_K)]).items()
    }
    if not groups:
        return None
    picture = figures.kept_shares(table)
    found = tuple((named(setting.dataset), verdicts.kept(group)) for setting, group in groups.items())
    claim = (
        "The share that Adaptive-k keeps comes to the clean share, whatever the noise ratio, with the same settings on "
        "every data set: so it estimates the noise ratio with high precision."
    )
    title = "(d) The share kept, for each noise rate"
    reading = f"{picture.reading} It agrees where the last epoch is within {100 * verdicts.PRECISE:g} points."
    return Figure("kept", title, claim, reading, picture.keys, picture.panels, found)


def paper_figures(table: Sequence[Row]) -> list[Figure]:
    """(a) to (e), those for which there are results."""
    methods = [name for name in all_methods(table) if name in (*PAPER_METHODS, DEFAULT)]
    drawn = [_figure(about, table) for about in _closeups(methods)]
    drawn.insert(3, _kept(table))
    return [figure for figure in drawn if figure is not None]


def counts(table: Sequence[Row]) -> list[tuple[Claim, Claim, bool | None]]:
    """The claims of the table of accuracies, by the last and by the best epoch; whether the paper's own, which go by
    the best, hold in as large a share here. For this library's default there is nothing to agree with."""
    paper = [(last, best, best.holds * PAPER_SETTINGS >= best.paper * best.settings) for last, best in counted(table)]
    own = [(last, best, None) for last, best in counted(table, DEFAULT, NAMES[DEFAULT])]
    return [*paper, *own]


def page(results: Sequence[Result]) -> str:
    """The page as text; the same results give the same text."""
    table = [row for row in rows(results) if row.setting.rate > 0]
    methods = all_methods(table)
    lines: list[list[Entry]] = [accuracy_line(row, methods, "best") for row in table]
    return render(
        HERE / "paper.html",
        script="",
        style=shared_style(),
        version=__version__,
        figures=paper_figures(table),
        counts=counts(table),
        settings=paper_settings(table),
        paper_settings=PAPER_SETTINGS,
        datasets=len({row.setting.dataset for row in table}),
        methods=[named(method) for method in methods],
        lines=lines,
        shades=SHADES,
    )


def write(folder: str | Path, out: str | Path) -> Path:
    """Write paper.html of the results in ``folder``; its path."""
    text = page(read(folder)[0])
    target = place(out) / "paper.html"
    make_folder(target.parent)
    write_whole(target, text)
    return target
