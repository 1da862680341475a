"""The theory as files: figures, and a page with the numbers that needs nothing beside it."""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..support.files import write_whole
from . import figures as draw
from .beyond import (
    Boundary,
    Surfaces,
    best_threshold,
    boundary,
    clean_ratio,
    corrected_noise_ratios,
    least_noisy_share,
    published_ratio,
    surfaces,
    too_many_noisy,
)
from .fit import EpochFit
from .mixture import Mixture

#: noise ratios of the paper
TAUS = (0.1, 0.2, 0.3, 0.4)
#: the grid, in units of sigma1: mu2 - mu1 up to 10 and sigma2 up to 5, in this many steps each
GRID, MU2_REACH, SIGMA2_REACH = 200, 10.0, 5.0
SHARES = ("kept_share", "precision", "recall")


@dataclass(frozen=True)
class Table:
    """Numbers with a heading; the page and the command print the same."""

    title: str
    note: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with the name of its files and what it shows."""

    name: str
    caption: str
    figure: draw.Figure


@dataclass(frozen=True)
class Setting:
    """One mixture of plain numbers, and MKL's batch and k."""

    mu1: float = 0.0
    sigma1: float = 1.0
    mu2: float = 5.0
    sigma2: float = 2.0
    tau: float = 0.4
    n: int = 10
    k: int = 6

    def __post_init__(self) -> None:
        self.mixture().mkl(self.n, self.k)  # names what is wrong

    def mixture(self, tau: float | None = None) -> Mixture:
        return Mixture(self.mu1, self.sigma1, self.mu2, self.sigma2, self.tau if tau is None else tau)


def report(setting: Setting, fits: list[EpochFit] | None = None) -> tuple[list[Table], list[Picture]]:
    """All tables and figures for a setting, and for a run if its fits are given."""
    mixture = setting.mixture()
    steps = np.arange(1, GRID + 1) / GRID  # not from 0: mu2 > mu1 and sigma2 > 0
    spread = setting.sigma1 * SIGMA2_REACH * steps
    reach = setting.mu1 + setting.sigma1 * MU2_REACH
    mu2 = setting.mu1 + setting.sigma1 * MU2_REACH * steps
    grid = surfaces(setting.mu1, setting.sigma1, mu2, spread, np.array(TAUS), setting.n, setting.k)
    edges = [
        boundary(setting.mu1, setting.sigma1, spread[1::2], tau, setting.n, setting.k, (setting.mu1, reach), cells=100)
        for tau in TAUS
    ]
    tables = [
        _errors(setting),
        _claims(grid, edges),
        _thresholds(setting),
        _clean_ratios(setting),
        _published(),
        _mixing(setting),
    ]
    pictures = [
        Picture("mixture", "Losses of clean and noisy samples, and of all.", draw.densities(mixture)),
        Picture("mkl", "What MKL keeps: the mean of the first k order statistics.",
                draw.mkl_densities(mixture, setting.n)),
        Picture("adaptive-k", "What Adaptive-k keeps: everything up to the mean of all losses.",
                draw.adaptive_k_density(mixture, setting.n, setting.k)),
        Picture("sgd-against-mkl", "Claim 1. Green: the error of MKL is smaller.", draw.sgd_against_mkl(grid)),
        Picture("mkl-against-adaptive-k",
                "Claim 2. Green: the error of Adaptive-k is smaller. Black: both equal, solved.",
                draw.mkl_against_adaptive_k(grid, edges)),
        Picture("thresholds", "The error of every threshold.", draw.thresholds(mixture)),
        Picture("clean-ratio", "The clean ratio that is read off the mean threshold, and its bias.",
                draw.clean_ratios(mixture, grid)),
        Picture("published-threshold", "The published threshold over the steps.", draw.published_ratios()),
        Picture("mixing", "Why a fixed k fails even at the true noise ratio.",
                draw.mixing([number / 20 for number in range(1, 11)])),
    ]  # fmt: skip
    if fits is not None:
        tables.append(_run(fits))
        pictures.append(Picture("run", "A recorded run: measured, and predicted by the mixture.", draw.run_fits(fits)))
    return tables, pictures


def write(folder: Path, tables: list[Table], pictures: list[Picture]) -> list[Path]:
    """Each figure as SVG and PNG, and theory.html with all of it."""
    folder.mkdir(parents=True, exist_ok=True)
    written, shown = [], []
    for picture in pictures:
        for kind in ("svg", "png"):
            path = folder / f"{picture.name}.{kind}"
            write_whole(path, _rendered(picture.figure, kind))
            written.append(path)
        # as an image of its own: names inside one SVG must not meet those inside another
        data = base64.b64encode((folder / f"{picture.name}.svg").read_bytes()).decode()
        caption = html.escape(picture.caption)
        image = f'<img alt="{caption}" src="data:image/svg+xml;base64,{data}">'
        shown.append(f"<figure>{image}<figcaption>{caption}</figcaption></figure>")
    page = folder / "theory.html"
    write_whole(page, PAGE.format(tables="\n".join(map(_html, tables)), figures="\n".join(shown)))
    return [*written, page]


def _rendered(figure: draw.Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    # no date and no random names inside: the same numbers give the same file
    with draw.rc_context({"svg.hashsalt": "adaptivek"}):
        figure.savefig(buffer, format=kind, dpi=130, metadata={"Date": None} if kind == "svg" else None)
    figure.set_layout_engine("none")  # laid out once is enough, and half of the time
    return buffer.getvalue()


def _errors(setting: Setting) -> Table:
    mixture = setting.mixture()
    kept = {
        "SGD": mixture.sgd(),
        f"MKL, {setting.k} of {setting.n}": mixture.mkl(setting.n, setting.k),
        "Adaptive-k": mixture.adaptive_k(),
    }
    rows = []
    for name, method in kept.items():
        values = method.mean, (method.mean - setting.mu1) ** 2, method.variance, method.mse
        rows.append((name, *(f"{value:.6f}" for value in values)))
    named = ", ".join(f"{name} {getattr(setting, name):g}" for name in ("mu1", "sigma1", "mu2", "sigma2", "tau"))
    note = f"Of the losses that each method trains on, against the clean mean; {named}."
    return Table("Errors", note, ("method", "mean", "squared bias", "variance", "MSE"), tuple(rows))


def _claims(grid: Surfaces, edges: list[Boundary]) -> Table:
    rows = []
    for index, tau in enumerate(grid.tau):
        shares = grid.mkl_beats_sgd()[index], grid.adaptive_k_beats_mkl()[index]
        found = edges[index].mu2
        equal = f"{found.min():.3f} to {found.max():.3f}" if found.size else "none on the grid"
        rows.append((f"{tau:g}", *(f"{share:.2%}" for share in shares), equal))
    note = (
        f"Share of a grid of {len(grid.mu2)} x {len(grid.sigma2)} points, mu2 up to {grid.mu2[-1]:g} and sigma2 up to "
        f"{grid.sigma2[-1]:g}. The last column is mu2 where MSE_adk = MSE_MKL, over all sigma2."
    )
    header = ("tau", "MKL beats SGD", "Adaptive-k beats MKL", "equal at mu2")
    return Table("Where the claims hold", note, header, tuple(rows))


def _thresholds(setting: Setting) -> Table:
    rows = []
    for tau in _taus(setting):
        mixture = setting.mixture(tau)
        best = best_threshold(mixture)
        values = mixture.mean, mixture.adaptive_k().mse, best, mixture.adaptive_k(best).mse
        rows.append((f"{tau:g}", *(f"{value:.4f}" for value in values)))
    note = "The smallest error that any threshold reaches, beside that of the mean of all losses."
    return Table("The best threshold", note, ("tau", "mean", "its MSE", "best", "its MSE"), tuple(rows))


def _clean_ratios(setting: Setting) -> Table:
    rows = []
    for tau in _taus(setting):
        read = float(clean_ratio(setting.mixture(tau)))
        found = corrected_noise_ratios(read, setting.mu1, setting.sigma1, setting.mu2, setting.sigma2)
        solutions = " or ".join(f"{value:.4f}" for value in found)
        rows.append((f"{tau:g}", f"{1 - tau:.4f}", f"{read:.4f}", f"{read - (1 - tau):+.4f}", solutions))
    note = "F_D(mu_D) against 1 - tau, and every tau that would give the same reading."
    return Table("The clean ratio that is read", note, ("tau", "true", "read", "bias", "corrected tau"), tuple(rows))


def _published() -> Table:
    rows = []
    for step in (1, 12, 100, 500, 1_000, 5_000, 10_000):
        row = [f"{step:,}"]
        for factor in (1.0, 0.5**0.001):
            threshold, mean = float(published_ratio(step, factor=factor)), factor ** (step - 1)
            row += [f"{threshold:.3f}", f"{np.exp(-threshold):.3f}", f"{threshold / mean:.3f}"]
        rows.append(tuple(row))
    note = (
        "m / (sqrt(v) + eps): in units of the loss; for cross-entropy, the least probability of a label that is kept; "
        "and the threshold over the batch mean, for a loss of 1 that stays or halves every 1,000 steps."
    )
    kinds = ("constant", "falling")
    header = ("step", *(f"{kind}: {name}" for kind in kinds for name in ("threshold", "probability", "over mean")))
    return Table("The published threshold", note, header, tuple(rows))


def _mixing(setting: Setting) -> Table:
    told = [(n, max(1, round((1 - setting.tau) * n))) for n in (10, 32, 128, 1000)]
    rows = []
    for n, k in sorted({(setting.n, setting.k), *told}):
        values = too_many_noisy(n, k, setting.tau), least_noisy_share(n, k, setting.tau)
        rows.append((str(n), str(k), *(f"{value:.4f}" for value in values)))
    note = f"At tau {setting.tau:g}. The last column is for the best case: every noisy loss above every clean one."
    header = ("batch", "k", "chance of a batch", "noisy share of the kept")
    return Table("Too many noisy samples for k", note, header, tuple(rows))


def _run(fits: list[EpochFit]) -> Table:
    rows = []
    for fit in fits:
        pairs = [(getattr(fit.predicted, name), getattr(fit.measured, name)) for name in SHARES]
        rows.append((str(fit.epoch), f"{fit.threshold:.3f}", *(f"{a:.3f} / {b:.3f}" for a, b in pairs)))
    note = "Predicted by the mixture of the epoch's losses / measured."
    return Table("A recorded run", note, ("epoch", "threshold", "share kept", "precision", "recall"), tuple(rows))


def _taus(setting: Setting) -> list[float]:
    return sorted({0.0, *TAUS, setting.tau})


def _html(table: Table) -> str:
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in table.header)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    title, note = html.escape(table.title), html.escape(table.note)
    rows = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    # a region that takes the focus: so the keyboard can scroll a wide table
    return f'<h2>{title}</h2><p>{note}</p><div role="region" aria-label="{title}" tabindex="0">{rows}</div>'


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>adaptivek: the theory</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; }}
[role="region"] {{ overflow-x: auto; }}
th, td {{ text-align: right; padding: .25rem .8rem; border-bottom: 1px solid #8886;
  font-variant-numeric: tabular-nums; }}
th:first-child, td:first-child {{ text-align: left; }}
figure {{ margin: 2rem 0; }}
img {{ max-width: 100%; background: white; border-radius: .4rem; }}
figcaption {{ opacity: .8; }}
</style></head><body><main>
<h1>The theory of Adaptive-k</h1>
<p>Losses of samples with clean labels are normal, those with noisy labels are normal with a higher mean. The error of a
method is the mean squared error of the losses it trains on against the mean of the clean ones.</p>
{tables}
<h2>Figures</h2>
{figures}
</main></body></html>
"""
