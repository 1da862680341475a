"""Results in places that are no folder of this machine: in memory, and in an object store that a server here plays."""

from __future__ import annotations

import gzip
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from adaptivek.cli import main
from adaptivek.experiments.bench import LockedWork, bench
from adaptivek.experiments.executors import Settings
from adaptivek.experiments.store import Result, Store
from adaptivek.support.files import place

from .test_store import SPEC, counted, made

pytest.importorskip("upath")
_ = counted  # a fixture


@pytest.fixture
def bucket(monkeypatch) -> Iterator[str]:
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    s3fs = pytest.importorskip("s3fs")
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "any")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    name = f"results-{uuid.uuid4()}"  # servers of one process share their buckets
    s3fs.S3FileSystem().mkdir(name)
    yield f"s3://{name}/a run"
    server.stop()


@pytest.fixture(params=["memory", "s3", "file"])
def folder(request, tmp_path) -> str:
    if request.param == "s3":
        return request.getfixturevalue("bucket")
    return f"memory://{tmp_path}" if request.param == "memory" else f"file://{tmp_path}"


def test_a_place_like_any_folder(folder, counted, capsys):
    """Done once, a damaged file set aside and its run done again, the report written beside the results."""
    results = list(bench([SPEC], folder, "local", Settings("cpu")))
    assert counted == [SPEC]
    (found,) = bench([SPEC], folder, "local", Settings("cpu"))
    assert counted == [SPEC]
    assert found.to_json() == results[0].to_json()
    store = Store(folder)
    whole = store.path(SPEC).read_bytes()
    store.path(SPEC).write_bytes(whole[:100])
    with pytest.warns(UserWarning, match="is not a result: .* it was moved to"):
        list(bench([SPEC], folder, "local", Settings("cpu")))
    assert counted == [SPEC, SPEC]
    assert store.path(SPEC).read_bytes() == whole
    assert (store.folder / "aside" / store.path(SPEC).name).read_bytes() == whole[:100]
    assert [path.name for path in store.runs.glob("*")] == [store.path(SPEC).name]  # no lock, nothing half done
    assert gzip.decompress(whole).startswith(b"{")
    main(["report", folder, "--paper"])
    assert "report.html" in capsys.readouterr().out
    assert (store.folder / "paper.html").exists()
    assert (store.folder / "report.html").read_bytes().startswith(b"<!doctype html>")


def test_what_one_process_writes_another_sees_at_once(bucket):
    first, second = Store(bucket), Store(bucket)
    assert second.read_all() == []
    first.write(made(SPEC))
    assert len(second.read_all()) == 1
    first.write(Result(SPEC, failure="later"))
    assert second.read(SPEC).failure == "later"
    assert LockedWork([SPEC], second).take(1) == ()


def test_a_bucket_that_is_not_there_is_not_made_and_said_before_anything_is_trained(bucket, counted):
    with pytest.raises(FileNotFoundError, match="bucket"):
        list(bench([SPEC], "s3://misspelt/runs", "local", Settings("cpu")))
    assert counted == []
    assert not place("s3://misspelt/runs").exists()


def test_what_is_missing_is_said(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="s4"):
        place("s4://bucket/runs")
    monkeypatch.setitem(sys.modules, "upath", None)
    with pytest.raises(ImportError, match=r"s3://bucket/runs needs universal-pathlib: pip .*'adaptivek\[remote\]'"):
        place("s3://bucket/runs")
    assert place("runs") == Path("runs")
