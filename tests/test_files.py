"""Files are there whole or not at all; cells are no formulas."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from adaptivek.experiments.data import Split, cache
from adaptivek.experiments.spec import RunSpec
from adaptivek.experiments.store import Result, Store
from adaptivek.noise import Directed, corrupt
from adaptivek.support.files import harmless, whole, write_whole
from adaptivek.theory.page import Table
from adaptivek.theory.page import write as write_theory


def test_what_was_there_stays_until_all_is_written_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "a.txt"
    write_whole(path, "first")
    with pytest.raises(KeyboardInterrupt), whole(path) as partial:  # noqa: PT012 stopped while writing
        partial.write_text("hal")
        assert path.read_text() == "first"
        raise KeyboardInterrupt
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
    write_whole(path, "second \udc80")  # half of a pair, as some files hold
    assert path.read_text() == "second ?"


def a_split(seed: int) -> Split:
    return Split(torch.full((2, 1), seed), torch.arange(2), torch.zeros(1, 1), torch.zeros(1, dtype=torch.int64), 2)


WRITERS = {
    "a result": lambda folder, n: Store(folder).write(Result(RunSpec("digits"), seconds=float(n))),
    "a manifest": lambda folder, n: corrupt([0, 1] * 50, Directed(0.3), classes=2, seed=n)[1].save(
        folder / "noise.json"
    ),
    "the theory": lambda folder, n: write_theory(folder, [Table(str(n), "", (), ())], []),
    "data in the cache": lambda folder, n: cache.write(folder / "a.safetensors", a_split(n)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_whatever_is_written_is_whole(name, tmp_path, monkeypatch):
    """Stopped in the middle of a file, all is as it was before."""

    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def half(path, data, *args, **options):
        with path.open("wb") as file:
            file.write(b"half")
        raise KeyboardInterrupt

    WRITERS[name](tmp_path, 0)
    before = contents()
    assert len(before) == 1
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", half)
        patch.setattr(Path, "write_text", half)
        patch.setattr("safetensors.torch.save_file", lambda tensors, path: half(path, tensors))
        with pytest.raises(KeyboardInterrupt):
            WRITERS[name](tmp_path, 1)
    assert contents() == before
    WRITERS[name](tmp_path, 1)
    assert contents().keys() == before.keys()
    assert contents() != before


@pytest.mark.parametrize(
    ("text", "cell"), [("=cmd()", "'=cmd()"), ("@x", "'@x"), ("-1", "-1"), ("-a", "'-a"), ("a=b", "a=b"), ("", "")]
)
def test_a_cell_is_no_formula_and_a_number_stays_one(text, cell):
    assert harmless(text) == cell
