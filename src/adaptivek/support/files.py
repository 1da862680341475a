"""Files that are there whole or not at all, wherever they are, and text from outside that does nothing where it is
shown."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

FORMULA = ("=", "+", "-", "@", "\t", "\r")  #: what a spreadsheet may take for the start of one


def place(folder: str | Path) -> Path:
    """A folder: of this machine, or one like s3://bucket/runs that fsspec reaches, which then does what a `Path` does
    but is none. Raises `ImportError` if a package is missing."""
    if isinstance(folder, Path) or "://" not in str(folder):
        return Path(folder)
    try:
        from upath import UPath
    except ImportError:
        raise ImportError(f"{folder} needs universal-pathlib: pip install 'adaptivek[remote]'") from None
    # others write there too: what was listed a while ago says nothing
    found = UPath(folder, use_listings_cache=False)
    _ = found.fs  # raises what is missing for this kind of place
    return cast(Path, found)


def make_folder(path: Path) -> None:
    """Make a folder and those above it. Never a bucket: its name may be misspelt, and its files need no folder."""
    if not isinstance(path, Path):
        from upath.implementations.cloud import CloudPath

        if isinstance(path, CloudPath):
            return
    path.mkdir(parents=True, exist_ok=True)


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write instead; what has been written there then takes the place of the file at once."""
    # several processes may write one file, on several machines
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    try:
        yield partial
        move(partial, path)
    except BaseException:  # Ctrl-C too
        with suppress(OSError):  # what went wrong first is the reason to be told
            partial.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    with whole(path) as partial:
        # half of a surrogate pair, which text read from a file can hold, is no UTF-8
        partial.write_bytes(content.encode("utf-8", "replace") if isinstance(content, str) else content)


def move(path: Path, target: Path) -> None:
    """Put a file in the place of another, or of none."""
    if isinstance(path, Path):
        path.replace(target)
    else:
        path.rename(target)  # which replaces, other than a Path's on Windows


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
