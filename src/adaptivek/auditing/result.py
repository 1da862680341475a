"""What an audit found, and the files it is written to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..support.files import write_whole
from .decisions import corrections
from .issues import annotators, left_out, write_annotators, write_issues

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
    other_label: NDArray[np.int64]  #: (n,) codes of the most likely class besides the label, of every row
    other_probability: NDArray[np.float32]  #: (n,) and its probability
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
            "skipped": [{"row": row} | self._file(row) | {"reason": reason} for row, reason in self.skipped],
            "accuracy": round(self.accuracy, 6),
            "warnings": self.warnings,
            "seconds": round(self.seconds, 2),
            "classes": self.classes,
            "noise_per_class": [{"class": name, "noise": round(noise, 6)} for name, noise in names],
            "transition": self.transition.round(6).tolist() if len(self.classes) <= 100 else None,
            "annotators": [
                {"annotator": name, "labels": number, "error_rate": round(error, 6), "agreement": round(agreement, 6)}
                for name, number, error, agreement in annotators(self)
            ],
            "settings": self.settings,
        }

    def _file(self, row: int) -> dict[str, str]:
        files = None if self.given is None else self.given.files
        return {} if files is None else {"file": files[row]}

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
        """Write summary.json, issues.csv, the data without flagged rows, and report.html; give what was written."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        summary = json.dumps(self.summary, indent=2, ensure_ascii=False) + "\n"
        write_whole(folder / "summary.json", summary)
        write_issues(folder / "issues.csv", self)
        written = [folder / "summary.json", folder / "issues.csv"]
        if self.given is not None:
            from .page import Shown, write_page

            if self.given.votes is not None:
                write_annotators(folder / "annotators.csv", self)
                written.append(folder / "annotators.csv")
            written.append(folder / self.given.write_clean(folder, left_out(self), corrections(self.given)))
            title = str(self.settings.get("source") or "Label audit")
            shown = Shown(*self.given.shown)  # type: ignore[arg-type]
            write_page(folder / "report.html", self, shown, title)
            written.append(folder / "report.html")
        return written
