"""The option `--import`, for methods of one's own."""

from __future__ import annotations

from typing import Annotated

import tyro

Imports = Annotated[
    tuple[str, ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(
        name="import",
        metavar="MODULE",
        help="a module or .py file to import first, such as one that registers your own method; may be repeated",
    ),
]
