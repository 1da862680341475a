"""What the runs of benchmarks/real.py come to: gains over plain training, gaps closed, ranks."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from real_settings import OWN, Job, Setting, earlier_version, settings, version

from adaptivek.methods import find

PLAIN, ORACLE = "vanilla", "oracle"
SMALL_GAP = 2.0  # points: of a smaller gap a share says nothing
GROUPS = ("fine-tuned, 20 %", "fine-tuned, 40 %", "fine-tuned, real noise", "features, real noise", "from scratch")
CLEAN = "clean labels"
Line = dict[str, Any]


def group(setting: Setting) -> str:
    if setting.network == "text-bag":
        return GROUPS[4]
    if setting.network == "perceptron":
        return GROUPS[3]
    if setting.noise == OWN:
        return GROUPS[2]
    return GROUPS[1] if setting.rate > 0.3 else GROUPS[0] if setting.rate else CLEAN


def current(lines: Iterable[Line]) -> dict[Job, Line]:
    """The latest result of each job, by the methods as they are now, or an earlier one that stands in."""
    found, before = dict[Job, Line](), dict[Job, Line]()
    for line in lines:
        try:
            now = version(line["method"])
        except ValueError:  # a method, or a parameter, that is no more
            continue
        if line["version"] == now:
            found[Job.from_dict(line)] = line
        elif line["version"] == earlier_version(line["method"]):
            before[Job.from_dict(line)] = {**line, "stands_in": True}
    return before | found


class Comparison:
    """Results of some settings, each method against plain training with the same seeds."""

    def __init__(self, results: dict[Job, Line], wanted: Sequence[Setting]) -> None:
        self._lines: dict[tuple[Setting, str], dict[int, Line]] = {}
        for job, line in results.items():
            self._lines.setdefault((job.setting, job.method), {})[job.seed] = line
        #: those of which both bounds are known
        self.settings = [one for one in wanted if all((one, bound) in self._lines for bound in (PLAIN, ORACLE))]

    @cached_property
    def methods(self) -> list[str]:
        """Those that have all settings, by their mean rank; the Oracle, which has none, first."""
        ranked = sorted(self._complete - {ORACLE}, key=lambda method: (self.mean_rank(method), method))
        return [ORACLE, *ranked] if ranked else []

    @cached_property
    def incomplete(self) -> list[str]:
        return sorted({method for setting, method in self._lines if setting in self.settings} - self._complete)

    @cached_property
    def _complete(self) -> set[str]:
        methods = {method for _, method in self._lines}
        return {method for method in methods if all(self._seeds(one, method) for one in self.settings)}

    def values(self, setting: Setting, method: str, averaged: bool = False) -> list[float]:
        """Of the last epoch, in per cent, a number for each seed."""
        key = f"averaged_{setting.metric}" if averaged else setting.metric
        return [line[key][-1] for line in self._lines.get((setting, method), {}).values()]

    def stands_in(self, method: str, setting: Setting | None = None) -> bool:
        """Whether a result of an earlier revision is among those of a setting, or of all."""
        wanted = self.settings if setting is None else [setting]
        return any("stands_in" in line for one in wanted for line in self._lines.get((one, method), {}).values())

    def gain(self, setting: Setting, method: str, averaged: bool = False) -> float:
        """Points above plain training (with its last weights), mean over the seeds that both have."""
        key = f"averaged_{setting.metric}" if averaged else setting.metric
        own, plain = self._lines[setting, method], self._lines[setting, PLAIN]
        return statistics.mean(
            own[seed][key][-1] - plain[seed][setting.metric][-1] for seed in self._seeds(setting, method)
        )

    def closed(self, setting: Setting, method: str, averaged: bool = False) -> float | None:
        """How much of the gap from plain training to the Oracle, in per cent; None where there is hardly any."""
        gap = self.gain(setting, ORACLE)
        return 100 * self.gain(setting, method, averaged) / gap if gap >= SMALL_GAP else None

    def mean_closed(self, method: str, name: str = "", averaged: bool = False) -> float | None:
        """Over the settings of a group, or over all."""
        wanted = [one for one in self.settings if not name or group(one) == name]
        shares = [share for one in wanted if (share := self.closed(one, method, averaged)) is not None]
        return statistics.mean(shares) if shares else None

    def on_clean(self, method: str) -> float | None:
        """Points above plain training where no label is noisy."""
        gains = [self.gain(one, method) for one in self.settings if group(one) == CLEAN]
        return statistics.mean(gains) if gains else None

    def least_gain(self, method: str) -> float:
        return min(self.gain(one, method) for one in self.settings)

    def rank(self, setting: Setting, method: str) -> float:
        """From 1 for the best; the Oracle does not take part, and equals share their places."""
        gains = [self.gain(setting, other) for other in self._complete - {ORACLE}]
        own = self.gain(setting, method)
        return 1 + sum(gain > own for gain in gains) + (sum(gain == own for gain in gains) - 1) / 2

    def mean_rank(self, method: str) -> float:
        return statistics.mean(self.rank(one, method) for one in self.settings)

    def ratio_error(self, method: str) -> float | None:
        """Points between the noise ratio that the criterion reports and the true one, mean; None: it reports none."""
        errors = [
            100 * abs(line["noise_ratio"] - line["true_noise_ratio"])
            for setting in self.settings
            for line in self._lines.get((setting, method), {}).values()
            if line["noise_ratio"] is not None
        ]
        return statistics.mean(errors) if errors else None

    def _seeds(self, setting: Setting, method: str) -> list[int]:
        return sorted(self._lines.get((setting, method), {}).keys() & self._lines[setting, PLAIN].keys())


def pool(results: dict[Job, Line], development: bool, fine_tuned: bool) -> Comparison:
    """The development pool, or what was held back; of the pre-trained network, or of the small ones."""
    wanted = [one for one in settings() if (one.network == "encoder") == fine_tuned]
    return Comparison(results, [one for one in wanted if one.development == development])


def tells_truth(method: str) -> bool:
    """Whether a method is told what no user knows."""
    found = find(method.partition(":")[0])
    return found.privileged or (bool(found.clean_share) and f"{found.clean_share}=" not in method)
