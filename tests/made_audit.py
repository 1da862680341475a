"""An audit as it could have come out: small, made by hand, with rows that mean harm."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from adaptivek.auditing.result import AuditResult

SCRIPT = "<script>window.harmed = 1</script>"
HOSTILE = (
    SCRIPT,
    "</script>" + SCRIPT,
    "<!--<script>",
    "<img src=http://127.0.0.1:9/x.png onerror='window.harmed = 2'>",
    "]]>{{ 7 * 7 }}${window.harmed = 3}",
    '"); window.harmed = 4; ("',
    "\u202eright to left\u2028line\u2029\x00\x1b[31m\ud800",
    "שלום العالم 😀",
)
#: labels that a spreadsheet would run, or a careless writer or reader would break
CLASSES = [
    "-1", "+1", "=cmd()|' /C calc'!A0", "@SUM(A1)", "'=quoted", 'say "hi", you', "two\nlines", "a;=1+1", f"{SCRIPT}-",
    "\t=tab", "",
]  # fmt: skip


def audit(
    label: list[int],
    suggested: list[int],
    score: list[float],
    classes: list[str],
    flagged: float = 0.5,
    **fields: object,
) -> AuditResult:
    """Rows of these labels; below this score they are flagged."""
    observed, found, scores = np.array(label), np.array(suggested), np.array(score, dtype=np.float32)
    number = len(classes)
    values: dict[str, object] = {
        "row": np.arange(len(observed)),
        "is_issue": scores < flagged,
        "other_label": np.where(found == observed, (observed + 1) % number, found),
        "other_probability": 1 - scores,
        "loss": -np.log(np.clip(scores, 1e-3, 1)),
        "loss_cut": 0.7,
        "transition": np.full((number, number), 1 / number),
        "noise_per_class": np.linspace(0.1, 0.4, number),
        "noise_ratio": 0.2,
        "noise_ratio_low": 0.15,
        "noise_ratio_high": 0.26,
        "accuracy": 0.8,
        "warnings": [],
        "skipped": [],
        "seconds": 200.0,
        "settings": {"epochs": 3},
    }
    return AuditResult(label=observed, suggested_label=found, score=scores, classes=classes, **values | fields)  # type: ignore[arg-type]


def hostile() -> AuditResult:
    """A row for each class, fixed to the next, and everything that can hold text holds a script."""
    size = len(CLASSES)
    return audit(
        list(range(size)), [(code + 1) % size for code in range(size)], [code / 100 for code in range(size)], CLASSES,
        warnings=list(HOSTILE), skipped=[(99, text) for text in HOSTILE], settings={SCRIPT: SCRIPT},
    )  # fmt: skip


def picture(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (8, 8), shade).save(buffer, "PNG")
    return buffer.getvalue()
