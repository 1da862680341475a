"""Reports of more methods than there are colours or columns."""

from __future__ import annotations

import dataclasses

import pytest

from adaptivek.cli import main
from adaptivek.experiments.report.page import page
from adaptivek.experiments.report.tables import foremost, ranked, rows
from adaptivek.experiments.store import Store

from .made_results import SHORT, result, setting


def test_many_methods_are_rows_in_a_terminal(capsys, tmp_path):
    names = ["vanilla", "mkl", "gce", "sce", "elr", "bare", "itlm", "dlt", "co-teaching"]
    for place, name in enumerate(names):
        Store(tmp_path).write(result(name, 0.5 + place / 100))
    main(["report", str(tmp_path)])
    lines = {line.split(" ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines["co-teaching"].split()[-4:] == ["2", "+", "2", "58.0"]
    assert lines["Vanilla"].split() == ["Vanilla", "nothing", "1", "+", "1", "50.0"]


def test_methods_are_ranked_by_points_above_the_middle_of_each_setting():
    results = setting(0.2, vanilla=0.5, gce=0.7, elr=0.9) + setting(0.4, vanilla=0.4, gce=0.6, elr=0.5)
    cooler = dataclasses.replace(SHORT, learning_rate=0.001)  # counts as the same setting
    late = result("bare", 0.1, 0.4)
    results.append(dataclasses.replace(late, spec=dataclasses.replace(late.spec, recipe=cooler)))
    found = {method: (above, number) for method, above, number in ranked(rows(results))}
    assert list(found) == ["elr", "gce", "vanilla", "bare"]
    expected = {"elr": (0.125, 2), "gce": (0.075, 2), "vanilla": (-0.125, 2), "bare": (-0.35, 1)}
    for method, (above, number) in expected.items():
        assert found[method] == (pytest.approx(above), number)


def test_figures_show_the_papers_methods_and_the_best_of_many_others():
    others = ["bare", "gce", "elr", "sce", "sop", "selc", "dlt"]
    results = setting(vanilla=0.5, oracle=0.95, **{name: 0.6 + 0.01 * place for place, name in enumerate(others)})
    assert foremost(rows(results), 10) == ["oracle", "vanilla", "dlt", "elr", "sce", "selc", "sop"]
    assert "Of 9 methods, the paper&#39;s five, the default and the best" in page(results)
    few = setting(vanilla=0.5, gce=0.6)
    assert foremost(rows(few), 10) == ["vanilla", "gce"]
    assert "the best others" not in page(few)
    with_default = results + setting(label_agreement=0.51)  # however badly it does
    assert foremost(rows(with_default), 10) == ["oracle", "vanilla", "dlt", "label-agreement", "sce", "selc", "sop"]


def test_many_methods_in_many_settings_are_ranked_in_a_terminal(capsys, tmp_path):
    names = ["vanilla", "oracle", "mkl", "bare", "gce", "anl", "sce", "sop", "selc"]
    store = Store(tmp_path)
    for number in range(1, 10):
        for one in setting(0.05 * number, **{name: 0.5 + 0.01 * place for place, name in enumerate(names)}):
            store.write(one)
    main(["report", str(tmp_path)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    ranks = [line[0] for line in lines if line and line[0] in names and line[-1] == "9"]
    assert ranks[0] == "selc"
    assert len(ranks) >= 6
