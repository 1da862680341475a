"""Flagged rows for other tools, in the form that each reads."""

from __future__ import annotations

import base64
import io
import json
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import adaptivek
from adaptivek.auditing.data import AuditData
from adaptivek.auditing.export import export
from adaptivek.auditing.sources import load
from adaptivek.cli import main

from .made_audit import audit

NASTY = 'say "<hi>" & go'


def flagged(data: AuditData) -> adaptivek.AuditResult:
    """Two of four rows are flagged, the second one first."""
    return audit([0, 1, 0, 1], [1, 0, 0, 1], [0.3, 0.1, 0.9, 0.8], [NASTY, "no"], given=data)


def texts() -> AuditData:
    return load(["one film", "two films", "three films", "four films"], [NASTY, "no", NASTY, "no"])


def test_tasks_of_label_studio(tmp_path):
    files = export(flagged(texts()), "label-studio", tmp_path)
    assert [path.name for path in files] == ["label_studio.json", "label_studio.xml"]
    tasks = json.loads(files[0].read_text())
    assert [task["data"]["row"] for task in tasks] == [1, 0]
    assert tasks[0]["data"] == {"text": "two films", "row": 1, "observed": "no", "score": pytest.approx(0.1)}
    (prediction,) = tasks[0]["predictions"]
    assert prediction["score"] == pytest.approx(0.9)
    (result,) = prediction["result"]
    interface = ElementTree.parse(files[1]).getroot()
    choices, text = interface.find("Choices"), interface.find("Text")
    assert (result["from_name"], result["to_name"], result["type"]) == ("label", "input", "choices")
    assert (choices.get("name"), choices.get("toName"), text.get("name")) == ("label", "input", "input")
    assert text.get("value") == "$text"
    names = [choice.get("value") for choice in choices]
    assert names == [NASTY, "no"]
    assert result["value"]["choices"] == [NASTY]


def test_tables_and_images_too(tmp_path):
    frame = pd.DataFrame({"a": [1.5, 2, 3, 4], "b": list("xyxy"), "label": [NASTY, "no", NASTY, "no"]})
    (path, interface) = export(flagged(load(frame, "label")), "label-studio", tmp_path)
    assert json.loads(path.read_text())[0]["data"]["table"] == {"a": 2.0, "b": "y"}
    assert ElementTree.parse(interface).getroot().find("Table").get("value") == "$table"
    (record, _) = json.loads(export(flagged(load(frame, "label")), "argilla", tmp_path)[0].read_text())
    assert json.loads(record["fields"]["text"]) == {"a": 2.0, "b": "y"}
    for row, name in enumerate(["s/0", "n/1", "s/2", "n/3"]):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (90, 70), (40 * row, 0, 0)).save(tmp_path / "photos" / f"{name}.png")
    images = load(tmp_path / "photos", None)
    (path, _) = export(flagged(images), "label-studio", tmp_path)
    task = json.loads(path.read_text())[0]
    assert task["data"]["file"] == images.files[1]
    start, _, data = task["data"]["image"].partition(",")
    assert start == "data:image/jpeg;base64"
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (90, 70)
    (path,) = export(flagged(images), "fiftyone", tmp_path)
    found = json.loads(path.read_text())
    assert found["classes"] == [NASTY, "no"]
    name = images.files[1].removesuffix(".png")
    assert found["labels"][name]["label"] == NASTY
    assert (tmp_path / "photos" / f"{name}.png").exists()  # as FiftyOne finds it


def test_records_of_argilla(tmp_path):
    (path,) = export(flagged(texts()), "argilla", tmp_path)
    records = json.loads(path.read_text())
    assert records[0]["id"] == "1"
    assert records[0]["fields"] == {"text": "two films"}
    suggestion = records[0]["suggestions"]["label"]
    assert suggestion["value"] == NASTY
    assert 0 <= suggestion["score"] <= 1


@pytest.mark.parametrize(
    ("to", "message"), [("label-studio", "features, which nobody can look at"), ("fiftyone", "a folder of images")]
)
def test_what_cannot_be_exported_is_said(tmp_path, to, message):
    with pytest.raises(ValueError, match=message):
        export(flagged(load(np.eye(4), [NASTY, "no"] * 2)), to, tmp_path)


def test_as_a_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["audit", "--features", "x.npy", "--labels", "y.npy", "--export", "argilla"])
    assert "--export must be left out" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["audit", "x.csv", "--export", "fiftyone"])
    assert "takes a folder of images, got x.csv" in capsys.readouterr().err
    frame = pd.DataFrame({"x": np.r_[np.zeros(30), np.ones(30)], "y": ["a"] * 29 + ["b"] * 31})
    frame.to_csv(tmp_path / "data.csv", index=False)
    main(["audit", str(tmp_path / "data.csv"), "--label", "y", "--export", "label-studio", "--epochs", "2",
          "--device", "cpu", "--out", str(tmp_path / "out")])  # fmt: skip
    said = capsys.readouterr().out
    assert "for label-studio: label_studio.json, label_studio.xml" in said
    assert "used: x as number" in said
    assert isinstance(json.loads((tmp_path / "out/label_studio.json").read_text()), list)


def test_where_none_is_flagged_the_lowest_scores_are_written(tmp_path):
    result = audit([0, 1, 0, 1], [0, 1, 0, 1], [0.7, 0.6, 0.9, 0.8], [NASTY, "no"], given=texts())
    records = json.loads(export(result, "argilla", tmp_path)[0].read_text())
    assert [record["id"] for record in records] == ["1", "0", "3", "2"]
    assert records[0]["suggestions"]["label"]["value"] == NASTY  # the most likely class besides "no"
