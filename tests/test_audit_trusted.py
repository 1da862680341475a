"""Trusted rows and decisions: what they say of the noise, and how decisions are read back."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import adaptivek
from adaptivek.auditing.decisions import Decision, corrections, read_decisions, with_decisions
from adaptivek.auditing.noise_floor import NoiseRatio
from adaptivek.auditing.predictions import Predictions
from adaptivek.auditing.sources import Use, load
from adaptivek.auditing.trusted import Known, ratio_from_decisions, ratio_from_trusted
from adaptivek.cli import main

HEAD = "row,label,corrected_label,decision\n"


def predicted(rows: int, classes: int, error: float, rng: np.random.Generator) -> tuple[np.ndarray, Predictions]:
    """True classes, and predictions that err this often."""
    true = rng.integers(0, classes, rows)
    wrong = rng.random(rows) < error
    guess = np.where(wrong, (true + rng.integers(1, classes, rows)) % classes, true)
    return true, Predictions(0.9 * np.eye(classes)[guess] + 0.1 / classes, None)


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_trusted_rows_give_the_noise_where_networks_and_labels_err_apart(noise, classes):
    held = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        true, p = predicted(4_000, classes, 0.2, rng)
        trusted = rng.random(4_000) < 0.1
        noisy = (rng.random(4_000) < noise) & ~trusted
        labels = np.where(noisy, (true + rng.integers(1, classes, 4_000)) % classes, true)
        found = ratio_from_trusted(p, labels, Known(trusted), classes)
        held += found.ratio.low <= noisy.mean() <= found.ratio.high
        assert abs(found.ratio.ratio - noisy.mean()) < 0.12
    assert held >= 17


@pytest.mark.parametrize("error", [0.3, 0.42])
def test_noise_of_one_class_in_which_the_network_errs_most(error):
    """As where much of a class is labelled as another: the network then errs in this class, and rarely elsewhere."""
    held = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        true = rng.integers(0, 2, 3_000)
        wrong = rng.random(3_000) < np.where(true == 1, error, 0.05)
        p = Predictions(0.9 * np.eye(2)[np.where(wrong, 1 - true, true)] + 0.05, None)
        trusted = rng.random(3_000) < 0.1
        noisy = (true == 1) & (rng.random(3_000) < 0.3) & ~trusted
        found = ratio_from_trusted(p, np.where(noisy, 0, true), Known(trusted), 2)
        held += found.ratio.low <= noisy.mean() <= found.ratio.high
    assert held >= 36


def test_a_network_that_has_learned_the_noise_is_found_out():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 2, 4_000)
    follows = rng.random(4_000) < 0.2  # a fifth of the inputs mislead
    trusted = rng.random(4_000) < 0.1
    labels = np.where(follows & ~trusted, 1 - true, true)
    p = Predictions(0.9 * np.eye(2)[np.where(follows, 1 - true, true)] + 0.05, None)
    found = ratio_from_trusted(p, labels, Known(trusted), 2)
    assert "learned noise that follows the inputs" in found.warning
    assert found.ratio.low <= 0.2 * (~trusted).mean() <= found.ratio.high
    assert found.ratio.ratio > 0.1
    assert ratio_from_trusted(p, labels, Known(np.arange(4_000) < 10), 2) is None


def test_decisions_move_the_ratio_as_a_logistic_regression_would():
    rng = np.random.default_rng(0)
    rows = 5_000
    odds = rng.normal(-3, 2, rows)
    p = 1 / (1 + np.exp(-odds))
    truly = rng.random(rows) < 1 / (1 + np.exp(-(odds - 1.5)))  # fewer than the audit thinks
    decided = np.zeros(rows, bool)
    decided[np.argsort(-p)[:1_500]] = True
    before = np.zeros(rows, np.int64)
    labels = np.where(decided & truly, 1, 0)
    start = NoiseRatio(float(p.mean()), 0.0, 0.5)
    found = ratio_from_decisions(p, Known(decided, before, decided), labels, start)
    left = (truly & ~decided).mean()
    assert found.low <= left <= found.high
    model = LogisticRegression(C=1e6).fit(odds[decided, None], truly[decided])
    assert found.ratio == pytest.approx(model.predict_proba(odds[~decided, None])[:, 1].sum() / rows, abs=0.01)
    few = np.arange(rows) < 5
    assert ratio_from_decisions(p, Known(few, before, few), labels, start) == start
    none_left = np.ones(rows, bool)
    assert ratio_from_decisions(p, Known(none_left, before, none_left), labels, start).ratio == 0


def blobs(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    true = np.arange(rows) % 3
    x = 3 * np.eye(3)[true] + 0.5 * rng.standard_normal((rows, 3))
    noisy = rng.random(rows) < 0.15
    frame = pd.DataFrame(x, columns=list("uvw"))
    frame["kind"] = np.array(["a", "=b", "c"])[np.where(noisy, (true + 1) % 3, true)]
    return frame


def test_trusted_rows_are_never_flagged(tmp_path):
    frame = blobs()
    frame["checked"] = ["yes" if row % 2 else "" for row in range(300)]
    found = adaptivek.audit(frame, "kind", trusted="checked", device="cpu", epochs=6, folder=tmp_path)
    trusted = np.arange(300) % 2 == 1
    assert found.given.trusted.tolist() == trusted.tolist()
    assert (found.score[trusted] == 1).all()
    assert not (found.is_issue & trusted).any()
    assert "checked" not in found.settings["columns"]
    assert "trusted" in (tmp_path / "issues.csv").read_text().partition("\n")[0].split(",")
    by_mask = load(frame.drop(columns="checked"), "kind", Use(trusted=trusted))
    assert by_mask.trusted.tolist() == trusted.tolist()


def test_decisions_are_read_back_and_count(tmp_path):
    frame = blobs()
    frame.to_csv(tmp_path / "data.csv", index=False)
    first = adaptivek.audit(tmp_path / "data.csv", "kind", device="cpu", epochs=6)
    true = np.array(["a", "=b", "c"])[np.arange(300) % 3]
    lines, dropped = [], int(first.row[first.is_issue][0])
    for row, name in zip(first.row.tolist(), frame["kind"], strict=True):
        said = "undecided"
        if first.is_issue[row]:
            said = "drop" if row == dropped else "keep" if name == true[row] else "fix"
        corrected = {"drop": "", "fix": true[row]}.get(said, name)
        lines.append(
            ",".join([str(row), *(f"'{cell}" if cell.startswith("=") else cell for cell in (name, corrected)), said])
        )
    path = tmp_path / "corrected.csv"
    path.write_text(HEAD + "\n".join(lines), encoding="utf-8")
    out = tmp_path / "next"
    main(["audit", str(tmp_path / "data.csv"), "--label", "kind", "--decisions", str(path), "--device", "cpu",
          "--epochs", "6", "--out", str(out)])  # fmt: skip
    left = pd.read_csv(out / "clean.csv")
    decided = [row for row in first.row[first.is_issue].tolist() if row != dropped]
    with (out / "issues.csv").open(newline="") as file:
        issues = list(csv.DictReader(file))
    assert issues[dropped]["skipped"] == "dropped by decision"
    for row in decided:
        assert issues[row]["label"].removeprefix("'") == true[row]  # fixed
        assert issues[row]["trusted"] == "True"
        assert issues[row]["is_issue"] == "False"
    written = iter(left["kind"])
    for row, line in enumerate(issues):
        if line["removed"] == "False":
            assert next(written) == (true[row] if row in decided else frame["kind"][row])
    assert next(written, None) is None
    before, after = first.summary, json.loads((out / "summary.json").read_text())
    assert after["noise_ratio"] < before["noise_ratio"]
    page = (out / "report.html").read_text()
    assert f"{len(decided) + 1:,} decisions of earlier rounds" in page


def test_decisions_fix_labels_of_any_source():
    data = load(np.eye(9), list("aaabbbccc"))
    said = {0: Decision("a", "b", "fix"), 1: Decision("a", "a", "keep"), 8: Decision("c", "", "drop")}
    new = with_decisions(data, said)
    assert new.row.tolist() == list(range(8))
    assert [new.classes[code] for code in new.labels] == list("baabbbcc")
    assert new.trusted.tolist() == [True, True, *[False] * 6]
    assert new.skipped == [(8, "dropped by decision")]
    assert new.reviewed.decision.tolist() == ["fix", "keep", *[""] * 6]
    assert new.reviewed.dropped == [(8, 2)]
    assert corrections(new) == {0: 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "must have the columns row, label, corrected_label, decision"),
        (HEAD + "x,a,a,keep\n", "line 2 of"),
        (HEAD + "0,a,a,perhaps\n", "got '0' and 'perhaps'"),
        (HEAD + "0,b,a,fix\n", "row 0 is labelled 'a' and not 'b'"),
        (HEAD + "77,a,a,keep\n", "one for row 77"),
        (HEAD + "0,a,zebra,fix\n", "got 'zebra' for row 0"),
        (HEAD + "".join(f"{row},b,,drop\n" for row in (3, 4, 5)), "at least two classes"),
    ],
)
def test_decisions_of_other_data_are_refused(tmp_path, text, message):
    path = tmp_path / "corrected.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        with_decisions(load(np.eye(6), list("aaabbb")), read_decisions(path))
    with pytest.raises(FileNotFoundError, match="decisions must be a file"):
        read_decisions(tmp_path / "none.csv")


def test_no_decisions_change_nothing(tmp_path):
    path = tmp_path / "corrected.csv"
    path.write_text(HEAD + "0,a,a,undecided\n")
    assert read_decisions(path) == {}
    path.write_text(HEAD)
    new = with_decisions(load(np.eye(6), list("aaabbb")), read_decisions(path))
    assert new.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert not new.trusted.any()


def test_a_spreadsheet_may_have_touched_the_numbers(tmp_path):
    path = tmp_path / "corrected.csv"
    path.write_text(HEAD + "0,0.0,1.0,fix\n1,0,0,keep\n")
    new = with_decisions(load(np.eye(6), [0, 0, 0, 1, 1, 1]), read_decisions(path))
    assert new.labels.tolist() == [1, 0, 0, 1, 1, 1]
