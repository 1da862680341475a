"""Which room of the package knows which: imports go one way, and a reader can stop at any door.

A room is a folder or a file right under `adaptivek`. Read from the source, imports inside of functions too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import adaptivek

PACKAGE = Path(adaptivek.__file__).parent
CORE = {"method", "step", "criterion", "backend", "methods"}
LIBRARY = CORE | {"training", "support", "noise", "networks", "pages", "theory"}
#: each room and those that it may import beside itself
ALLOWED: dict[str, set[str]] = {
    "method": set(),
    "step": {"method", "backend"},
    "backend": {"method", "step"},
    "methods": {"method", "backend"},
    "criterion": CORE,
    "training": CORE,
    "testing": CORE,
    "support": set(),
    "noise": {"backend", "support"},
    "networks": {"backend", "support"},
    "pages": {"support"},
    "theory": {"backend", "support", "pages"},
    "experiments": LIBRARY,
    "auditing": LIBRARY,
    "plots": {"backend", "support", "training", "experiments", "auditing"},
    "stages": LIBRARY | {"auditing"},
    "integrations": CORE | {"training", "auditing"},
    "cli": LIBRARY | {"experiments", "auditing", "stages", "integrations"},
    "__init__": CORE | {"training"},
    "__main__": {"cli"},
}
#: imports that are still to be mended: (module, room)
KNOWN: set[tuple[str, str]] = set()


def modules() -> dict[str, Path]:
    return {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}


def room_of(module: str) -> str:
    return module.split(".")[0]


def imports(tree: ast.AST, module: str) -> Iterator[str]:
    """The rooms that some code imports from. Of the package itself, nothing but its version is no room."""
    package = ("adaptivek", *module.split("."))[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            start = ".".join([*base, *filter(None, [node.module])])
            names = [f"{start}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "adaptivek" and name != "adaptivek.__version__":
                yield [*name.split("."), "__init__"][1]


def when_imported(module: str) -> ast.Module:
    """What of a module runs when it is imported: neither its functions nor what is for type checkers."""
    tree = ast.parse(modules()[module].read_text())
    tree.body = [
        node
        for node in tree.body
        if not isinstance(node, ast.FunctionDef)
        and not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    return tree


def arrows() -> set[tuple[str, str]]:
    found = set()
    for module, path in modules().items():
        tree = when_imported(module) if module == "__init__" else ast.parse(path.read_text())
        found |= {(module, room) for room in imports(tree, module) if room != room_of(module)}
    return found


def test_imports_go_one_way():
    wrong = {(module, room) for module, room in arrows() if room not in ALLOWED[room_of(module)]}
    assert wrong - KNOWN == set()
    assert KNOWN - wrong == set()  # mended: no longer to be listed


def test_every_room_has_its_arrows_written_down():
    assert {room_of(module) for module in modules()} == ALLOWED.keys()


@pytest.mark.parametrize(
    ("code", "module", "rooms"),
    [
        ("from ..method import Method", "methods.mkl", ["method"]),
        ("from .mkl import ranks", "methods.moit", ["methods"]),
        ("from . import tables", "backend.module", ["backend"]),
        ("from .backend import tables", "step", ["backend"]),
        ("from .. import methods", "experiments.spec", ["methods"]),
        ("from ...theory.fit import fit_run", "experiments.report.page", ["theory"]),
        ("def f():\n    from ..criterion import Selection", "support.files", ["criterion"]),
        ("import adaptivek.cli.main", "theory.fit", ["cli"]),
        ("import adaptivek", "theory.fit", ["__init__"]),
        ("from .. import __version__", "experiments.provenance", []),
        ("import torch\nfrom adaptive import k", "theory.fit", []),
    ],
)
def test_imports_are_read(code, module, rooms):
    assert list(imports(ast.parse(code), module)) == rooms
