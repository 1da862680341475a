"""Names of columns in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..support.files import plain

MOST_NAMES = 12  #: in a sentence
MANY = {"text": "texts", "number": "numbers", "category": "categories", "date": "dates", "image": "images"}


def used_as(kinds: Mapping[str, str]) -> str:
    """`review as text; price and size as numbers`."""
    parts = []
    for kind, many in MANY.items():
        names = [plain(name) for name, found in kinds.items() if found == kind]
        if names:
            parts.append(f"{listed(names)} as {kind if len(names) == 1 else many}")
    return "; ".join(parts)


def listed(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:MOST_NAMES]) + (f" and {len(found) - MOST_NAMES:,} more" if len(found) > MOST_NAMES else "")
