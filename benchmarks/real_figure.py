"""The figure of docs/real.md: how much of the gap to the Oracle each method closes, setting by setting."""

from __future__ import annotations

from pathlib import Path

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from real_compare import GROUPS, ORACLE, PLAIN, Comparison, group, tells_truth

from adaptivek.methods import DEFAULT

COLOURS = dict(zip(GROUPS, ("#7fb3d5", "#1f6fb4", "#c8553d", "#e0a458", "#7a9e4f"), strict=True))
LEFT, RIGHT = -60, 110  # what is beyond is drawn at the edge


def draw(pools: dict[str, Comparison], path: Path) -> None:
    """A panel for each pool; methods from the one with the largest share down, in the same order. Bold: the default."""
    pools = {name: found for name, found in pools.items() if found.settings}
    *_, last = pools.values()
    shared = [method for method in last.methods if all(method in found.methods for found in pools.values())]
    methods = sorted(
        (method for method in shared if method not in (ORACLE, PLAIN)),
        key=lambda method: last.mean_closed(method) or 0.0,
    )
    figure = Figure(figsize=(5.5 * len(pools) + 1, 1.6 + 0.27 * len(methods)), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(pools), sharey=True, squeeze=False)[0]
    for axes, (name, found) in zip(panels, pools.items(), strict=True):
        _panel(axes, found, methods)
        axes.set_title(f"{name}: {len(found.settings)} settings")
    panels[0].set_yticks(range(len(methods)), [f"{method}*" * tells_truth(method) or method for method in methods])
    for label in panels[0].get_yticklabels():
        label.set_fontweight("bold" if label.get_text() == DEFAULT else "normal")
    shown = {name: dot for axes in panels for dot, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(shown.values(), shown, loc="outside lower center", ncols=len(shown), frameon=False)
    rcParams["svg.hashsalt"] = "real"  # the same figure is the same file
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _panel(axes: Axes, found: Comparison, methods: list[str]) -> None:
    for name in GROUPS:
        points = [
            (min(max(share, LEFT), RIGHT), place)
            for place, method in enumerate(methods)
            for one in found.settings
            if group(one) == name and (share := found.closed(one, method)) is not None
        ]
        if points:
            axes.scatter(*zip(*points, strict=True), s=14, color=COLOURS[name], alpha=0.8, linewidths=0, label=name)
    means = [found.mean_closed(method) or 0.0 for method in methods]
    axes.scatter(
        [min(max(mean, LEFT), RIGHT) for mean in means], range(len(methods)),
        s=130, marker="|", color="black", linewidths=2, label="mean of the settings", zorder=3,
    )  # fmt: skip
    for place, style in ((0, "-"), (100, "--")):
        axes.axvline(place, color="#888888", lw=0.8, ls=style, zorder=0)
    axes.set_xlim(LEFT - 4, RIGHT + 4)
    axes.set_xlabel("% of the gap from plain training to the Oracle")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#eeeeee", zorder=0)
    axes.set_axisbelow(True)
