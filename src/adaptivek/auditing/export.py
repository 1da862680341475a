"""The flagged rows for those who fix labels elsewhere: each with its suggested label as a prediction.

The formats are those that the tools read as they are: tasks of Label Studio with its labelling interface, records of
Argilla, and labels of FiftyOne for a folder of images.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from .. import __version__
from ..backend.checks import check_choice
from ..support.files import write_whole
from .embed import data_url
from .result import AuditResult

AGENT = f"adaptivek {__version__}"
SOME = 100  #: rows where none is flagged
LABEL = "label"  #: what the question is called in the tools


def export(result: AuditResult, to: str, folder: Path) -> list[Path]:
    """Write the flagged rows, the lowest score first; give the files."""
    check_choice("audit", "export", to, tuple(EXPORTS))
    if result.given is None or (to != "fiftyone" and result.given.shown[1] is None):
        raise ValueError("audit: export must be left out for features, which nobody can look at")
    if to == "fiftyone" and (result.given.kind != "image" or result.given.files is None):
        raise ValueError(f"audit: export to fiftyone takes a folder of images, got {result.given.kind}")
    files = EXPORTS[to](result)
    for name, content in files.items():
        write_whole(folder / name, content)
    return [folder / name for name in files]


def _label_studio(result: AuditResult) -> dict[str, str]:
    kind = _kind(result)
    tasks = []
    for place in _chosen(result):
        choice = {"from_name": LABEL, "to_name": "input", "type": "choices"}
        choice["value"] = {"choices": [result.classes[result.other_label[place]]]}  # type: ignore[assignment]
        score = round(float(result.other_probability[place]), 6)
        tasks.append(
            {
                "data": {kind: _content(result, place)} | _about(result, place),
                "predictions": [{"model_version": AGENT, "score": score, "result": [choice]}],
            }
        )
    tag = {"text": "Text", "image": "Image", "table": "Table"}[kind]
    choices = "".join(f"    <Choice value={quoteattr(name)}/>\n" for name in result.classes)
    interface = (
        f'<View>\n  <{tag} name="input" value="${kind}"/>\n  <Header value="observed: $observed"/>\n'
        f'  <Choices name="{LABEL}" toName="input" choice="single" showInline="true">\n{choices}  </Choices>\n</View>\n'
    )
    return {"label_studio.json": _json(tasks), "label_studio.xml": interface}


def _argilla(result: AuditResult) -> dict[str, str]:
    kind = _kind(result)
    records = []
    for place in _chosen(result):
        content = _content(result, place)
        fields = {kind: content} if kind != "table" else {"text": json.dumps(content, ensure_ascii=False, indent=1)}
        suggestion = {
            "value": result.classes[result.other_label[place]],
            "score": round(float(result.other_probability[place]), 6),
            "agent": AGENT,
        }
        about = _about(result, place)
        records.append(
            {"id": str(about["row"]), "fields": fields, "metadata": about, "suggestions": {LABEL: suggestion}}
        )
    return {"argilla.json": _json(records)}


def _fiftyone(result: AuditResult) -> dict[str, str]:
    labels = {}
    for place in _chosen(result):
        about = _about(result, place)
        labels[str(PurePosixPath(about.pop("file")).with_suffix(""))] = {
            "label": result.classes[result.other_label[place]],
            "confidence": round(float(result.other_probability[place]), 6),
            "attributes": about,
        }
    return {"fiftyone.json": _json({"classes": result.classes, "labels": labels})}


EXPORTS: dict[str, Callable[[AuditResult], dict[str, str]]] = {
    "label-studio": _label_studio,
    "argilla": _argilla,
    "fiftyone": _fiftyone,
}


def _chosen(result: AuditResult) -> Iterator[int]:
    """Places, the lowest score first; where none is flagged, some of the lowest score."""
    order = np.argsort(result.score, kind="stable")
    chosen = order[result.is_issue[order]] if result.is_issue.any() else order[:SOME]
    return (int(place) for place in chosen)


def _kind(result: AuditResult) -> str:
    assert result.given is not None
    return result.given.shown[0]


def _content(result: AuditResult, place: int) -> Any:
    """A text, the cells of a row, or an image inside of its own address."""
    assert result.given is not None
    kind, content = result.given.shown
    if kind == "image":
        return data_url(content(place))
    return content[place]


def _about(result: AuditResult, place: int) -> dict[str, Any]:
    row = int(result.row[place])
    files = None if result.given is None else result.given.files
    named = {} if files is None else {"file": files[row]}
    score = round(float(result.score[place]), 6)
    return {"row": row} | named | {"observed": result.classes[result.label[place]], "score": score}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
