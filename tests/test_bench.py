"""Many runs: each done once, nothing lost but what is in flight, the same from every engine."""

from __future__ import annotations

import dataclasses
import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adaptivek.experiments import bench as module
from adaptivek.experiments import executors
from adaptivek.experiments.bench import PRESETS, Grid, bench
from adaptivek.experiments.executors import Settings, choose, train_unit
from adaptivek.experiments.session import Session, prepare
from adaptivek.experiments.spec import NOTEBOOK, Recipe, RunSpec
from adaptivek.experiments.store import Result, Store

GRID = Grid(datasets=["digits"], noise_rates=[0.2, 0.4], methods=["vanilla", "adaptive-k"], seeds=1)
QUICK = {"epochs": 2, "warmup_epochs": 1, "batch_size": 100}
COMMAND = [
    *(sys.executable, "-c", "from adaptivek.cli import main; main()", "bench", "--device", "cpu"),
    *("--noise-rates", "0.2", "0.4", "--methods", "vanilla", "adaptive-k", "--seeds", "1"),
    *("--warmup-epochs", "1", "--batch-size", "100"),
]
ENVIRONMENT = {**os.environ, "COLUMNS": "150", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def plain(monkeypatch):
    """An engine that trains here and now, and counts what it trains."""
    trained = []

    def engine(work, settings):
        while unit := work.take(1):
            trained.extend(unit)
            yield from train_unit(unit, "cpu", tick=settings.tick)

    monkeypatch.setitem(executors.ENGINES, "local", engine)
    return trained


def everything(results) -> dict[str, object]:
    """What was found, by run, without what a second time cannot repeat."""
    found = {}
    for result in results:
        fields = result.to_json()
        del fields["seconds"], fields["engine"], fields["epochs"]["samples_per_second"]
        found[result.spec.identity()] = fields
    return found


def start(folder: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "--out", str(folder), *more],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "runs").glob("*.json.gz")}


def wait_for(condition, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def test_the_paper_is_420_runs_and_the_demo_needs_no_download():
    paper = PRESETS["paper"].specs()
    assert len({spec.identity() for spec in paper}) == 420
    assert {spec.recipe for spec in paper if spec.dataset == "mnist"} == {NOTEBOOK}
    assert {spec.dataset for spec in PRESETS["demo"].specs()} == {"digits"}


def test_methods_that_are_told_the_ratio_can_be_told_a_wrong_one():
    grid = Grid(("digits",), methods=("vanilla", "mkl", "rt:keep=0.5"), noise_rates=(0.1, 0.4), seeds=1,
                ratio_errors=(-0.2, 0.0, 0.2))  # fmt: skip
    told = {(spec.method, spec.noise_rate, spec.ratio_error): spec.make_method() for spec in grid.specs()}
    assert len(told) == 2 * (1 + 3 + 1)  # nobody tells vanilla, or a method whose share is given
    keep = [told["mkl", rate, error].keep for rate in (0.1, 0.4) for error in (-0.2, 0.0, 0.2)]
    assert keep == pytest.approx([1.0, 0.9, 0.7, 0.8, 0.6, 0.4])  # no share above 1
    assert RunSpec("digits", "mkl", noise_rate=0.9, ratio_error=0.5).make_method().keep == pytest.approx(0.05)
    with pytest.raises(ValueError, match="ratio_error must be 0 for vanilla, which is not told the noise ratio"):
        RunSpec("digits", "vanilla", ratio_error=0.2)
    with pytest.raises(ValueError, match="method must be one of oracle"):
        Grid(("digits",), methods=("best",), ratio_errors=(0.2,)).specs()


def test_a_run_that_is_done_is_never_done_again(tmp_path, plain):
    specs = GRID.specs(**QUICK)
    ticks = []
    settings = Settings("cpu", tick=ticks.append)
    first = list(bench(specs[:3], tmp_path, "local", settings))
    assert plain == specs[:3]
    assert sum(ticks) == 6  # epochs
    before = files(tmp_path)
    second = list(bench(specs, tmp_path, "local", settings))
    assert plain == specs
    assert sum(ticks) == 6 + 8
    assert before.items() <= files(tmp_path).items()
    assert everything(first).items() <= everything(second).items()
    assert {path.suffix for path in (tmp_path / "runs").iterdir()} == {".gz"}  # no lock is left


def test_results_hold_what_the_session_gave(tmp_path, plain):
    (result,) = bench(GRID.specs(**QUICK)[:1], tmp_path, "local", Settings("cpu"))
    session = Session(result.spec, device="cpu")
    records = list(session)
    (stored,) = Store(tmp_path).read_all()
    assert stored.spec == result.spec
    assert stored.details == session.details
    assert [r.epoch for r in stored.epochs] == [1, 2]
    for ours, theirs in zip(stored.epochs, records, strict=True):
        assert ours.test_accuracy == pytest.approx(theirs.test_accuracy, rel=1e-5)
        assert ours.noisy_loss_std == pytest.approx(theirs.noisy_loss_std, rel=1e-5)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda raw: b"",
        lambda raw: gzip.compress(b"{}"),
        lambda raw: gzip.compress(b"not JSON"),
        lambda raw: gzip.compress(gzip.decompress(raw).replace(b'"seed":0', b'"seed":1')),
        lambda raw: gzip.compress(gzip.decompress(raw).replace(b'"epoch":[1,2]', b'"epoch":[1]')),
    ],
)
def test_what_is_no_result_is_set_aside_and_done_again(tmp_path, plain, spoil):
    spec = GRID.specs(**QUICK)[0]
    (good,) = bench([spec], tmp_path, "local", Settings("cpu"))
    path = Store(tmp_path).path(spec)
    path.write_bytes(spoil(path.read_bytes()))
    spoiled = path.read_bytes()
    assert Store(tmp_path).read(spec) is None
    assert Store(tmp_path).read_all() == []
    assert path.read_bytes() == spoiled  # who reads moves nothing
    with pytest.warns(UserWarning, match=f"{path.name} is not a result: .* it was moved to"):
        (again,) = bench([spec], tmp_path, "local", Settings("cpu"))
    assert everything([again]) == everything([good])
    assert plain == [spec, spec]
    assert (tmp_path / "aside" / path.name).exists()
    (tmp_path / "runs" / "half.json.gz.123.partial").write_bytes(b"half")  # what a killed process leaves
    assert len(Store(tmp_path).read_all()) == 1


@pytest.mark.filterwarnings("ignore:.* of the losses were NaN or infinite")
def test_a_failed_run_is_recorded_and_the_others_go_on(tmp_path, plain, monkeypatch):
    specs = GRID.specs(**QUICK)
    lost = dataclasses.replace(specs[1], recipe=dataclasses.replace(specs[1].recipe, learning_rate=1e30))
    broken = dataclasses.replace(specs[2], recipe=dataclasses.replace(specs[2].recipe, batch_size=100_000))
    asked = [specs[0], lost, broken, specs[3]]
    results = {result.spec: result for result in bench(asked, tmp_path, "local", Settings("cpu"))}
    assert [bool(results[spec].failure) for spec in asked] == [False, True, True, False]
    assert "every loss was NaN or infinite from epoch" in results[lost].failure
    assert "ValueError: Recipe: batch_size must be at most the 1437" in results[broken].failure
    list(bench(asked, tmp_path, "local", Settings("cpu")))
    assert len(plain) == 4  # a failed run is done too
    list(bench(asked, tmp_path, "local", Settings("cpu"), retry_failed=True))
    assert plain[4:] == [lost, broken]


def test_a_stack_that_fails_is_halved_to_find_out_which(monkeypatch):
    specs = Grid(datasets=["digits"], noise_rates=[0.1, 0.2, 0.3], methods=["vanilla"], seeds=1).specs(**QUICK)
    real = executors.Stack

    def fragile(jobs, device):
        if len(jobs) > 1 and any(job.spec.noise_rate == 0.2 for job in jobs):
            raise MemoryError("no room\nfor details")
        return real(jobs, device)

    monkeypatch.setattr(executors, "Stack", fragile)
    results = train_unit(tuple(specs), "cpu")
    assert [result.spec for result in results] == specs
    assert not any(result.failure for result in results)  # each alone has room
    monkeypatch.setattr(executors, "Session", lambda *args: fragile(2 * [prepare(args[0])], "cpu"))
    results = train_unit(tuple(specs), "cpu")
    assert [result.failure for result in results if result.spec.noise_rate == 0.2] == ["MemoryError: no room"]


def test_missing_data_is_heard_of_before_anything_is_trained(tmp_path, plain):
    with pytest.raises(ValueError, match="load: dataset must be one of digits"):
        Grid(datasets=["no-such-set"], seeds=1).specs()
    specs = GRID.specs(**QUICK)
    specs.append(dataclasses.replace(specs[0], dataset="no-such-set"))
    with pytest.raises(ValueError, match="load: dataset must be one of digits"):
        list(bench(specs, tmp_path, "local", Settings("cpu")))
    assert not plain


def test_a_run_in_other_hands_is_waited_for(tmp_path, plain, monkeypatch):
    specs = GRID.specs(**QUICK)
    store = Store(tmp_path)
    lock = store.claim(specs[1])
    assert store.claim(specs[1]) is None

    def other(seconds):
        store.write(Result(specs[1], engine="elsewhere", failure="none of ours"))
        lock.close()

    monkeypatch.setattr(module.time, "sleep", other)
    results = list(bench(specs, tmp_path, "local", Settings("cpu")))
    assert plain == [specs[0], specs[2], specs[3]]
    assert [result.spec for result in results if result.engine == "elsewhere"] == [specs[1]]


def test_auto_stacks_what_is_bound_by_launches():
    small, large = GRID.specs(), [RunSpec("digits", recipe=Recipe(network="resnet18"))]
    assert choose("auto", small, Settings("cpu")) == "stacked"
    assert choose("auto", large, Settings("cpu")) == "local"
    assert choose("auto", small + large, Settings("cpu")) == "local"
    with pytest.raises(ValueError, match="engine must be one of auto, local, ray, stacked; got 'slurm'"):
        choose("slurm", small, Settings("cpu"))
    with pytest.raises(ValueError, match="seeds must be a whole number of at least 1, got 0"):
        Grid(seeds=0)


def test_killed_at_any_moment_it_goes_on_and_two_share_the_work(tmp_path, plain):
    """Once killed after the first result, then two processes on one folder, one of which loses a worker."""
    expected = everything(bench(GRID.specs(**QUICK), tmp_path / "plain", "local", Settings("cpu")))
    folder = tmp_path / "killed"
    options = ("--epochs", "2", "--engine", "local", "--workers", "1")
    first = start(folder, *options)
    wait_for(lambda: files(folder))
    first.send_signal(signal.SIGKILL)
    first.communicate()
    done = files(folder)
    assert 1 <= len(done) < 4
    second, third = start(folder, *options), start(folder, *options)
    wait_for(lambda: second.poll() is not None or len(children(second.pid)) > 1)
    for child in children(second.pid):  # its worker, and the process that looks after shared memory
        os.kill(child, signal.SIGKILL)
    for process in (second, third):
        text, _ = process.communicate()
        assert process.returncode == 0, text
        assert "4 of 4" in text
    assert done.items() <= files(folder).items()  # what was done was left alone
    assert everything(Store(folder).read_all()) == expected
    assert not list((folder / "runs").glob("*.lock"))


def test_engines_agree(tmp_path, monkeypatch):
    """Stacks of two, trained here instead of in a process of their own, which the test above has."""
    stacks = []

    def here(units, settings):
        for unit in units:
            stacks.append(len(unit))
            yield from train_unit(unit, settings.device)

    monkeypatch.setattr(executors, "_in_processes", here)
    results = list(bench(GRID.specs(**QUICK), tmp_path, "stacked", Settings("cpu", workers=2)))
    assert stacks == [2, 2]
    assert [result.engine for result in results] == ["stacked"] * 4
    for result in results:
        for ours, theirs in zip(result.epochs, Session(result.spec, device="cpu"), strict=True):
            assert ours.train_loss == pytest.approx(theirs.train_loss, rel=1e-3)
            assert ours.test_accuracy == pytest.approx(theirs.test_accuracy, abs=0.01)
            assert ours.kept_share == pytest.approx(theirs.kept_share, abs=0.005)


def test_the_command_says_what_is_wrong_in_a_line(tmp_path):
    process = start(tmp_path, "--datasets", "nowhere")
    text, _ = process.communicate()
    assert process.returncode == 2
    assert "adaptivek: load: dataset must be one of digits" in text
    assert not list(tmp_path.iterdir())
