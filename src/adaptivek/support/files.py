"""Files that are there whole or not at all, and text from outside that does nothing where it is shown."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FORMULA = ("=", "+", "-", "@", "\t", "\r")  #: what a spreadsheet may take for the start of one


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write instead; what has been written there then takes the place of the file at once."""
    # several processes may write one file, on several machines
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:  # Ctrl-C too
        with suppress(OSError):  # what went wrong first is the reason to be told
            partial.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    with whole(path) as partial:
        # half of a surrogate pair, which text read from a file can hold, is no UTF-8
        partial.write_bytes(content.encode("utf-8", "replace") if isinstance(content, str) else content)


def plain(text: str) -> str:
    """One line without anything that cannot be seen: no control codes, no reversed writing."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def harmless(text: str) -> str:
    """A cell that no spreadsheet takes for a formula: with an apostrophe before it, unless it is a plain number."""
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(FORMULA) else text
    return text
