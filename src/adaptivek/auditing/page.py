"""The audit as one page: the noise ratio, where the noise is, and the flagged rows to decide on."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import __version__
from ..pages import drawing as draw
from ..pages.render import Markup, render, shared_style
from ..support.files import plain, write_whole
from .embed import Shown as Shown
from .embed import embed
from .issues import annotators
from .large.fetched import Fetched
from .names import used_as
from .result import AuditResult

HERE = Path(__file__).parent
SCRIPTS = ("rows.js", "decisions.js", "list.js", "detail.js", "next.js", "page.js")  #: in this order, as one
MOST_CLASSES = 20  #: of a heat map, and of the bars
MOST_PAIRS, MOST_SKIPPED = 10, 1_000
MOST_ANNOTATORS = 50
BINS = 60
FEW = 20  #: rows of a class that say something about it
NAME = 60  #: characters of a class in a drawing
NO = "\N{EN DASH}"


@dataclass(frozen=True)
class Cell:
    """Of the heat map: rows of a true class with an observed label."""

    observed: int
    true: int
    text: str
    about: str
    part: float  #: strength of its colour, from 0 to 1


@dataclass(frozen=True)
class Bar:
    """A line of a list: a class or a pair, with what a click filters by."""

    observed: int
    suggested: int  #: -1 for any
    names: tuple[str, ...]
    value: str
    detail: str
    part: float  #: length, from 0 to 1


def write_page(path: str | Path, result: AuditResult, shown: Shown, title: str) -> None:
    """Write the page, there whole or not at all."""
    write_whole(Path(path), page(result, shown, title))


def page(result: AuditResult, shown: Shown, title: str) -> str:
    """The page as text; the same result gives the same text."""
    embedded = embed(result, shown)
    names = [short(name) for name in result.classes]
    return render(
        HERE / "page.html",
        script="\n".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS),
        style=shared_style() + (HERE / "page.css").read_text(encoding="utf-8"),
        version=__version__,
        title=plain(title),
        data=Markup(embedded.json),
        notes=embedded.notes,
        kind=shown.kind,
        issues="issues/" if isinstance(shown.content, Fetched) else "issues.csv",
        command=command(result),
        used=plain(used_as(result.settings.get("used_as", {}))),
        review=review(result),
        annotators=[(short(name), *numbers) for name, *numbers in annotators(result)[:MOST_ANNOTATORS]],
        n_annotators=len(annotators(result)),
        percent=percent,
        summary=summary(result),
        reading=reading(result),
        warnings=[plain(each) for each in result.warnings],
        skipped=[(named(result, row), plain(reason)[:300]) for row, reason in result.skipped[:MOST_SKIPPED]],
        n_skipped=len(result.skipped),
        names=names,
        heat=heat_map(result) if len(names) <= MOST_CLASSES else [],
        pairs=pairs(result),
        bars=class_bars(result),
        histogram=Markup(histogram(result)),
        has_threshold=math.isfinite(result.loss_cut),
        settings=[(plain(str(name)), plain(str(value))[:300]) for name, value in result.settings.items()],
    )


def summary(result: AuditResult) -> dict[str, object]:
    low, high = (min(1.0, max(0.0, value)) for value in (result.noise_ratio_low, result.noise_ratio_high))
    return {
        # where the ratio is not known, no single number stands out
        "ratio": percent(result.noise_ratio) if result.known else f"{100 * low:.0f} to {100 * high:.0f} %",
        "low": percent(low),
        "high": percent(high),
        "part": 100 * result.noise_ratio,
        "low_part": 100 * low,
        "wide_part": 100 * (high - low),
        "flagged": int(result.is_issue.sum()),
        "rows": len(result.row),
        "classes": len(result.classes),
        "time": duration(result.seconds),
        "accuracy": percent(result.accuracy),
    }


def reading(result: AuditResult) -> list[str]:
    """What the numbers say, in sentences."""
    ratio, flagged = result.noise_ratio, int(result.is_issue.sum())
    if result.warnings:
        return ["Something went wrong, see above: take the numbers below as they are, not as the truth."]
    if not flagged:
        return [
            "No row is flagged: as far as the model can tell, the labels are clean. "
            f"Up to {percent(result.noise_ratio_high)} noisy labels cannot be excluded."
        ]
    frequency = f"about one label in {1 / ratio:.0f}" if 0.001 <= ratio <= 0.34 else f"about {percent(ratio)} of labels"
    said = [f"{frequency.capitalize()} looks noisy." if "one" in frequency else f"{frequency.capitalize()} look noisy."]
    if not result.known:
        said = [f"{result.headline[:1].upper()}{result.headline[1:]}."]
    said += [plain(note) for note in result.notes]
    sizes = np.bincount(result.label, minlength=len(result.classes))
    noise = np.where(sizes >= FEW, np.nan_to_num(result.noise_per_class), 0.0)
    worst = int(noise.argmax())
    if noise[worst] > 1.5 * ratio:
        name = short(result.classes[worst])
        said.append(f"The noisiest class is “{name}”: {percent(float(noise[worst]))} of the rows labelled so.")
    most = pairs(result)[:1]
    if most:
        observed, suggested = most[0].names
        said.append(f"The most frequent pair: observed “{observed}”, suggested “{suggested}” ({most[0].detail}).")
    return said


def command(result: AuditResult) -> str:
    """What starts the next round, after the decisions have been downloaded."""
    source, label = result.settings.get("source"), result.settings.get("label")
    given = [shlex.quote(plain(str(source)))] if source else ["DATA"]
    given += [f"--label {shlex.quote(plain(str(name)))}" for name in _several(label) if name != "labels"]
    return " ".join(["adaptivek audit", *given, "--decisions corrected.csv", "--out NEXT"])


def _several(label: object) -> list[object]:
    return [] if label is None else list(label) if isinstance(label, (tuple, list)) else [label]


def review(result: AuditResult) -> str:
    """What an earlier round has decided."""
    reviewed = None if result.given is None else result.given.reviewed
    if reviewed is None:
        return ""
    kept, fixed = (int((reviewed.decision == how).sum()) for how in ("keep", "fix"))
    dropped = len(reviewed.dropped)
    return (
        f"{_number(kept + fixed + dropped, 'decision')} of earlier rounds: {_number(fixed, 'label')} fixed, "
        f"{_number(kept, 'label')} kept, {_number(dropped, 'row')} dropped. They are trusted, and the noise ratio is "
        "that of the labels as they are now."
    )


def heat_map(result: AuditResult) -> list[list[Cell]]:
    """A line for each true class, a cell for each observed label."""
    names = [short(name) for name in result.classes]
    noisy = np.nan_to_num(result.transition) * (1 - np.eye(len(names)))
    most = max(float(noisy.max(initial=0)), 0.02)  # or a hundredth of a percent would glow
    counts = dict(_flagged_pairs(result))
    lines = []
    for true, shares in enumerate(result.transition.tolist()):
        line = []
        for observed, share in enumerate(shares):
            known = math.isfinite(share)
            text = f"{100 * share:.0f}" if known and share >= 0.005 else "\N{MIDDLE DOT}" if known else ""
            number = counts.get((observed, true), 0)
            about = (
                f"observed {names[observed]}, truly {names[true]}: {percent(share)} of all that truly are "
                f"{names[true]}; {number:,} flagged"
            )
            line.append(Cell(observed, true, text, about, round(float(noisy[true, observed]) / most, 3)))
        lines.append(line)
    return lines


def pairs(result: AuditResult) -> list[Bar]:
    """The most frequent pairs of observed and suggested label among the flagged rows."""
    names = [short(name) for name in result.classes]
    found = _flagged_pairs(result)[: MOST_PAIRS if len(names) <= MOST_CLASSES else 2 * MOST_PAIRS]
    most = max((number for _, number in found), default=1)
    return [
        Bar(observed, true, (names[observed], names[true]), f"{number:,}", f"{number:,} flagged", number / most)
        for (observed, true), number in found
    ]


def class_bars(result: AuditResult) -> list[Bar]:
    """The noisiest classes."""
    rows = np.bincount(result.label, minlength=len(result.classes)).tolist()
    noise = np.nan_to_num(result.noise_per_class, nan=-1.0).tolist()
    order = sorted(range(len(noise)), key=lambda code: -noise[code])[:MOST_CLASSES]
    return [
        Bar(
            code,
            -1,
            (short(result.classes[code]),),
            percent(noise[code]),
            _number(rows[code], "row"),
            max(0, noise[code]),
        )
        for code in order
    ]


def histogram(result: AuditResult) -> str:
    """Losses of the rows that are flagged, and of the others, as SVG."""
    known = np.isfinite(result.loss)
    loss, flagged = result.loss[known], result.is_issue[known]
    reach = float(np.quantile(loss, 0.999)) if len(loss) else 1.0
    edges = np.linspace(min(0.0, float(loss.min(initial=0))), max(reach, 1e-6), BINS + 1)
    figure, axes = draw.panel((5.2, 2.9), "loss", "rows")
    highest = 1
    for chosen, colour in ((~flagged, draw.CLEAN), (flagged, draw.NOISY)):
        heights = np.histogram(np.minimum(loss[chosen], edges[-1]), edges)[0]
        highest = max(highest, int(heights.max()))
        axes.stairs(heights, edges, color=colour, alpha=0.22, fill=True)
        axes.stairs(heights, edges, color=colour, linewidth=1.3)
    if math.isfinite(result.loss_cut):
        axes.axvline(result.loss_cut, color=draw.INK, linestyle="--", linewidth=1.3)
    powers = [10**power for power in range(math.ceil(math.log10(highest)) + 1)]
    axes.set(yscale="log", ylim=(0.7, 1.4 * highest), xlim=(edges[0], edges[-1]))
    axes.set_yticks(powers, labels=[f"{power:,}" for power in powers])
    axes.minorticks_off()
    return draw.svg(figure, "losses", "histogram of losses")


def short(name: object) -> str:
    """A class name for a narrow place."""
    text = plain(str(name)[: 4 * NAME]) or "(empty)"
    return text if len(text) <= NAME else f"{text[: NAME - 1]}…"


def named(result: AuditResult, row: int) -> str:
    """A row by its file, or by its number."""
    files = None if result.given is None else result.given.files
    return f"row {row}" if files is None else plain(files[row])


def percent(value: float) -> str:
    if not math.isfinite(value) or value < 0:
        return NO
    return f"{100 * value:.1f} %"


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _number(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def _flagged_pairs(result: AuditResult) -> list[tuple[tuple[int, int], int]]:
    """((observed, suggested), number), the most frequent first."""
    chosen = result.is_issue & (result.label != result.suggested_label)
    both = np.stack([result.label[chosen], result.suggested_label[chosen]], 1)
    values, numbers = np.unique(both, axis=0, return_counts=True)
    found = [
        ((int(observed), int(true)), int(number)) for (observed, true), number in zip(values, numbers, strict=True)
    ]
    return sorted(found, key=lambda each: -each[1])
