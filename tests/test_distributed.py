"""Two processes under torchrun do what one does with the whole batch; what is checked is in `ranks`."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed.fsdp

import adaptivek

from .ranks import CHECKS, sharded

ROOT = Path(__file__).parent.parent


def test_two_ranks_are_one_process():
    fsdp2 = hasattr(torch.distributed.fsdp, "fully_shard")  # from PyTorch 2.6 on
    checks = [check.__name__ for check in CHECKS if fsdp2 or check is not sharded]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launcher, "-m", "tests.ranks", *checks],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-8000:]
    passed = [line.removeprefix("passed ") for line in done.stdout.splitlines() if line.startswith("passed ")]
    assert passed == checks


SMALL = ["--dataset", "digits", "--network", "digits-cnn", "--batch", "32", "--lr", "0.05", "--epochs", "3"]


def started(ranks: int, checkpoint: Path, *more: str) -> subprocess.Popen[str]:
    """The example on small images, with so many processes."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return python(*launcher, "examples/torchrun_cifar.py", *SMALL, "--checkpoint", str(checkpoint), *more)


def python(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the ranks of a job in /proc")
def test_a_job_of_which_a_rank_is_killed_goes_on_with_another_number_of_ranks(tmp_path):
    checkpoint = tmp_path / "run.pt"
    with started(2, checkpoint) as job:
        assert job.stdout is not None
        next(line for line in job.stdout if line.startswith("epoch 1"))
        rank = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()[-1]
        os.kill(int(rank), signal.SIGKILL)
        seen = job.communicate(timeout=120)[0]
    assert job.returncode != 0
    assert "epoch 3" not in seen
    with started(1, checkpoint) as job:
        lines = job.communicate(timeout=120)[0].splitlines()
    assert job.returncode == 0, lines
    first = int(next(line for line in lines if line.startswith("goes on")).split()[4])
    assert 2 <= first <= 3
    assert [line.split(":")[0] for line in lines if line.startswith("epoch")] == [
        f"epoch {number}" for number in range(first, 4)
    ]
    assert float(lines[-1].split("accuracy ")[1].split(",")[0]) > 0.4


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")
def test_ray_train_of_which_a_worker_is_killed_ends_as_torchrun_does(tmp_path):
    with started(2, tmp_path / "run.pt", "--epochs", "16") as job:
        lines = job.communicate(timeout=120)[0]
    assert job.returncode == 0, lines
    options = ["--workers", "2", "--storage", str(tmp_path)]
    with python("examples/ray_train_cifar.py", *SMALL, "--epochs", "16", *options) as job:
        assert job.stdout is not None
        told = (re.search(r"pid=(\d+)\) world_rank=1", line) for line in job.stdout)
        worker = int(next(filter(None, told))[1])
        known = tmp_path / "cifar/checkpoint_manager_snapshot.json"  # the checkpoints that Ray goes on from
        while job.poll() is None and not (known.exists() and "checkpoint_2" in known.read_text()):
            time.sleep(0.01)
        os.kill(worker, signal.SIGKILL)
        seen = job.communicate(timeout=300)[0]
    assert job.returncode == 0, seen
    assert re.search(r"goes on with epoch \d+ of 16, on 2 workers", seen)
    # the last by its date: one that the killed worker had just written, and Ray does not know of, may be there too
    *_, checkpoint = sorted(tmp_path.glob("cifar/checkpoint_*/run.pt"))
    killed, whole = (torch.load(path, weights_only=True) for path in (checkpoint, tmp_path / "run.pt"))
    assert killed["epoch"] == whole["epoch"] == 15
    for part in ("model", "criterion"):
        torch.testing.assert_close(killed[part], whole[part], rtol=0, atol=0)


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
