"""The base package is light, its extras say what they are, and it builds as a wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import adaptivek

from .fresh import python

ROOT = Path(__file__).parent.parent


def without(*modules: str) -> str:
    """Code that makes these modules look as if they were not installed."""
    return f"import sys\nfor name in {modules!r}: sys.modules[name] = None\n"


def test_import_loads_nothing_beyond_torch_and_numpy():
    code = """
import sys, torch, numpy, sympy  # PyTorch needs sympy, and in 2.4 loads it late
before = {name.partition(".")[0] for name in sys.modules}
import adaptivek
print(sorted({name.partition(".")[0] for name in sys.modules} - before - set(sys.stdlib_module_names)))
"""
    done = python(code)
    assert done.stdout.strip() == "['adaptivek']", done.stderr


def test_every_module_may_be_loaded_again():
    """As notebooks do it; what is registered with torch is registered once."""
    code = """
import importlib, sys, torch, adaptivek
for name in sorted(name for name in sys.modules if name.startswith("adaptivek")):
    importlib.reload(sys.modules[name])
for name in [name for name in sys.modules if name.startswith("adaptivek")]:
    del sys.modules[name]
import adaptivek
step = torch.compile(adaptivek.Selection("elr", rows=4, classes=3), backend="aot_eager")
print(step(torch.zeros(2, 3), torch.tensor([0, 1]), torch.tensor([0, 1])).item() > 0)
"""
    done = python(code)
    assert done.stdout.strip() == "True", done.stderr


def test_no_private_part_of_torch_is_used():
    sources = (Path(adaptivek.__file__).parent).rglob("*.py")
    private = re.compile(r"(from|import) torch[\w.]*\._")
    assert not [str(path) for path in sources if private.search(path.read_text())]


def test_the_library_works_with_no_extra_installed():
    done = python(
        without("rich", "tyro", "sklearn", "safetensors", "scipy", "matplotlib", "lightning", "transformers", "pandas")
        + "import torch, adaptivek, adaptivek.experiments.session, adaptivek.noise, adaptivek.networks\n"
        + "print(adaptivek.Selection('mkl').reduce(torch.tensor([1.0, 2.0])).item())"
    )
    assert done.stdout.strip() == "1.0", done.stderr


@pytest.mark.parametrize(
    ("missing", "code", "extra"),
    [
        (["tyro"], "import adaptivek.cli", "adaptivek[cli]"),
        (["rich"], "import adaptivek.cli", "adaptivek[cli]"),
        (["safetensors"], "from adaptivek.cli import main; main(['train', 'digits', '--out', 'x'])", "adaptivek[cli]"),
        (["scipy"], "import adaptivek.theory", "adaptivek[theory]"),
        (["scipy"], "from adaptivek.cli import main; main(['theory', '--out', 'x'])", "adaptivek[theory]"),
        (["matplotlib"], "from adaptivek.cli import main; main(['theory', '--out', 'x'])", "adaptivek[theory]"),
        (["matplotlib"], "from adaptivek.experiments.report import report", "adaptivek[report]"),
        (["jinja2"], "from adaptivek.experiments.report import report", "adaptivek[report]"),
        (["matplotlib"], "from adaptivek import plots", "adaptivek[plots]"),
        (["jinja2"], "import adaptivek.auditing.page", "adaptivek[report]"),
        (["sklearn"], "from adaptivek.experiments.data import load; load('digits')", "adaptivek[data]"),
    ],
)
def test_a_missing_extra_is_named(missing, code, extra, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = python(without(*missing) + code)
    assert done.returncode != 0
    assert f"pip install '{extra}'" in done.stderr
    assert not list(tmp_path.iterdir())


def test_missing_frameworks_are_named():
    """In one process: each would take as long to start as all of them."""
    extras = {"lightning": "lightning", "huggingface": "hf", "sklearn": "sklearn"}
    done = python(
        without("lightning", "transformers", "sklearn")
        + f"""
import importlib
for name in {list(extras)}:
    try:
        importlib.import_module("adaptivek.integrations." + name)
    except ImportError as error:
        print(error)
"""
    )
    for line, (name, extra) in zip(done.stdout.splitlines(), extras.items(), strict=True):
        assert line.startswith(f"adaptivek.integrations.{name} needs")
        assert line.endswith(f"pip install 'adaptivek[{extra}]'")


def test_builds_a_typed_wheel(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("adaptivek-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("METADATA"))
    assert {"adaptivek/py.typed", "adaptivek/__init__.py", "adaptivek/methods/adaptive_k.py"} <= names
    assert {
        f"adaptivek/{name}" for name in ("experiments/report/page.html", "pages/page.css", "experiments/report/sort.js")
    } <= names
    assert {f"adaptivek/auditing/{name}" for name in ("page.html", "page.css", "rows.js", "page.js")} <= names
    assert not any(name.startswith(("tests", "benchmarks")) for name in names)
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra" not in line]
    assert sorted(line.split()[1].partition(">")[0] for line in required) == ["numpy", "torch"]
    assert "License-Expression: MIT" in metadata
    assert "Requires-Python: >=3.11" in metadata
