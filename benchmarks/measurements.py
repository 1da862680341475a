"""Measurements kept as JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Those that are there, if any."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
