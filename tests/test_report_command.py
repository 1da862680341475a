"""The command `adaptivek report`: what it writes and prints."""

from __future__ import annotations

import re

import pytest

from adaptivek.cli import main
from adaptivek.experiments.report import report
from adaptivek.experiments.store import Store

from .made_results import result, setting


def test_the_command_writes_three_files_and_prints_claims_and_table(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    store = Store(tmp_path / "bench")
    for each in setting(0.4, oracle=0.95, vanilla=0.8, mkl=0.85, vanilla_mkl=0.7, adaptive_k=0.9):
        store.write(each)
    main(["report", str(tmp_path / "bench"), "--out", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert re.search(r"beats Vanilla +1 of 1 +1 of 1 +21 of 28", printed)
    assert re.search(r"Digits +directed 40 % +95.0 +80.0 +85.0 +70.0 +90.0", printed)
    assert "out/report.html" in printed.replace("\n", "")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.html", "table.csv", "table.md"}
    main(["report", str(tmp_path / "bench"), "--markdown"])
    assert capsys.readouterr().out == (tmp_path / "out/table.md").read_text()
    assert {path.name for path in (tmp_path / "bench").iterdir()} == {"runs"}


def test_the_files_go_beside_the_results_by_default(tmp_path):
    Store(tmp_path).write(result("vanilla", 0.8))
    assert report(tmp_path) == tmp_path / "report.html"
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "table.csv", "table.md", "runs"}


def test_a_folder_without_results_is_one_line_and_exit_code_2(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as exit:
        main(["report", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")])
    assert exit.value.code == 2
    assert "folder must hold results of `adaptivek bench`" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
