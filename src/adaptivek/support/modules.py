"""Import what users name on the command line: their own methods, mostly."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
import zlib
from collections.abc import Iterable
from pathlib import Path


def import_modules(names: Iterable[str]) -> tuple[str, ...]:
    """Import each module, once: a dotted name, or the path of a .py file. The names as any process can import them."""
    return tuple(_import(name) for name in names)


def _import(name: str) -> str:
    is_file = name.endswith(".py")
    path = Path(name).resolve()  # another process may have another folder
    if is_file and not path.is_file():
        raise ImportError(f"--import: {name} must be a Python file or the dotted name of a module, got no such file")
    try:
        if is_file:
            _import_file(path)
        else:
            importlib.import_module(name)
    except Exception as error:  # whatever the code of others raises
        raise ImportError(f"--import: {name} must import without an error, got {_told(name, error)}") from error
    return str(path) if is_file else name


def _import_file(path: Path) -> None:
    # a name of its own: the file may be called like a module that others import
    name = f"{path.stem}_{zlib.crc32(str(path).encode()):08x}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # it ends in .py
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _told(name: str, error: Exception) -> str:
    """The error in a line, with the place it came from."""
    if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
        return f"{error} on the Python path (PYTHONPATH); a .py file is named by its path"
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = "" if isinstance(error, SyntaxError) else f" ({last.filename}, line {last.lineno})"
    return f"{type(error).__name__}: {error}{place}"
