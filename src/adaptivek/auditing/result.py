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
from .noise_estimate import FLOOR, NoiseEstimate
from .noise_floor import NoiseRatio
from .targets import Targets
from .targets import save as save_targets

if TYPE_CHECKING:
    import pandas as pd

    from .data import AuditData
    from .predictions import Predictions

LITTLE = 5e-4  #: less is shown as 0.0 %
MOST_LISTED = 10_000  #: skipped rows in summary.json; the issues have all
WIDE = 0.15  #: an interval of the noise ratio beyond which it is not known


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
    accuracy: float  #: how often the prediction of a model that has not seen a row is its label
    warnings: list[str]  #: empty if the audit is to be trusted
    skipped: list[tuple[int, str]]  #: rows that could not be read, and why
    seconds: float
    settings: dict[str, Any]
    notes: list[str] = field(default_factory=list)  #: what the numbers rest on
    alike: NDArray[np.int64] | None = None  #: (n,) number of a row with the same content and another label; -1: none
    removed: NDArray[np.bool_] | None = None  #: (n,) flagged rows that the cleaned data leaves out; None: all of them
    by_rule: bool = False  #: a few words settle the labels: nothing is known of the noise from above
    held_out: Predictions | None = field(default=None, repr=False)  #: by models that have not seen the row
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
        return NoiseEstimate(ratio, even=False, assumption=self.notes[0] if self.notes else FLOOR)

    def _for_training(self) -> Targets:
        if self.for_training is None:
            raise ValueError("AuditResult: predictions must come from an audit, got a result that was made without")
        return self.for_training

    @property
    def left_out(self) -> NDArray[np.bool_]:
        """(n,) rows that the cleaned data does not have, unless every row is one annotator's label."""
        return self.is_issue if self.removed is None else self.removed

    @property
    def known(self) -> bool:
        """Whether the data say how many labels are noisy: the interval is narrow."""
        return not self.by_rule and self.noise_ratio_high - self.noise_ratio_low <= WIDE

    @property
    def headline(self) -> str:
        """The noise ratio in a line, or that it cannot be known."""
        low, high = f"{self.noise_ratio_low:.1%}", f"{self.noise_ratio_high:.1%}"
        rows, flagged = f"{len(self.row):,}", f"{self.is_issue.sum():,} rows are flagged"
        if self.by_rule:
            least = "" if self.noise_ratio_low < LITTLE else f", at least {low}"
            return f"how many of {rows} labels are noisy cannot be known{least}: see below; {flagged}"
        if not self.known:
            return f"between {low} and {high} of {rows} labels are noisy: the data say no more than that; {flagged}"
        return f"{self.noise_ratio:.1%} ({low} to {high}) of {rows} labels look noisy; {flagged}"

    @property
    def summary(self) -> dict[str, Any]:
        """What summary.json holds."""
        names = zip(self.classes, self.noise_per_class.tolist(), strict=True)
        return {
            "n_rows": len(self.row),
            "n_classes": len(self.classes),
            "headline": self.headline,
            "noise_ratio": round(self.noise_ratio, 6),
            "noise_ratio_low": round(self.noise_ratio_low, 6),
            "noise_ratio_high": round(self.noise_ratio_high, 6),
            "n_flagged": int(self.is_issue.sum()),
            "n_removed": int(self.left_out.sum()),
            "n_skipped": len(self.skipped),
            "skipped": [
                {"row": row} | self._file(row) | {"reason": reason} for row, reason in self.skipped[:MOST_LISTED]
            ],
            "accuracy": round(self.accuracy, 6),
            "warnings": self.warnings,
            "notes": self.notes,
            "by_rule": self.by_rule,
            "n_alike": 0 if self.alike is None else int((self.alike >= 0).sum()),
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

    def _write_issues(self, folder: Path) -> Path:
        if self.given is not None and self.given.streamed is not None:
            from .large.issues import write_parts

            return write_parts(folder, self)
        write_issues(folder / "issues.csv", self)
        return folder / "issues.csv"

    def save(self, folder: str | Path) -> list[Path]:
        """Write summary, issues, targets, the cleaned data, and the page; give the files written."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        summary = json.dumps(self.summary, indent=2, ensure_ascii=False) + "\n"
        write_whole(folder / "summary.json", summary)
        written = [folder / "summary.json", self._write_issues(folder)]
        if self.for_training is not None:
            written.append(save_targets(self.for_training, folder))
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
