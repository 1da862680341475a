"""Examples in docstrings, lines that start with >>>, as code: in Markdown they would be quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^(?=(>>>|\.\.\.) )", "    ", obj.docstring.value, flags=re.MULTILINE)
