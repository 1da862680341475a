"""Reports of data of one's own: nothing counted that is not there, and what such numbers cannot tell."""

from __future__ import annotations

import re

import pytest

from adaptivek.cli import main
from adaptivek.experiments.report.page import page
from adaptivek.experiments.report.tables import rows
from adaptivek.experiments.report.text import markdown
from adaptivek.experiments.store import Store
from adaptivek.pages import drawing as draw

from .made_results import grid, setting

WARNING = "the test labels are as noisy as yours"


def test_claims_that_nothing_counts_for_are_not_made(tmp_path, capsys):
    results = grid(["mine"], (0.2,), methods=("vanilla", "label-memory"), seeds=(0,))
    for result in results:
        Store(tmp_path).write(result)
    main(["report", str(tmp_path)])
    html = (tmp_path / "report.html").read_text()
    for told in (html, (tmp_path / "table.md").read_text(), capsys.readouterr().out):
        assert "0 of 0" not in told
        assert "Adaptive-k beats" not in told
    assert 'id="claims"' not in html
    assert "#claims" not in html
    some = page(setting(vanilla=0.5, adaptive_k=0.6))
    assert some.count("<article>") == 1  # against Vanilla, and nobody else
    assert "#claims" in some


def test_it_says_that_labels_of_ones_own_may_have_been_wrong_before(tmp_path, capsys):
    for name, told in (("mine", True), ("owner/of-the-hub", True), ("digits", False), ("mnist", False)):
        results = grid([name], (0.2,), methods=("vanilla",), seeds=(0,))
        assert (WARNING in page(results)) == told
        assert (WARNING in markdown(rows(results))) == told
        Store(tmp_path / name).write(results[0])
        main(["report", str(tmp_path / name)])
        assert (WARNING in " ".join(capsys.readouterr().out.split())) == told


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ((0.82, 0.825, 0.83), ["82.0 %", "82.5 %", "83.0 %"]),
        ((0.1, 0.2, 0.3), ["10 %", "20 %", "30 %"]),
        ((0.8225, 0.825), ["82.25 %", "82.50 %"]),
        ((-0.0, 1.0), ["0 %", "100 %"]),
    ],
)
def test_no_two_marks_of_an_axis_read_the_same(marks, expected):
    assert draw.Percents().format_ticks(list(marks)) == expected


def test_the_axis_of_a_narrow_range_has_marks_that_differ():
    results = [
        *setting(0.2, vanilla=0.821, label_memory=0.829),
        *setting(0.4, vanilla=0.823, label_memory=0.827),
    ]
    figure = page(results).partition('id="overview"')[2].partition("</figure>")[0]
    marks = re.findall(r">(8\d[\d.]*) %<", figure)
    assert len(marks) > 2
    assert len(set(marks)) == len(marks)
