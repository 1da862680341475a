"""Settings of the whole suite."""

from __future__ import annotations

from collections.abc import Iterator

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))
