"""Settings of the whole suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from .browser import Browser, find

settings.register_profile("suite", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("suite")
torch.set_num_threads(1)  # small tensors: more threads only get in each other's way


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """For tests that are skipped where there is none."""
    executable = find()
    assert executable is not None
    browser = Browser(executable, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


#: what `make check` leaves out: files that start processes, compilers or browsers, or train for long
SLOW = {
    f"test_{name}.py"
    for name in (
        "accessibility", "audit", "audit_command", "audit_encoder", "audit_estimates", "audit_page",
        "audit_page_decisions", "audit_posterior", "bench", "benchmarks", "cluster", "command", "compiled",
        "cuda_graph", "distributed", "docs", "huggingface", "imports", "label_memory",
        "label_posterior", "lightning", "loggers", "own_data", "own_method", "package", "real", "records", "remote",
        "report", "report_command", "report_many", "report_own", "report_page", "site", "sklearn", "stacked", "store",
        "theory_files", "train",
    )
}  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out the files that take long")
    parser.addoption("--long", action="store_true", help="also the tests that take half a minute or more")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("--fast") and collection_path.name in SLOW else None


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    for item in items:
        if item.get_closest_marker("long") and not config.getoption("--long"):
            item.add_marker(pytest.mark.skip(reason="takes long: --long"))
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))
