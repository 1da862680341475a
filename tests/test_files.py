"""Files are there whole or not at all; cells are no formulas."""

from __future__ import annotations

import pytest

from adaptivek.support.files import harmless, whole, write_whole


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


@pytest.mark.parametrize(
    ("text", "cell"), [("=cmd()", "'=cmd()"), ("@x", "'@x"), ("-1", "-1"), ("-a", "'-a"), ("a=b", "a=b"), ("", "")]
)
def test_a_cell_is_no_formula_and_a_number_stays_one(text, cell):
    assert harmless(text) == cell
