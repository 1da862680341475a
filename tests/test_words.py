"""The words of the field: a label is clean or noisy, a network memorises, a method has confidence in a label."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import adaptivek

PACKAGE = Path(adaptivek.__file__).parent
#: where this holds so far
ROOMS = ("experiments", "networks", "theory", "cli", "pages", "support", "noise.py")
#: what has a name in the field goes by that
PHRASES = re.compile(
    r"(wrong|right|wrongly)(ly)? label|labels? (is|are|were) (made )?(wrong|right)|by heart|sureness|\bunsure"
    r"|\bbeliev|\bsw(eep|ept)\b|\bhold_back|\bmade_here|begin anew",
    re.IGNORECASE,
)
NAMES = {"cut", "cuts", "parts", "Part", "rule", "ages", "swept", "answered", "judged", "held", "made", "Made"}


def files(suffix: str) -> list[Path]:
    return [path for room in ROOMS for path in [PACKAGE / room, *(PACKAGE / room).rglob("*")] if path.suffix == suffix]


def texts(path: Path) -> str:
    """All that is written for people, in one line: of Python the strings and comments."""
    if path.suffix != ".py":
        return " ".join(path.read_text().split())
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    kept = [token.string for token in tokens if token.type in (tokenize.STRING, tokenize.COMMENT)]
    return " ".join(re.sub(r'"\s+#?\s*f?"', "", " ".join(kept)).split())


def names(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        for field in ("id", "arg", "attr", "name"):
            value = getattr(node, field, None)
            found |= {value} if isinstance(value, str) else set()
    return found


def test_texts_use_the_words_of_the_field():
    found = {
        f"{path.relative_to(PACKAGE)}: {match.group()}"
        for suffix in (".py", ".html", ".js")
        for path in files(suffix)
        for match in PHRASES.finditer(texts(path))
    }
    assert not found


def test_names_use_the_words_of_the_field():
    assert not {f"{path.relative_to(PACKAGE)}: {name}" for path in files(".py") for name in names(path) & NAMES}


def test_the_words_are_found(tmp_path):
    assert PHRASES.search("which labels are wrong")
    assert PHRASES.search("it Believes them")
    assert not PHRASES.search("the label is clean, what is wrong is the loss")
    (tmp_path / "a.py").write_text("def cut(rule):\n    return rule.made  # nobody believes\n")
    assert names(tmp_path / "a.py") & NAMES == {"cut", "rule", "made"}
    assert PHRASES.search(texts(tmp_path / "a.py"))
