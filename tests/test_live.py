"""What `adaptivek train` shows while it trains."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from adaptivek.cli.live import course, look
from adaptivek.experiments.spec import RunSpec
from adaptivek.support.terminal import progress_bar

from .made_results import SHORT, made


def shown(*renderables, terminal: bool = True) -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=terminal, color_system=None)
    console.print(*renderables)
    return console.file.getvalue()


def records(method: str):
    return made(RunSpec("digits", method, noise_rate=0.3, recipe=SHORT)).epochs


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
        ([7.0, 0.0], "█▁"),
        ([5.0, 5.0, 5.0], "▁▁▁"),
        ([float("nan"), 1.0, 2.0], " ▁█"),
        ([float("nan")], " "),
        ([], ""),
    ],
)
def test_a_course_goes_from_the_lowest_to_the_highest(values, expected):
    assert course(values) == expected


def test_a_long_course_fits_and_keeps_its_shape():
    line = course(list(range(1000)), width=40)
    assert len(line) <= 40
    assert list(line) == sorted(line)
    assert (line[0], line[-1]) == ("▁", "█")


def test_the_last_epochs_are_shown_with_the_course():
    epochs = records("adaptive-k")
    text = shown(look(epochs))
    assert "warming up" in text
    assert "selecting" in text
    assert f"{epochs[-1].threshold:.3f}" in text
    assert f"{epochs[0].test_accuracy:.3f} → {epochs[-1].test_accuracy:.3f}" in text
    assert len(shown(look(epochs * 20)).splitlines()) == 12 + 4  # no more lines for more epochs
    assert "threshold" not in shown(look(records("mkl")))  # it has none
    assert shown(look([])).strip() == ""


def test_a_terminal_shows_it_above_the_bar_and_a_file_the_bar_alone():
    for terminal in (True, False):
        console = Console(file=io.StringIO(), width=100, force_terminal=terminal, color_system=None)
        epochs = []
        with progress_bar(lambda epochs=epochs: look(epochs), console) as progress:
            task = progress.add_task("epochs", total=2, status="")
            for record in records("mkl")[:2]:
                epochs.append(record)
                progress.update(task, advance=1, status="done")
        text = console.file.getvalue()
        assert ("test accuracy" in text) == terminal
        assert "epochs" in text
