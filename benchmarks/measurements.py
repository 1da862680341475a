"""Measurements kept as JSON lines, and the revisions of methods that they are of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: results of this revision of a method are shown, and marked, where there are none of today: it was run on a GPU only
EARLIER = {"label-agreement": 4}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Those that are there, if any."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
