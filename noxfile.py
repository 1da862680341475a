"""The tests on every Python and on the oldest libraries that are allowed: `make test-matrix`.

Sessions whose Python is not installed are left out and named. What follows `--` goes to pytest in place of `--fast`.
"""

from __future__ import annotations

from pathlib import Path

import nox
from packaging.requirements import Requirement

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True

#: extras of this repository's own tools, which are taken as new as they come
TOOLS = {"benchmarks", "dev", "docs", "release", "test"}


@nox.session(python=["3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """With the versions that the Makefile installs."""
    session.install("--constraint", "constraints.txt", ".[all,dev]")
    _pytest(session)


@nox.session(python="3.11")
def oldest(session: nox.Session) -> None:
    """With PyTorch, NumPy and each library of the extras in the oldest version that pyproject.toml allows."""
    lowest = Path(session.create_tmp(), "lowest.txt")
    lowest.write_text("\n".join(_lowest()))
    session.install("--constraint", str(lowest), ".[all,dev]")
    _pytest(session, "-W", "default")  # old libraries warn of their own doings: here that is no error


def _lowest() -> list[str]:
    """`torch>=2.4` as `torch==2.4`; a library with two bounds is an error of pip's, so it has one."""
    project = nox.project.load_toml("pyproject.toml")["project"]
    extras = project["optional-dependencies"]
    listed = [project["dependencies"], *(extras[name] for name in extras if name not in TOOLS)]
    asked = (Requirement(line) for lines in listed for line in lines)
    return sorted({str(each).replace(">=", "==") for each in asked if each.specifier})


def _pytest(session: nox.Session, *options: str) -> None:
    session.run("python", "-c", "import sys, torch, numpy; print(sys.version, torch.__version__, numpy.__version__)")
    session.run("python", "-m", "pytest", "--numprocesses", "auto", *options, *(session.posargs or ["--fast"]))
