"""What the page shows of rows that are not in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .rows import Numbers, ParquetRows

SHOWN = 10_000  #: rows that the page holds


class Fetched(Sequence[Any]):
    """Content by place; read from the files for the rows that are asked for."""

    def __init__(
        self, rows: ParquetRows, row: Numbers, columns: Sequence[str], show: Callable[[Any], Sequence[Any]]
    ) -> None:
        self.rows, self.row, self.columns, self.show = rows, row, columns, show
        self.held: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.row)

    def read(self, places: Numbers) -> None:
        """All of these at once, which takes about as long as one alone."""
        wanted = np.unique(self.row[places])
        found = self.show(self.rows.take(wanted, self.columns).to_pandas())
        self.held = {int(row): found[place] for place, row in enumerate(wanted)}

    def of(self, places: Numbers) -> Fetched:
        return Fetched(self.rows, self.row[places], self.columns, self.show)

    def __getitem__(self, place: Any) -> Any:
        row = int(self.row[place])
        if row not in self.held:
            self.read(np.array([place]))
        return self.held[row]
