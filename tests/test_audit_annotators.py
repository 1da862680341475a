"""Several annotators: Dawid and Skene against the paper in loops, and both ways to give their labels."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

import adaptivek
from adaptivek.auditing import annotators as module
from adaptivek.auditing.annotators import Votes, dawid_skene, log_likelihood, read_votes, with_network
from adaptivek.auditing.predictions import Predictions
from adaptivek.auditing.sources import Use, load
from adaptivek.cli import main

from .reference import dawid_skene as reference


def made(items: int = 200, people: int = 8, each: int = 4, classes: int = 3) -> tuple[Votes, np.ndarray, np.ndarray]:
    """Labels of some annotators for each row, the truth, and how often each annotator errs."""
    rng = np.random.default_rng(0)
    true, rates = rng.integers(0, classes, items), np.linspace(0.05, 0.5, people)
    item = np.repeat(np.arange(items), each)
    who = np.concatenate([rng.choice(people, each, replace=False) for _ in range(items)])
    wrong = rng.random(len(item)) < rates[who]
    label = np.where(wrong, (true[item] + rng.integers(1, classes, len(item))) % classes, true[item])
    return Votes(item, who, label, item, [f"p{one}" for one in range(people)], ["x", "y", "z"][:classes]), true, rates


@pytest.mark.parametrize("prior", [0.0, 4.0])
def test_it_is_what_the_paper_says(prior, monkeypatch):
    votes, *_ = made(40, 5, 3)
    monkeypatch.setattr(module, "ITERATIONS", 7)
    monkeypatch.setattr(module, "CONVERGED", 0.0)
    found = dawid_skene(votes, 40, prior)
    triples = list(zip(votes.item.tolist(), votes.annotator.tolist(), votes.label.tolist(), strict=True))
    posterior, matrices, shares = reference.dawid_skene(triples, 40, 5, 3, prior, 7)
    np.testing.assert_allclose(found.posterior, posterior, atol=1e-5)  # no label is ruled out altogether
    np.testing.assert_allclose(found.confusion, matrices, atol=1e-5)
    np.testing.assert_allclose(found.share, shares, atol=1e-5)


def test_error_rates_and_labels_are_found():
    votes, true, rates = made(600)
    found = dawid_skene(votes, 600)
    assert np.abs(found.error_rates - rates).max() < 0.1
    assert spearmanr(found.error_rates, rates).statistic > 0.95
    counts = np.zeros((600, 3))
    np.add.at(counts, (votes.item, votes.label), 1)
    majority = (counts.argmax(1) == true).mean()
    assert (found.posterior.argmax(1) == true).mean() >= majority
    # a network that knows something helps further
    rng = np.random.default_rng(1)
    p = np.full((600, 3), 0.2)
    p[np.arange(600), np.where(rng.random(600) < 0.8, true, rng.integers(0, 3, 600))] = 0.6
    both = with_network(votes, found.confusion, Predictions(p, None), 600)
    assert (both.argmax(1) == true).mean() > (found.posterior.argmax(1) == true).mean()
    np.testing.assert_allclose(both.sum(1), 1)
    by_hand = p[7] * np.exp(log_likelihood(votes, found.confusion, 600)[7])
    np.testing.assert_allclose(both[7], by_hand / by_hand.sum())


def test_rows_and_columns_of_labels_say_the_same():
    rng = np.random.default_rng(0)
    wide = pd.DataFrame({"text": [f"it was number {row} then" for row in range(60)]})
    for name in "abc":
        wide[name] = [["no", "yes"][row % 2 if rng.random() > 0.2 else 1 - row % 2] for row in range(60)]
    wide.loc[5, "b"] = None
    wide.loc[7, ["a", "b", "c"]] = None
    long = wide.melt("text", var_name="who", value_name="label").sample(frac=1, random_state=0).reset_index(drop=True)
    one, other = load(wide, ("a", "b", "c")), load(long, "label", Use(annotator="who"))
    assert one.skipped == [(7, "no label")]
    assert one.about["used_as"] == {"text": "text"}  # what annotators said is no input
    assert other.votes.one_row_each
    assert len(one.votes.item) == len(other.votes.item) == 60 * 3 - 4
    rates = dict(zip(one.votes.names, one.annotators.error_rates, strict=True))
    for name, rate in zip(other.votes.names, other.annotators.error_rates, strict=True):
        assert rate == pytest.approx(rates[name], abs=1e-6)
    texts = dict(zip(one.content, one.labels, strict=True))
    assert dict(zip(other.content, other.labels, strict=True)) == texts
    assert other.row.tolist() == sorted(other.row.tolist())
    assert long["text"][other.row].tolist() == list(other.content)


def test_labels_of_any_type_and_none():
    votes = read_votes([1, 2.0, None, "", 2], ["a", "b", "a", "b", 3], np.arange(5), np.arange(5))
    assert votes.classes == [1, 2]
    assert votes.names == ["3", "a", "b"]
    assert votes.item.tolist() == [0, 1, 4]


def test_alike_or_not():
    frame = pd.DataFrame({"text": [f"row {n}" for n in range(9)], "who": "a", "label": ["x", "y", "x"] * 3})
    with pytest.raises(ValueError, match="got no two rows alike in text"):
        load(frame, "label", Use(annotator="who"))


def test_as_a_command(tmp_path, capsys):
    rng = np.random.default_rng(0)
    words = {"no": ["bad", "awful", "poor"], "yes": ["good", "great", "lovely"]}
    rates = {"ann": 0.05, "bob": 0.1, "cat": 0.45}
    lines, truth = [], []
    for number in range(120):
        true = ["no", "yes"][number % 2]
        text = " ".join([*rng.choice(words[true], 3), "film", f"n{number}"])
        for who, rate in rates.items():
            lines.append((number, text, who, true if rng.random() > rate else {"no": "yes", "yes": "no"}[true]))
            truth.append(true)
    path = tmp_path / "votes.csv"
    pd.DataFrame(lines, columns=["number", "text", "who", "label"]).to_csv(path, index=False)
    out = tmp_path / "out"
    arguments = ["--label", "label", "--annotator", "who", "--item", "number", "--device", "cpu"]
    main(["audit", str(path), *arguments, "--out", str(out)])
    said = " ".join(capsys.readouterr().out.split())
    assert "annotators: 3; error rates from" in said
    assert "(cat), all in annotators.csv" in said
    with (out / "annotators.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert table[0]["annotator"] == "cat"
    assert float(table[0]["error_rate"]) == pytest.approx(0.45, abs=0.12)
    assert [line["labels"] for line in table] == ["120"] * 3
    with (out / "issues.csv").open(newline="") as file:
        issues = list(csv.DictReader(file))
    assert [(int(line["row"]), line["annotator"], line["label"]) for line in issues] == [
        (row, line[2], line[3]) for row, line in enumerate(lines)
    ]
    right = np.mean([line["suggested_label"] == true for line, true in zip(issues, truth, strict=True)])
    assert right > 0.9
    assert all((line["is_issue"] == "True") == (line["label"] != line["suggested_label"]) for line in issues)
    left = pd.read_csv(out / "clean.csv")
    assert len(left) == sum(line["is_issue"] == "False" for line in issues)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["n_rows"] == 120
    assert summary["annotators"][0]["annotator"] == "cat"
    assert "Dawid and Skene" in (out / "report.html").read_text()


def test_columns_of_labels_in_python():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((150, 3))
    true = (x[:, 0] > 0).astype(int)
    frame = pd.DataFrame(x, columns=list("uvw"))
    for name in ("a", "b", "c"):
        frame[name] = np.where(rng.random(150) < 0.2, 1 - true, true)
    found = adaptivek.audit(frame, ("a", "b", "c"), device="cpu", epochs=5)
    assert found.settings["label"] == ("a", "b", "c")
    assert found.settings["columns"] == ["u", "v", "w"]
    wrong = found.label != true
    assert found.score[wrong].mean() < found.score[~wrong].mean()
