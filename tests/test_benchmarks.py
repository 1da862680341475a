"""Benchmarks need data and time, so no test runs them. That they fit the library is seen when they are imported."""

from pathlib import Path

import pytest

from .fresh import python

FOLDER = Path(__file__).parent.parent / "benchmarks"
CODE = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
try:
    importlib.import_module(sys.argv[2])
except ModuleNotFoundError as error:
    if error.name.split(".")[0] != "cleanlab":  # what only the extra for benchmarks brings
        raise
"""


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_it_can_be_imported(name):
    done = python(CODE, str(FOLDER), name)
    assert done.returncode == 0, done.stderr
