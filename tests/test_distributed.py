"""Two processes under torchrun do what one does with the whole batch; what is checked is in `ranks`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import adaptivek

ROOT = Path(__file__).parent.parent


def test_two_ranks_are_one_process():
    from .ranks import CHECKS

    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "tests.ranks"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-8000:]
    passed = [line.removeprefix("passed ") for line in done.stdout.splitlines() if line.startswith("passed ")]
    assert passed == [check.__name__ for check in CHECKS]


def test_a_process_group_of_one_is_a_process_alone(tmp_path):
    """Also: nothing is gathered where it is switched off."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        assert adaptivek.backend.distributed.process_group(True) is None
        assert adaptivek.backend.distributed.process_group(False) is None
        assert adaptivek.Selection("mkl:keep=0.5").reduce(torch.tensor([1.0, 3.0])).item() == 1
    finally:
        torch.distributed.destroy_process_group()


def test_what_is_no_group_is_refused():
    with pytest.raises(TypeError, match="Selection: distributed must be True, False or a process group, got 'world'"):
        adaptivek.Selection("vanilla", distributed="world")
