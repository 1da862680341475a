"""The terminal that all commands write to, and what long work looks like in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

out = Console()


def trained_on(device: str, threads: int) -> str:
    """Where, and how many threads were chosen."""
    return f"trained on {device}" + (f" with {threads} thread{'s' if threads > 1 else ''}" if threads else "")


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Each task has a description and, for what is going on, a status. It goes when there is an error."""
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[status]}"),
        console=out,
    )
    with progress:
        try:
            yield progress
        except BaseException:
            progress.live.transient = True
            raise
