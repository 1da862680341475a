"""Tables of benchmarks/real.py, written into docs/real.md between its marks."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from human_labels import is_of_today, shown
from real_compare import CLEAN, GROUPS, ORACLE, PLAIN, Comparison, tells_truth
from real_settings import OWN, Setting

EARLIER_MARK = "†"  # of an earlier revision of the method
NETWORKS = {
    "encoder": "MiniLM fine-tuned for {epochs} epoch{s}",
    "perceptron": "Perceptron on features or TF-IDF, {epochs} epochs",
    "text-bag": "Texts from scratch, {epochs} epochs",
}


def summary(found: Comparison) -> str:
    """A line for each method, over all settings."""
    if not found.settings:
        return "No results yet."
    groups = [name for name in GROUPS if found.mean_closed(ORACLE, name) is not None]
    title = ["method", "mean rank", "gap closed", "with averaged weights", *groups, CLEAN, "least gain", "ratio off by"]
    lines = [_line(title), _line(["---"] * len(title))]
    for method in found.methods:
        rank = "-" if method == ORACLE else f"{found.mean_rank(method):.1f}"
        shares = [found.mean_closed(method), found.mean_closed(method, averaged=True)]
        shares += [found.mean_closed(method, name) for name in groups]
        points = [found.on_clean(method), found.least_gain(method)]
        cells = [*(_number(share, ".0f") for share in shares), *(_number(point, "+.1f") for point in points)]
        name = named(method) + EARLIER_MARK * found.stands_in(method)
        lines.append(_line([name, rank, *cells, _number(found.ratio_error(method), ".1f")]))
    if found.incomplete:
        lines += ["", "Left out, for some of their runs are missing: " + ", ".join(map(named, found.incomplete)) + "."]
    return "\n".join(lines)


def details(found: Comparison) -> str:
    """For each network and number of epochs a table: a line for each method, a column for each setting."""
    parts = []
    for (network, epochs), members in groupby(found.settings, lambda one: (one.network, one.epochs)):
        columns = list(members)
        title = NETWORKS[network].format(epochs=epochs, s="s" * (epochs > 1))
        lines = [f"**{title}**", "", _line(["method", *map(_heading, columns)]), _line(["---"] * (1 + len(columns)))]
        shown = [*found.methods, *found.incomplete]
        order = [PLAIN, ORACLE, *(method for method in shown if method not in (PLAIN, ORACLE))]
        cells = {method: [_cell(found, one, method) for one in columns] for method in order}
        lines += [_line([named(method), *row]) for method, row in cells.items() if set(row) != {"-"}]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) or "No results yet."


def named(method: str) -> str:
    """With a star where it is told what no user knows."""
    return f"`{method}`" + ("*" if tells_truth(method) else "")


def human_labels(lines: Sequence[dict[str, Any]]) -> str:
    """From the results of benchmarks/human_labels.py."""
    scores: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in shown(lines):
        scores.setdefault((line["column"], line["method"]), []).append(line)
    table = [_line(["labels", "method", "seeds", "accuracy", "noise found", "true"]), _line(["---"] * 6)]
    for (column, method), members in sorted(scores.items(), key=lambda item: (item[0][0], -_mean(item[1], "accuracy"))):
        numbers = _spread([100 * line["accuracy"] for line in members])
        known = [line["ratio"] for line in members if line["ratio"] is not None and not math.isnan(line["ratio"])]
        found = 100 * statistics.mean(known) if known else None
        true = f"{100 * _mean(members, 'true'):.1f}"
        name = f"`{method}`" + EARLIER_MARK * (not all(map(is_of_today, members)))
        table.append(_line([column, name, str(len(members)), numbers, _number(found, ".1f"), true]))
    return "\n".join(table)


def write(page: Path, blocks: dict[str, str]) -> None:
    """Put each block between ``<!-- NAME -->`` and ``<!-- end of NAME -->``."""
    text = page.read_text()
    for name, block in blocks.items():
        marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        if len(marks.findall(text)) != 1:
            raise ValueError(f"write: {page} must have <!-- {name} --> and <!-- end of {name} --> once")
        text = marks.sub(lambda match, block=block: f"{match[1]}{block}\n{match[2]}", text)
    page.write_text(text)


def _heading(setting: Setting) -> str:
    if setting.noise == OWN:
        return setting.data + (", balanced" if setting.metric == "balanced" else "")
    return f"{setting.data} {setting.noise} {setting.rate:.0%}" if setting.rate else f"{setting.data} clean"


def _cell(found: Comparison, setting: Setting, method: str) -> str:
    values = found.values(setting, method)
    if not values:
        return "-"
    mark = EARLIER_MARK * found.stands_in(method, setting)
    return f"{_spread(values)}{mark} ({statistics.mean(found.values(setting, method, averaged=True)):.1f})"


def _spread(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def _mean(members: list[dict[str, Any]], key: str) -> float:
    return statistics.mean(line[key] for line in members)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
