"""Templates into pages that need nothing beside them, and whose data can do nothing."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

try:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup as Markup
except ImportError:
    raise ImportError("the report needs Jinja2: pip install 'adaptivek[report]'") from None


HERE = Path(__file__).parent


def shared_style() -> str:
    """Colours and fonts of all pages."""
    return (HERE / "page.css").read_text(encoding="utf-8")


def render(template: Path, script: str, style: str, **values: object) -> str:
    """The template with its script and style inside; values are escaped unless they are Markup."""
    # no tags from data, whatever is in it; and were there any, the policy would let nothing but our script run
    templates = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template(template.name).render(
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=Markup(style),
        **values,
    )
