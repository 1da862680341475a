"""Figures of the theory. Each function draws one; nothing global is touched, no screen is needed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .beyond import (
    Boundary,
    Surfaces,
    best_threshold,
    clean_ratio,
    clean_ratio_bias,
    least_noisy_share,
    published_ratio,
    too_many_noisy,
)
from .fit import EpochFit
from .mixture import Mixture
from .moments import Floats

try:
    from matplotlib import rc_context as rc_context
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import SymLogNorm
    from matplotlib.figure import Figure as Figure
    from scipy import ndimage
except ImportError:
    raise ImportError("the figures need matplotlib: pip install 'adaptivek[theory]'") from None

MU2, SIGMA2, TAU = r"$\mu_2$", r"$\sigma_2$", r"$\tau$"
LEVELS = (-0.2, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2)  # of the bias
CLEAN, NOISY, ALL, KEPT, OTHER = "#2166ac", "#d6604d", "#444444", "#1b7837", "#762a83"
SHADES = ("#c7e9b4", "#7fcdbb", "#41b6c4", "#2c7fb8", "#253494")  # light to dark: few to many


def densities(mixture: Mixture) -> Figure:
    """The two normals with their shares, and their sum."""
    figure, axes = _plot("loss", "density")
    x, tau = _losses(mixture), float(np.asarray(mixture.tau))
    clean, noisy = (Mixture(mixture.mu1, mixture.sigma1, mixture.mu2, mixture.sigma2, t).pdf(x) for t in (0, 1))
    axes.fill_between(x, (1 - tau) * clean, color=CLEAN, alpha=0.25, label=f"clean, {1 - tau:.0%} of the samples")
    axes.fill_between(x, tau * noisy, color=NOISY, alpha=0.25, label=f"noisy, {tau:.0%} of the samples")
    axes.plot(x, mixture.pdf(x), color=ALL, label="all losses")
    _mark(axes, float(mixture.mean), "mean of all", ALL)
    axes.set_title(f"Losses of clean and of noisy samples ({_named(mixture)})")
    return _finished(figure, axes)


def mkl_densities(mixture: Mixture, n: int) -> Figure:
    """What MKL keeps for several k."""
    figure, axes = _plot("loss", "density")
    x = _losses(mixture)
    ks = sorted({max(1, round(n * share)) for share in (0.2, 0.4, 0.6, 0.8, 1.0)})
    for k, shade in zip(ks, SHADES[-len(ks) :], strict=True):
        kept = mixture.mkl(n, k)
        whole = " (everything)" if k == n else ""
        axes.plot(x, kept.pdf(x), color=shade, label=f"k = {k}{whole}: MSE {float(kept.mse):.2f}")
    _mark(axes, float(np.asarray(mixture.mu1)), "clean mean", CLEAN)
    axes.set_title(f"Losses that MKL keeps: the k smallest of {n} ({_named(mixture)})")
    return _finished(figure, axes)


def adaptive_k_density(mixture: Mixture, n: int, k: int) -> Figure:
    """What Adaptive-k keeps, beside MKL and everything."""
    figure, axes = _plot("loss", "density")
    x, threshold = _losses(mixture), float(mixture.mean)
    x = np.sort(np.append(x, [threshold, np.nextafter(threshold, math.inf)]))  # so that the edge is upright
    rows = [
        (mixture.sgd(), "all losses (SGD)", ALL, "--"),
        (mixture.mkl(n, k), f"MKL, {k} of {n}", OTHER, "-"),
        (mixture.adaptive_k(), "Adaptive-k, up to the mean of all", KEPT, "-"),
    ]
    for kept, label, colour, line in rows:
        axes.plot(x, kept.pdf(x), color=colour, linestyle=line, label=f"{label}: MSE {float(kept.mse):.2f}")
    _mark(axes, float(np.asarray(mixture.mu1)), "clean mean", CLEAN)
    axes.set_title(f"Losses that each method trains on ({_named(mixture)})")
    return _finished(figure, axes)


def sgd_against_mkl(grid: Surfaces) -> Figure:
    """MSE_SGD - MSE_MKL for each tau."""
    return _maps(grid, grid.sgd - grid.mkl, "MSE of SGD - MSE of MKL", ("MKL wins", "SGD wins"), None)


def mkl_against_adaptive_k(grid: Surfaces, boundaries: Sequence[Boundary]) -> Figure:
    """MSE_MKL - MSE_adk for each tau, with the solved boundary."""
    wins = ("Adaptive-k wins", "MKL wins")
    return _maps(grid, grid.mkl - grid.adaptive_k, "MSE of MKL - MSE of Adaptive-k", wins, boundaries)


def thresholds(mixture: Mixture) -> Figure:
    """The error of every threshold, with the mean and the best one."""
    figure, axes = _plot("threshold (loss)", "MSE of the losses kept")
    mu1, sigma1 = float(np.asarray(mixture.mu1)), float(np.asarray(mixture.sigma1))
    every = np.linspace(mu1 - 2 * sigma1, float(_losses(mixture)[-1]), 600)
    axes.plot(every, mixture.adaptive_k(every).mse, color=ALL, label="every threshold")
    axes.axhline(float(mixture.sgd().mse), color=ALL, linestyle=":", label="no threshold (SGD)")
    points = ((float(mixture.mean), "mean of all, the paper's", NOISY), (float(best_threshold(mixture)), "best", KEPT))
    for threshold, label, colour in points:
        error = float(mixture.adaptive_k(threshold).mse)
        axes.plot(threshold, error, "o", color=colour, markersize=8, label=f"{label}: {threshold:.2f}, MSE {error:.2f}")
    axes.set_ylim(0, None)
    axes.set_title(f"Which threshold has the smallest error ({_named(mixture)})")
    return _finished(figure, axes)


def clean_ratios(mixture: Mixture, grid: Surfaces) -> Figure:
    """The clean ratio that Adaptive-k reads, and its bias over the grid."""
    figure = _figure(11, 4.6)
    left, right = figure.subplots(1, 2)
    mu1, sigma1, sigma2 = (float(np.asarray(value)) for value in (mixture.mu1, mixture.sigma1, mixture.sigma2))
    own, tau = float(np.asarray(mixture.tau)), np.linspace(0, 1, 401)
    left.plot(tau, 1 - tau, color=ALL, linestyle="--", label=f"truth, 1 - {TAU}")
    for steps, shade in zip((2, 3, 5, 10), SHADES[1:], strict=True):
        read = clean_ratio(Mixture(mu1, sigma1, mu1 + steps * sigma1, sigma2, tau))
        left.plot(tau, read, color=shade, label=f"read at {MU2} = {mu1 + steps * sigma1:g}")
    left.set(xlabel=f"noise ratio {TAU}", ylabel="clean ratio", ylim=(0, 1))
    left.set_title(f"Read and true clean ratio, {SIGMA2} = {sigma2:g}")
    bias = clean_ratio_bias(Mixture(mu1, sigma1, grid.mu2, grid.sigma2[:, None], own))
    image = right.pcolormesh(grid.mu2, grid.sigma2, bias, cmap="PuOr", vmin=-0.4, vmax=0.4, rasterized=True)
    lines = right.contour(grid.mu2, grid.sigma2, bias, levels=LEVELS, colors=ALL, linewidths=1, linestyles="solid")
    right.clabel(lines, fmt="%+.2f")
    right.set(xlabel=f"mean of noisy losses {MU2}", ylabel=f"spread of noisy losses {SIGMA2}")
    right.set_title(f"Read minus true, {TAU} = {own:g}")
    figure.colorbar(image, ax=right, label="below 0: clean samples taken for noisy")
    left.legend(frameon=False, fontsize=9)
    return _finished(figure)


def published_ratios() -> Figure:
    """The published threshold over steps for constant and falling losses."""
    figure, axes = _plot("step of the adaptive phase", "threshold: keep a loss up to this many units (nats)")
    steps = np.unique(np.round(np.geomspace(1, 20_000, 500)))
    for halving, shade in zip((0, 10_000, 3_000, 1_000), (ALL, *SHADES[2:]), strict=True):
        factor = 0.5 ** (1 / halving) if halving else 1.0
        label = f"halves in {halving:,} steps" if halving else "stays the same"
        axes.plot(steps, published_ratio(steps, factor=factor), color=shade, label=f"loss {label}")
    axes.axhline(1, color=ALL, linewidth=0.8, linestyle=":")
    axes.text(1, 1.02, "1 nat: label has probability 0.37", va="bottom", fontsize=9, color=ALL)
    ticks = (0.1, 0.25, 0.5, 1, 2, 4, 8)
    axes.set(xscale="log", yscale="log", ylim=(0.08, 9))
    axes.set_yticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_title("The published threshold, for a batch loss that stays or falls, of any size")
    return _finished(figure, axes)


def mixing(tau: Sequence[float]) -> Figure:
    """How often a batch holds too many noisy samples for MKL, even with k from the true ratio."""
    figure = _figure(11, 4.6)
    left, right = figure.subplots(1, 2, sharex=True)
    for axes, value in ((left, too_many_noisy), (right, least_noisy_share)):
        for n, shade in zip((10, 32, 128, 1000), SHADES[1:], strict=True):
            chance = [float(value(n, max(1, round((1 - t) * n)), t)) for t in tau]
            axes.plot(tau, chance, "o-", color=shade, label=f"batch of {n}")
        axes.set(xlabel=f"noise ratio {TAU}, with k = (1 - {TAU}) x batch, rounded", ylim=(0, None))
    left.set(ylabel="chance", title="A batch has more noisy samples than MKL leaves out")
    right.set(ylabel="share", title="Noisy share of what MKL keeps, ranking perfect")
    right.legend(frameon=False)
    return _finished(figure)


def run_fits(fits: Sequence[EpochFit]) -> Figure:
    """Predicted and measured shares of a run over its epochs."""
    figure = _figure(11, 4.2)
    epochs = [fit.epoch for fit in fits]
    names = (("kept_share", "share kept"), ("precision", "precision"), ("recall", "recall"))
    for axes, (name, title) in zip(figure.subplots(1, 3, sharey=True), names, strict=True):
        measured, predicted = (
            [getattr(getattr(fit, side), name) for fit in fits] for side in ("measured", "predicted")
        )
        axes.plot(epochs, measured, color=KEPT, label="measured")
        axes.plot(epochs, predicted, "--", color=OTHER, label="predicted by the mixture")
        axes.set(title=title, xlabel="epoch", ylim=(0, 1.02))
        axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    return _finished(figure)


def _maps(
    grid: Surfaces, gain: Floats, label: str, wins: tuple[str, str], boundaries: Sequence[Boundary] | None
) -> Figure:
    """One map per tau in common colours: green where the method named first wins."""
    columns = min(2, len(grid.tau))
    rows = math.ceil(len(grid.tau) / columns)
    figure = _figure(1.5 + 4.5 * columns, 0.8 + 3.6 * rows)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    limit = float(np.abs(gain).max()) or 1.0  # k = n is plain training: no difference anywhere
    norm = SymLogNorm(linthresh=limit / 100, vmin=-limit, vmax=limit)
    for index, axes in enumerate(panels.flat[: len(grid.tau)]):
        image = axes.pcolormesh(grid.mu2, grid.sigma2, gain[index], cmap="PiYG", norm=norm, rasterized=True)
        better = float((gain[index] > 0).mean())
        axes.set_title(f"{TAU} = {grid.tau[index]:g}: {wins[0]} on {better:.1%}", fontsize=10)
        if boundaries is not None:
            edge = boundaries[index]
            # with several solutions a line would join what does not belong together
            single = len(np.unique(edge.sigma2)) == len(edge.sigma2)
            axes.plot(edge.mu2, edge.sigma2, "-" if single else ".", color="black", linewidth=1.5, markersize=3)
        for name, region in zip(wins, (gain[index] > 0, gain[index] < 0), strict=True):
            _label_region(axes, grid, name, region)
    for axes in panels[-1]:
        axes.set_xlabel(f"mean of noisy losses {MU2}")
    for axes in panels[:, 0]:
        axes.set_ylabel(f"spread of noisy losses {SIGMA2}")
    black = "" if boundaries is None else ", black: equal"
    bar = figure.colorbar(image, ax=panels, label=f"{label}   (green: {wins[0]}, pink: {wins[1]}{black})")
    powers = 10.0 ** np.arange(math.ceil(math.log10(limit / 100)), math.floor(math.log10(limit)) + 1)
    bar.set_ticks([*-powers[::-1], 0, *powers], labels=[f"{tick:g}" for tick in (*-powers[::-1], 0, *powers)])
    bar.ax.minorticks_off()
    return figure


def _label_region(axes: Axes, grid: Surfaces, name: str, region: NDArray[np.bool_]) -> None:
    """The name, where the region is widest; nothing where there is no room for it."""
    depth = ndimage.distance_transform_edt(np.pad(region, 1))[1:-1, 1:-1] / len(grid.mu2)
    row, column = np.unravel_index(depth.argmax(), depth.shape)
    if depth.max() > 0.03:
        turn = 90 if depth.max() < 0.15 else 0  # narrow regions stand upright on these maps
        place = float(grid.mu2[column]), float(grid.sigma2[row])
        axes.text(*place, name, fontsize=9, rotation=turn, ha="center", va="center")


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _plot(x: str, y: str) -> tuple[Figure, Axes]:
    figure = _figure(8, 4.6)
    axes = figure.subplots()
    axes.set(xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    return figure, axes


def _finished(figure: Figure, axes: Axes | None = None) -> Figure:
    if axes is not None:
        axes.legend(frameon=False)
    for each in figure.axes:
        each.spines[["top", "right"]].set_visible(False)
        each.title.set_fontsize(11)
    return figure


def _mark(axes: Axes, x: float, text: str, colour: str) -> None:
    axes.axvline(x, color=colour, linewidth=1, linestyle=":")
    axes.text(x, 1.0, f" {text}", transform=axes.get_xaxis_transform(), color=colour, fontsize=9, va="top")


def _losses(mixture: Mixture) -> Floats:
    """Losses that show both normals whole."""
    normals = (mixture.mu1, mixture.sigma1, mixture.mu2, mixture.sigma2)
    mu1, sigma1, mu2, sigma2 = (float(np.asarray(value)) for value in normals)
    low = min(mu1 - 3.5 * sigma1, mu2 - 3.5 * sigma2)
    high = max(mu1 + 3.5 * sigma1, mu2 + 3.5 * sigma2)
    return np.linspace(low, high, 600)


def _named(mixture: Mixture) -> str:
    names = (r"$\mu_1$", r"$\sigma_1$", MU2, SIGMA2, TAU)
    values = (mixture.mu1, mixture.sigma1, mixture.mu2, mixture.sigma2, mixture.tau)
    return ", ".join(f"{name} = {float(np.asarray(value)):g}" for name, value in zip(names, values, strict=True))
