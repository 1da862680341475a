"""The terminal that all commands write to, and what long work looks like in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

out = Console()


def trained_on(device: str, threads: int) -> str:
    """Where, and how many threads were chosen."""
    return f"trained on {device}" + (f" with {threads} thread{'s' if threads > 1 else ''}" if threads else "")


class Bar(Progress):
    """Progress with something above the bar, in a terminal that can show it."""

    above: Callable[[], RenderableType] | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        if self.above is not None and self.console.is_terminal and not self.console.options.ascii_only:
            yield self.above()
        yield from super().get_renderables()


@contextmanager
def progress_bar(
    above: Callable[[], RenderableType] | None = None, console: Console | None = None
) -> Iterator[Progress]:
    """Each task has a description and, for what is going on, a status. It goes when there is an error.

    ``above`` gives what a terminal shows over the bar, each time anew.
    """
    progress = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[status]}"),
        console=console or out,
    )
    progress.above = above
    with progress:
        try:
            yield progress
        except BaseException:
            progress.live.transient = True
            raise
