"""Methods of one's own by `--import`: known by name wherever a run is trained, in the report and in the listing."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from adaptivek.cli import main
from adaptivek.experiments.bench import Grid, bench
from adaptivek.experiments.executors import Settings
from adaptivek.experiments.store import Store
from adaptivek.methods import METHODS
from adaptivek.support.modules import import_modules

from .fresh import command

#: keeps every other sample of a batch; written as a user would
METHOD = '''
from dataclasses import dataclass
from typing import ClassVar

import torch

import adaptivek
from adaptivek.method import NoState


@dataclass(frozen=True)
class EveryOther(adaptivek.Method[NoState]):
    """Keeps every other sample."""

    offset: int = 0

    name: ClassVar[str] = "every-other"
    summary: ClassVar[str] = "keeps every other sample"
    paper: ClassVar[str] = "nobody 2026"

    def init(self, task):
        return NoState()

    def step(self, state, batch):
        numbers = torch.arange(batch.loss.shape[-1], device=batch.loss.device)
        return adaptivek.Decision((numbers + self.offset) % 2 == 0)


assert "every-other" not in adaptivek.METHODS  # imported once
adaptivek.register(EveryOther)
'''
QUICK = ("--epochs", "1", "--batch-size", "100", "--warmup-epochs", "0", "--device", "cpu")
BENCH = ("bench", *QUICK, "--noise-rates", "0.2", "--seeds", "1", "--methods", "vanilla", "every-other")


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "my methods" / "other.py"
    path.parent.mkdir()
    path.write_text(METHOD)
    return path


@pytest.fixture(autouse=True)
def _forget():
    """What a test imports is gone with it."""
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)
    for name in [name for name in sys.modules if name.startswith(("other", "second"))]:
        del sys.modules[name]


@pytest.mark.parametrize("engine", ["local", "stacked", "ray"])
def test_a_method_of_ones_own_in_every_engine_and_in_the_report(engine, file, tmp_path, monkeypatch):
    if engine == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("needs Ray")
    monkeypatch.chdir(file.parent)  # given as it is called there, and found wherever a worker may be
    done = command(*BENCH, "--engine", engine, "--workers", "1", "--import", "other.py", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    import_modules([str(file)])
    results = {result.spec.method: result for result in Store(tmp_path / "out").read_all()}
    assert results.keys() == {"vanilla", "every-other"}
    assert [result.failure for result in results.values()] == ["", ""]
    assert {result.engine for result in results.values()} == {engine}
    assert results["every-other"].epochs[-1].kept_share == 0.5
    page = (tmp_path / "out/report.html").read_text()
    assert "every-other" in page
    assert "not known here" not in page


def test_a_run_a_report_and_the_listing(file, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(file.parent)
    out = tmp_path / "run"
    main(["train", "digits", *QUICK, "--method", "every-other:offset=1", "--import", "other", "--out", str(out)])
    assert json.loads((out / "made.json").read_text())["method"]["parameters"] == {"offset": 1}
    main(["methods", "--import", "other"])
    assert "nobody 2026" in capsys.readouterr().out
    grid = Grid(("digits",), noise_rates=(0.2,), methods=("every-other",), seeds=1)
    settings = Settings("cpu", workers=1, imports=("other",))
    list(bench(grid.specs(epochs=1, batch_size=100), tmp_path / "out", "local", settings))
    del METHODS["every-other"]
    del sys.modules["other"]
    main(["report", str(tmp_path / "out")])
    assert "a method that this version does not have: one of your own needs --import" in capsys.readouterr().out
    main(["report", str(tmp_path / "out"), "--import", "other"])
    assert "does not have" not in capsys.readouterr().out


def test_modules_are_imported_once_by_name_or_path_and_named_for_other_processes(file, tmp_path, monkeypatch):
    second = tmp_path / "second.py"
    second.write_text("import os\n")
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert import_modules(["my methods/other.py", "second.py", "json"]) == (str(file), str(second), "json")
    assert "second" not in sys.modules  # a file does not take the place of a module


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nowhere.py", None, "nowhere.py must be a Python file or the dotted name of a module, got no such file"),
        ("no_such_module", None, "No module named 'no_such_module' on the Python path"),
        ("json.no_such_part", None, "No module named 'json.no_such_part' on the Python path"),
        ("bad.py", "x = 1\nx.y\n", r"bad.py must import without an error, got AttributeError: .*bad.py, line 2\)"),
        ("bad.py", "import no_such\n", r"got ModuleNotFoundError: No module named 'no_such' .*bad.py, line 1\)"),
        ("bad.py", "def\n", r"got SyntaxError: .*bad.py, line 1\)"),
    ],
)
def test_what_cannot_be_imported_is_said_in_a_line(name, content, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(name).write_text(content)
    with pytest.raises(ImportError, match=message):
        import_modules([name])
    with pytest.raises(SystemExit) as left:
        main(["train", "digits", "--import", name, "--out", "out"])
    assert left.value.code == 2
    assert "adaptivek: --import: " in capsys.readouterr().err
    assert not Path("out").exists()
