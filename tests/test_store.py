"""Results in a folder: what reading leaves alone, what becomes of other versions, and of two who write at once."""

from __future__ import annotations

import dataclasses
import gzip
import json
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from adaptivek.cli import main
from adaptivek.experiments import executors
from adaptivek.experiments.bench import LockedWork, bench
from adaptivek.experiments.executors import Settings
from adaptivek.experiments.provenance import Provenance
from adaptivek.experiments.spec import RunSpec
from adaptivek.experiments.store import ForeignError, Result, Store
from adaptivek.methods import METHODS

from .made_results import SHORT, made, result

SPEC = RunSpec("digits", "mkl", noise_rate=0.2, recipe=dataclasses.replace(SHORT, network="digits-cnn"))


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def counted(monkeypatch) -> list[RunSpec]:
    """An engine that makes results up, and counts them."""
    done = []

    def engine(work, settings):
        while unit := work.take(1):
            done.extend(unit)
            yield from map(made, unit)

    monkeypatch.setitem(executors.ENGINES, "local", engine)
    return done


def changed(path: Path, change) -> None:
    fields = json.loads(gzip.decompress(path.read_bytes()))
    change(fields)
    path.write_bytes(gzip.compress(json.dumps(fields).encode()))


def unknown_here(folder: Path, monkeypatch) -> None:
    """A result of a method that this installation does not have, beside one that it has."""
    Store(folder).write(result("vanilla", 0.6))

    @dataclasses.dataclass(frozen=True)
    class Future(METHODS["gce"]):
        depth: int = 3
        name = "from-the-future"

    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "from-the-future", Future)
        Store(folder).write(result("from-the-future", 0.9))


def test_a_report_of_an_unknown_method_shows_it_and_changes_nothing(tmp_path, monkeypatch, capsys):
    unknown_here(tmp_path / "bench", monkeypatch)
    before = files(tmp_path / "bench")
    main(["report", str(tmp_path / "bench"), "--out", str(tmp_path / "out")])
    assert files(tmp_path / "bench") == before
    assert not (tmp_path / "bench/aside").exists()
    text = (tmp_path / "out/table.md").read_text()
    assert "| from-the-future (not known here) | not known here | - | - |" in text
    assert "| Digits | directed | 0.2 | 1 | 60.00 | **90.00** |" in text
    assert "from-the-future (not known here)" in (tmp_path / "out/report.html").read_text()
    assert "not known here" in capsys.readouterr().out


def test_what_cannot_be_read_is_named_in_the_report_and_left_alone(tmp_path, capsys):
    store = Store(tmp_path)
    for seed in range(3):
        store.write(result("vanilla", 0.6, seed=seed))
    first, second, _ = sorted(store.runs.iterdir())
    changed(first, lambda fields: fields.update(format=9))
    second.write_bytes(second.read_bytes()[:50])
    (store.runs / "half.json.gz.123.partial").write_bytes(b"half")
    before = files(tmp_path / "runs")
    main(["report", str(tmp_path)])
    assert files(tmp_path / "runs") == before
    page, text = (tmp_path / "report.html").read_text(), (tmp_path / "table.md").read_text()
    for told in (page, text):
        assert f"{first.name} is of another version: its format is 9, this version reads 2" in told
        assert f"{second.name} is not a result" in told
        assert "half.json" not in told
    assert f"{second.name} is not a result" in capsys.readouterr().out


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields.update(format=3),
        lambda fields: fields["spec"]["recipe"].update(warm_restarts=2),
        lambda fields: fields["epochs"].update(colour=[1] * 6),
    ],
)
def test_a_result_of_a_newer_version_is_never_done_again_over(tmp_path, counted, change):
    store = Store(tmp_path)
    store.write(made(SPEC))
    changed(store.path(SPEC), change)
    before = files(tmp_path)
    with pytest.raises(ForeignError, match=rf"{store.path(SPEC).name} is of another version"):
        list(bench([SPEC], tmp_path, "local", Settings("cpu")))
    assert files(tmp_path) == before
    assert not counted


def test_a_result_of_an_older_revision_is_done_again_and_told_apart(tmp_path, counted, monkeypatch):
    store = Store(tmp_path)
    for one in (made(SPEC), made(dataclasses.replace(SPEC, method="vanilla"))):
        store.write(one)
    old = store.path(SPEC)
    monkeypatch.setattr(METHODS["mkl"], "revision", 7)
    assert store.read(SPEC) is None
    main(["report", str(tmp_path)])
    text = (tmp_path / "table.md").read_text()
    assert "| data set | noise | rate | seeds | Vanilla | MKL (revision 1) |" in text
    assert "MKL (revision 1): 1 result of the method as it was; here it has revision 7" in text
    assert "1 of 1" not in text  # no claim of the paper is counted by it
    list(bench([SPEC], tmp_path, "local", Settings("cpu")))
    assert counted == [SPEC]
    assert old.exists()
    main(["report", str(tmp_path)])
    text = (tmp_path / "table.md").read_text()
    assert "| data set | noise | rate | seeds | Vanilla | MKL |" in text  # the new one takes its place
    assert "MKL (revision 1): 1 result of the method as it was, for which there is a newer one" in text


def test_a_default_that_has_changed_since_is_told_apart(tmp_path, monkeypatch):
    stored = result("adaptive-k", 0.5)
    Store(tmp_path).write(stored)

    @dataclasses.dataclass(frozen=True)
    class Other(METHODS["adaptive-k"]):
        beta1: float = 0.8

    monkeypatch.setitem(METHODS, "adaptive-k", Other)
    (found,) = Store(tmp_path).read_all()
    assert found.apart == "beta1=0.9"
    assert Store(tmp_path).read(stored.spec) is None


@pytest.mark.parametrize("name", ["paper", "methods", "beyond"])
def test_the_results_that_come_with_the_library_are_read(name):
    folder = Path(__file__).parent.parent / "results" / name
    if not folder.exists():
        pytest.skip("they are in the repository alone")
    results, others = Store(folder).look()
    assert len(results) > 100
    assert others == []


def test_results_say_by_what_they_were_made(tmp_path, monkeypatch):
    import torch

    import adaptivek

    spec = RunSpec("digits", "vanilla", recipe=dataclasses.replace(SHORT, network="digits-cnn", precision="bfloat16"))
    (one,) = executors.train_unit((spec,), "cpu")
    Store(tmp_path).write(one)
    (found,) = Store(tmp_path).read_all()
    # in bfloat16 on a GPU alone
    assert found.provenance == Provenance(adaptivek.__version__, torch.__version__, "cpu", "float32", threads=1)
    (failed,) = executors.train_unit((dataclasses.replace(spec, recipe=SHORT),), "cpu")
    assert failed.failure
    assert failed.provenance.device == "cpu"


def test_who_reads_half_a_file_does_not_move_what_takes_its_place(tmp_path):
    store = Store(tmp_path)
    store.write(made(SPEC))
    store.path(SPEC).write_bytes(b"half")
    work = LockedWork([SPEC], store)
    assert store.read(SPEC) is None
    store.write(made(SPEC))  # another process, between the look and the move
    assert work.take(1) == ()
    assert store.read(SPEC) is not None
    assert not (tmp_path / "aside").exists()


def test_two_that_retry_do_a_failed_run_once_more_between_them(tmp_path, counted, monkeypatch):
    """The other begins and ends just after this one has read that the run failed."""
    Store(tmp_path).write(dataclasses.replace(made(SPEC), epochs=[], details=[], failure="out of memory"))
    real, others = Store.read, []

    def read(self, spec):
        found = real(self, spec)
        if not others:
            others.append(None)
            others.extend(bench([SPEC], tmp_path, "local", Settings("cpu"), retry_failed=True))
        return found

    monkeypatch.setattr(Store, "read", read)
    (mine,) = bench([SPEC], tmp_path, "local", Settings("cpu"), retry_failed=True)
    assert counted == [SPEC]
    assert not mine.failure
    assert [each.spec for each in others[1:]] == [SPEC]


def test_a_retry_that_is_stopped_leaves_the_failure(tmp_path, monkeypatch):
    Store(tmp_path).write(Result(SPEC, failure="out of memory"))

    def engine(work, settings):
        work.take(1)
        raise KeyboardInterrupt
        yield

    monkeypatch.setitem(executors.ENGINES, "local", engine)
    with pytest.raises(KeyboardInterrupt):
        list(bench([SPEC], tmp_path, "local", Settings("cpu"), retry_failed=True))
    assert Store(tmp_path).read(SPEC).failure == "out of memory"


def test_a_lock_that_cannot_be_removed_while_it_is_open_is_released(tmp_path, monkeypatch):
    """As on Windows."""
    store = Store(tmp_path)
    lock = store.claim(SPEC)

    def refuse(self, missing_ok=False):
        raise PermissionError("in use")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        lock.close()
    again = store.claim(SPEC)
    assert again is not None
    again.close()


def test_a_pool_that_broke_since_the_last_look_loses_no_run(monkeypatch):
    specs = [dataclasses.replace(SPEC, seed=seed) for seed in range(5)]
    pools = []

    class Pool:
        """Breaks at its third unit, which is when one asks it to take it."""

        def __init__(self, size, *args, **options):
            self.size, self.taken = size, 0
            pools.append(self)

        def submit(self, work, unit, *args):
            self.taken += 1
            if self.size > 1 and len(pools) == 1 and self.taken == 3:
                raise BrokenProcessPool("a worker died")
            future = Future()
            if self.size > 1 and len(pools) == 1 and self.taken == 2:
                future.set_exception(BrokenProcessPool("a worker died"))
            else:
                future.set_result([made(spec) for spec in unit])
            return future

        def shutdown(self, **options):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(executors, "ProcessPoolExecutor", Pool)
    units = iter([(spec,) for spec in specs])
    found = list(executors._in_processes(units, Settings("cpu", workers=3)))
    assert sorted(each.spec.seed for each in found) == [0, 1, 2, 3, 4]
    assert len(pools) >= 4  # one for each unit that was lost, and a new one for the rest
