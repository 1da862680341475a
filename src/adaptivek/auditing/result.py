"""What an audit found, and the files it is written to."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..support.files import harmless, write_whole
from .noise_estimate import NoiseEstimate
from .noise_floor import NoiseRatio
from .targets import Targets
from .targets import save as save_targets

if TYPE_CHECKING:
    import pandas as pd

    from .data import AuditData


@dataclass(frozen=True, eq=False)
class AuditResult:
    """One entry of every array of length n for each row that could be read."""

    row: NDArray[np.int64]  #: (n,) number in the original data, from 0; rows that were skipped are absent
    label: NDArray[np.int64]  #: (n,) the observed label, a code into classes
    suggested_label: NDArray[np.int64]  #: (n,) codes into classes; the label itself where it is not flagged
    score: NDArray[np.float32]  #: (n,) from 0, surely noisy, to 1, surely clean
    is_issue: NDArray[np.bool_]  #: (n,) flagged: as many rows as the noise ratio says
    loss: NDArray[np.float32]  #: (n,) the per-sample loss of the histogram
    loss_cut: float  #: the threshold that leaves as many rows beyond it as are flagged; NaN if none are
    classes: list[str]  #: names in order of the codes
    transition: NDArray[np.float64]  #: (K, K) [true, observed] share of the rows of a true class with this label
    noise_per_class: NDArray[np.float64]  #: (K,) share of noisy labels among the rows with this label
    noise_ratio: float
    noise_ratio_low: float
    noise_ratio_high: float
    accuracy: float  #: how often the network that has not seen a row agrees with its label
    warnings: list[str]  #: empty if the audit is to be trusted
    skipped: list[tuple[int, str]]  #: rows that could not be read, and why
    seconds: float
    settings: dict[str, Any]
    given: AuditData | None = field(default=None, repr=False)  #: the data, for the page and the cleaned copy
    for_training: Targets | None = field(default=None, repr=False)  #: what training may begin with

    @property
    def predictions(self) -> NDArray[np.float32]:
        """(rows, classes) of the network that has not seen a row, by the row numbers of the original data.

        In the order of ``classes``; zeros for rows that could not be read. ``Selection(start=result)`` begins with
        them.
        """
        return self._for_training().predictions

    @property
    def targets(self) -> NDArray[np.float32]:
        """The same of what to learn in place of the labels: how likely each class is, given prediction and label."""
        return self._for_training().targets

    @property
    def noise(self) -> NoiseEstimate:
        """The noise ratio with its interval, as an audit that goes on from this one takes it."""
        ratio = NoiseRatio(self.noise_ratio, self.noise_ratio_low, self.noise_ratio_high)
        return NoiseEstimate(ratio, bool(self.settings.get("instance_dependent")))

    def _for_training(self) -> Targets:
        if self.for_training is None:
            raise ValueError("AuditResult: predictions must come from an audit, got a result that was made without")
        return self.for_training

    @property
    def summary(self) -> dict[str, Any]:
        """What summary.json holds."""
        names = zip(self.classes, self.noise_per_class.tolist(), strict=True)
        return {
            "n_rows": len(self.row),
            "n_classes": len(self.classes),
            "noise_ratio": round(self.noise_ratio, 6),
            "noise_ratio_low": round(self.noise_ratio_low, 6),
            "noise_ratio_high": round(self.noise_ratio_high, 6),
            "n_flagged": int(self.is_issue.sum()),
            "n_skipped": len(self.skipped),
            "skipped": [{"row": row, "reason": reason} for row, reason in self.skipped],
            "accuracy": round(self.accuracy, 6),
            "warnings": self.warnings,
            "seconds": round(self.seconds, 2),
            "classes": self.classes,
            "noise_per_class": [{"class": name, "noise": round(noise, 6)} for name, noise in names],
            "transition": self.transition.round(6).tolist() if len(self.classes) <= 100 else None,
            "settings": self.settings,
        }

    def to_datalab(self) -> pd.DataFrame:
        """A frame with the columns and names of cleanlab's `Datalab.get_issues("label")`, one line a row."""
        import pandas as pd

        names = np.array(self.classes, dtype=object)
        columns = {
            "is_label_issue": self.is_issue,
            "label_score": self.score,
            "given_label": names[self.label],
            "predicted_label": names[self.suggested_label],
        }
        return pd.DataFrame(columns, index=pd.Index(self.row, name="row"))

    def save(self, folder: str | Path) -> list[Path]:
        """Write summary, issues, targets, the data without flagged rows, and the page; give the files written."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        summary = json.dumps(self.summary, indent=2, ensure_ascii=False) + "\n"
        write_whole(folder / "summary.json", summary)
        names = [harmless(name) for name in self.classes]
        columns = (self.row, self.label, self.suggested_label, self.score, self.is_issue)
        lines = zip(*(column.tolist() for column in columns), strict=True)
        with (folder / "issues.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["row", "label", "suggested_label", "score", "is_issue"])
            table.writerows((row, names[a], names[b], f"{score:.6f}", issue) for row, a, b, score, issue in lines)
        written = [folder / "summary.json", folder / "issues.csv"]
        if self.for_training is not None:
            written.append(save_targets(self.for_training, folder))
        if self.given is not None:
            from .page import Shown, write_page

            written.append(folder / self.given.write_clean(folder, self.row[self.is_issue]))
            title = str(self.settings.get("source") or "Label audit")
            shown = Shown(self.given.kind, self.given.content)  # type: ignore[arg-type]
            write_page(folder / "report.html", self, shown, title)
            written.append(folder / "report.html")
        return written
