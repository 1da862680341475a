"""How many threads: by what the network is and what the machine grants, and the caller's setting comes back."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import adaptivek
from adaptivek.cli import main
from adaptivek.experiments import executors
from adaptivek.experiments.data import Split, load
from adaptivek.experiments.session import Session, prepare
from adaptivek.experiments.spec import RECIPES, RunSpec
from adaptivek.experiments.stack import Stack
from adaptivek.networks import make_model
from adaptivek.support import threads
from adaptivek.support.threads import flops, in_threads, processors, quota, suited, using


@pytest.fixture(autouse=True)
def _two_threads(monkeypatch):
    """As if the machine had eight processors, and the caller had asked for two threads."""
    monkeypatch.setattr(threads, "processors", lambda: 8)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "200000 100000"}, 2.0),
        # what is around it counts as well
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000",
          "sys/fs/cgroup/a/cpu.max": "300000 100000"}, 3.0),
        ({"proc/self/cgroup": "3:cpuset:/\n2:cpu,cpuacct:/job\n", "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "50000\n",
          "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n"}, 0.5),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"sys/fs/cgroup/cpu.max": "what is this"}, None),
    ],
)  # fmt: skip
def test_the_quota_of_a_container(tmp_path, files, expected):
    assert quota(written(tmp_path, files)) == expected


def test_no_more_than_one_is_bound_to_or_granted(monkeypatch):
    monkeypatch.undo()  # the real one
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(6)), raising=False)
    for granted, expected in ((None, 6), (2.5, 2), (0.5, 1), (64.0, 6)):
        monkeypatch.setattr(threads, "quota", lambda granted=granted: granted)
        assert processors() == expected


def test_a_small_network_has_one_thread_and_a_large_one_what_there_is(monkeypatch):
    assert suited(1_000_000) == 1
    assert suited(10**10) == 2  # no more than the caller has asked for
    torch.set_num_threads(64)
    assert suited(10**10) == 8  # and no more than there are
    assert suited(1_000_000) == 1


def test_the_networks_of_digits_and_texts_are_small_and_a_resnet_is_not():
    for name, inputs, x in (
        ("digits-cnn", 1, torch.zeros(10, 1, 8, 8)), ("notebook-cnn", 1, torch.zeros(10, 1, 28, 28)),
        ("text-bag", 500, torch.ones(50, 200, dtype=torch.int32)),
    ):  # fmt: skip
        assert suited(flops(make_model(name, inputs, 10), x)) == 1
    assert suited(flops(make_model("resnet9", 3, 10), torch.zeros(64, 3, 32, 32))) == 2


def test_counting_leaves_the_network_as_it_was():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout()).train()
    state, random = {name: value.clone() for name, value in model.state_dict().items()}, torch.get_rng_state()
    assert flops(model, torch.randn(6, 4, generator=torch.Generator())) == 2 * 6 * 4 * 4
    assert model.training
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())


def seen_by(steps: list[int]):
    """A step of an optimiser that writes down how many threads there are."""

    def watch(optimizer):
        step = optimizer.step

        def watched(*args, **options):
            steps.append(torch.get_num_threads())
            return step(*args, **options)

        optimizer.step = watched

    return watch


def small() -> tuple[RunSpec, Split]:
    data = load("digits")
    recipe = dataclasses.replace(RECIPES["digits"], epochs=2)
    return RunSpec("digits", "vanilla", recipe=recipe), data._replace(x=data.x[:100], y=data.y[:100])


def test_a_run_has_its_threads_while_it_trains_and_the_caller_its_own_in_between():
    spec, data = small()
    session, steps = Session(spec, data, "cpu"), []
    seen_by(steps)(session.optimizer)
    for _ in session:
        assert torch.get_num_threads() == 2
    assert set(steps) == {session.threads} == {1}


def test_a_stack_likewise():
    spec, data = small()
    stack, steps = Stack([prepare(spec, data)] * 2, "cpu"), []
    seen_by(steps)(stack.optimizer)
    for _ in stack:
        assert torch.get_num_threads() == 2
    assert set(steps) == {stack.threads} == {1}
    wide = dataclasses.replace(spec, recipe=dataclasses.replace(spec.recipe, batch_size=100))
    assert Stack([prepare(wide, data)] * 8, "cpu").threads == 2  # many small ones are a large one


def test_a_run_that_fails_gives_them_back_too():
    spec, data = small()
    session = Session(spec, data, "cpu")
    session.optimizer.step = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        list(session)
    assert torch.get_num_threads() == 2


def test_an_audit_likewise_and_says_so(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 3)), np.arange(60) % 2
    during = []
    found = adaptivek.audit(x, y, device="cpu", epochs=2, progress=lambda *_: during.append(torch.get_num_threads()))
    assert set(during) == {1}
    assert found.settings["threads"] == 1
    assert torch.get_num_threads() == 2
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    files = ["--features", str(tmp_path / "x.npy"), "--labels", str(tmp_path / "y.npy")]
    main(["audit", *files, "--epochs", "2", "--device", "cpu", "--out", str(tmp_path / "out")])
    assert "trained on cpu with 1 thread" in capsys.readouterr().out


def test_train_says_what_was_chosen(tmp_path, capsys):
    main(["train", "digits", "--epochs", "1", "--batch-size", "100", "--device", "cpu", "--out", str(tmp_path / "run")])
    assert "trained on cpu with 1 thread" in capsys.readouterr().out
    assert json.loads((tmp_path / "run/made.json").read_text())["threads"] == 1


def test_workers_share_the_processors(monkeypatch):
    asked = []

    class Pool:
        def __init__(self, size, context, initializer, initargs):
            asked.append((size, initargs[0]))

        def shutdown(self, **options):
            pass

    monkeypatch.setattr(executors, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(executors, "processors", lambda: 8)
    for workers in (0, 2, 3, 16):
        list(executors._in_processes(iter(()), executors.Settings("cpu", workers=workers)))
    assert asked == [(8, 1), (2, 4), (3, 2), (16, 1)]


def test_using_gives_back():
    with using(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_work_of_several_comes_in_order_and_an_error_does_not_wait_for_the_rest():
    assert list(in_threads(lambda number: number**2, range(50))) == [number**2 for number in range(50)]
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        time.sleep(0.01)
        if number == 0:
            raise ValueError("the first")

    with pytest.raises(ValueError, match="the first"):
        list(in_threads(work, range(1_000)))
    assert len(begun) < 500
