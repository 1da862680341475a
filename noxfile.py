"""The tests on every Python and on the oldest PyTorch that are allowed: `make test-matrix`.

Sessions whose Python is not installed are left out and named. What follows `--` goes to pytest in place of `--fast`.
"""

from __future__ import annotations

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True


@nox.session(python=["3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """With the versions that the Makefile installs."""
    session.install("--constraint", "constraints.txt", ".[all,dev]")
    _pytest(session)


@nox.session(python="3.11")
def oldest(session: nox.Session) -> None:
    """With the oldest PyTorch, NumPy and Arrow of pyproject.toml, and whatever goes with them."""
    session.install("torch==2.4.0", "numpy==1.26.0", "pyarrow==15.0.2", ".[all,lightning,sklearn,test]")
    _pytest(session, "-W", "default")  # old libraries warn of their own doings: here that is no error


def _pytest(session: nox.Session, *options: str) -> None:
    session.run("python", "-c", "import sys, torch, numpy; print(sys.version, torch.__version__, numpy.__version__)")
    session.run("python", "-m", "pytest", "--numprocesses", "auto", *options, *(session.posargs or ["--fast"]))
