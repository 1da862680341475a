"""Tokenised texts as they come from a Hugging Face tokeniser, and a network that takes them.

The numbers of a batch travel as one tensor, (rows, columns, tokens): what trains and predicts need not know of columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .training import Fetch, Plan

IDS, MASK = "input_ids", "attention_mask"
COLUMNS = (IDS, MASK, "token_type_ids")
LABELS = ("label", "labels")

#: how a pre-trained network is fine-tuned unless told otherwise
FINE_TUNING = Plan(epochs=3, batch_size=32, learning_rate=5e-5, schedule="linear", weight_decay=0.01)


class TokenModel(nn.Module):
    """A network with the columns of a tokeniser for arguments."""

    def __init__(self, model: nn.Module, columns: Sequence[str]) -> None:
        super().__init__()
        self.model, self.columns = model, tuple(columns)

    def forward(self, x: Tensor) -> Any:
        return self.model(**{name: x[:, place] for place, name in enumerate(self.columns)})


def is_tokenised(data: Any) -> bool:
    """A `datasets.Dataset` with token numbers, or any data set whose samples are dicts with them."""
    if hasattr(data, "column_names"):
        return IDS in data.column_names
    if isinstance(data, (str, Mapping)) or not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        return False
    return len(data) > 0 and isinstance(data[0], Mapping) and IDS in data[0]


def column(data: Any, name: str) -> list[Any] | None:
    """All values of a column; None where there is no such."""
    if hasattr(data, "column_names"):
        return list(data[name][:]) if name in data.column_names else None
    return [data[row][name] for row in range(len(data))] if name in data[0] else None


def find_texts(data: Any) -> list[str] | None:
    """A column of texts to show beside the tokens; None if there is none."""
    names = data.column_names if hasattr(data, "column_names") else list(data[0])
    for name in names:
        values = column(data, name)
        if name not in LABELS and values and all(isinstance(value, str) for value in values):
            return values
    return None


def token_columns(data: Any) -> tuple[tuple[str, ...], dict[str, list[np.ndarray[Any, Any]]]]:
    """The columns that a network takes, and their numbers for each row."""
    found = {}
    for name in COLUMNS:
        values = column(data, name)
        if values is not None:
            found[name] = [np.asarray(value, dtype=np.int64).reshape(-1) for value in values]
    if MASK not in found:
        found[MASK] = [np.ones(len(ids), np.int64) for ids in found[IDS]]
    return tuple(name for name in COLUMNS if name in found), found


def fetch_tokens(names: tuple[str, ...], values: dict[str, list[np.ndarray[Any, Any]]]) -> Fetch:
    """Batches (rows, columns, tokens), padded with zeros to the longest of each; padding is masked."""

    def fetch(rows: np.ndarray[Any, Any]) -> Tensor:
        longest = max(1, *(len(values[IDS][row]) for row in rows))
        table = np.zeros((len(rows), len(names), longest), np.int64)
        for line, row in zip(table, rows, strict=True):
            for place, name in enumerate(names):
                line[place, : len(values[name][row])] = values[name][row]
        return torch.from_numpy(table)

    return fetch
