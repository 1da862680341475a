"""`adaptivek train --audit`: a run that begins with what an audit predicts for its rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import adaptivek
from adaptivek.auditing.targets import load_audit
from adaptivek.cli import main
from adaptivek.experiments.data import load
from adaptivek.experiments.session import Session
from adaptivek.experiments.spec import RunSpec

OPTIONS = ["--epochs", "1", "--warmup-epochs", "0"]


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    data = load("digits")
    adaptivek.audit(data.x.flatten(1), data.y, epochs=2).save(folder)
    return folder


def test_its_memory_begins_with_the_predictions_of_the_audit(audited, tmp_path):
    main(["train", "digits", "--out", str(tmp_path / "run"), "--audit", str(audited), *OPTIONS])
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["audit"] == load_audit(audited).fingerprint()
    assert len((tmp_path / "run" / "records.jsonl").read_text().splitlines()) == 1
    data, start = load("digits"), torch.from_numpy(load_audit(audited).predictions)
    session = Session(RunSpec.from_dict(config), data, "cpu", start=start)
    torch.testing.assert_close(session.criterion.memory.state.predictions, start)
    with pytest.raises(ValueError, match="start must be the predictions of the audit"):
        Session(RunSpec.from_dict(config), data, "cpu")


def test_an_audit_of_other_rows_is_refused(audited, tmp_path, capsys):
    for options, error in ((["--noise-rate", "0.2"], "noise_rate must be 0"), (["--audit", "nowhere"], "not found")):
        with pytest.raises(SystemExit):
            main(["train", "digits", "--out", str(tmp_path / "run"), "--audit", str(audited), *options, *OPTIONS])
        assert error in " ".join(capsys.readouterr().err.split())
    found = load_audit(audited)
    with pytest.raises(ValueError, match="these have other labels"):
        found.of_labels("train", (found.label + 1) % 10)
    with pytest.raises(ValueError, match="these have 5 rows"):
        found.of_labels("train", np.zeros(5, np.int64))
