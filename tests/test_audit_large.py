"""The audit of many Parquet files: the same numbers as in memory, however rows are split, and few rows at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import adaptivek
from adaptivek.auditing.large import load, rows, scores
from adaptivek.auditing.large.issues import part
from adaptivek.auditing.large.pool import Pools
from adaptivek.auditing.large.rows import parquet_files
from adaptivek.auditing.sources import Use, from_files, is_streamed
from adaptivek.cli import main

from .made_parquet import ROWS, reviews, small_batches, split, table

SAME = ("row", "label", "suggested_label", "other_label", "is_issue", "alike")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_batches(monkeypatch)


def issues(folder: Path) -> pd.DataFrame:
    return pd.concat([pd.read_parquet(path) for path in sorted((folder / "issues").iterdir())], ignore_index=True)


@pytest.mark.parametrize("make", [table, reviews])
def test_few_rows_give_the_audit_in_memory(make, tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "BATCH", 130)
    frame = make(600)
    label = frame.columns[-1]
    frame.to_parquet(tmp_path / "one.parquet", index=False)
    before = adaptivek.audit(tmp_path / "one.parquet", label)
    after = adaptivek.audit(split(frame, tmp_path / "many", [200, 0, 110]), label)
    for name in SAME:
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name), err_msg=name)
    for name in ("score", "other_probability", "loss", "transition", "noise_per_class", "loss_cut", "accuracy"):
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), rtol=1e-5, atol=1e-6, err_msg=name)
    assert after.noise == before.noise
    assert (after.skipped, after.warnings, after.notes) == (before.skipped, before.warnings, before.notes)
    assert after.headline == before.headline
    lines = part(after, 0).to_pandas().set_index("row")
    far = zip(before.row.tolist(), before.alike.tolist(), strict=True)
    assert lines["alike"].dropna().astype(int).to_dict() == {row: other for row, other in far if other >= 0}
    assert lines["skipped"].dropna().to_dict() == dict(before.skipped)


def test_a_rows_score_does_not_depend_on_the_files(tmp_path, small):
    frame = table()
    one, many = split(frame, tmp_path / "one", []), split(frame, tmp_path / "many", [1, 0, 99, 250, 777])
    first, second = (adaptivek.audit(folder, "label", "linear") for folder in (one, many))
    for name in (*SAME, "score", "other_probability"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
    assert first.noise == second.noise


def test_rows_that_no_model_has_seen_are_scored_well(tmp_path, small):
    frame = table()
    rng = np.random.default_rng(0)  # the same draws as in `table`
    true = np.array(["low", "mid", "high"])[rng.integers(0, 3, ROWS)]
    result = adaptivek.audit(split(frame, tmp_path / "data", [700]), "label")
    noisy = (frame["label"] != true).to_numpy()[result.row]
    unseen = ~np.isin(result.row, from_files(parquet_files(tmp_path / "data"), "label", Use()).streamed.row)
    assert unseen.sum() > 1_000
    from sklearn.metrics import roc_auc_score

    areas = [roc_auc_score(noisy[which], -result.score[which]) for which in (unseen, ~unseen)]
    assert min(areas) > 0.9
    assert abs(areas[0] - areas[1]) < 0.05  # neither is memorised
    assert result.noise_ratio_low <= noisy.mean() <= result.noise_ratio_high


def test_the_files_that_are_written(tmp_path, small, capsys):
    frame = table()
    split(frame, tmp_path / "data", [700])
    out = tmp_path / "out"
    main(["audit", str(tmp_path / "data"), "--label", "label", "--model", "linear", "--out", str(out)])
    assert {path.name for path in out.iterdir()} == {"summary.json", "issues", "clean", "report.html"}
    lines, summary = issues(out), json.loads((out / "summary.json").read_text())
    assert len(list((out / "issues").iterdir())) == 5  # of 300 rows each
    assert lines["row"].tolist() == list(range(ROWS))
    assert lines["file"].value_counts().to_dict() == {"part0.parquet": 700, "part1.parquet": 800}
    assert lines["file_row"].tolist() == [*range(700), *range(800)]
    assert lines["label"].astype(object).fillna("").tolist() == frame["label"].fillna("").tolist()
    assert lines["is_issue"].sum() == summary["n_flagged"] > 100
    assert lines["skipped"].dropna().to_dict() == dict.fromkeys([7, 500, ROWS - 1], "no label")
    assert lines.loc[7, "score":"other_probability"].isna().sum() == 3
    changed = lines["suggested_label"].astype(object) != lines["label"].astype(object)
    assert changed[lines["is_issue"]].all()
    cleaned = pd.concat([pd.read_parquet(path) for path in sorted((out / "clean").iterdir())], ignore_index=True)
    expected = frame[~lines["removed"].to_numpy()].reset_index(drop=True)
    pd.testing.assert_frame_equal(cleaned, expected, check_dtype=False)
    assert f"{summary['n_flagged']:,} rows are flagged" in capsys.readouterr().out


def test_the_page_shows_the_worst_rows_and_all_totals(tmp_path, small, monkeypatch):
    monkeypatch.setattr("adaptivek.auditing.embed.SHOWN", 50)
    result = adaptivek.audit(split(table(), tmp_path / "data", [700]), "label", "linear", folder=tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    order = np.lexsort((result.score, ~result.is_issue))[:50]
    assert sorted(data["row"]) == sorted(result.row[order].tolist())
    assert f"<b>{result.is_issue.sum():,}</b> of {ROWS - 3:,}" in page
    assert "hold 50 of 1,497 rows" in page
    assert "issues/" in page
    assert "issues.csv" not in page
    cells = {column["name"]: column["cells"] for column in data["columns"]}
    given = table()
    for place, row in enumerate(data["row"]):
        assert cells["city"][place] == given["city"][row]
        if cells["b"][place] is not None:
            assert cells["b"][place] == pytest.approx(given["b"][row], rel=1e-5)


def test_never_more_than_a_batch_is_held(tmp_path, small, monkeypatch):
    """Neither rows that are read nor rows that are predicted; and what Arrow holds does not grow with the rows."""
    sizes: list[int] = []
    predict, to_frame = Pools.predict, load.to_frame
    monkeypatch.setattr(Pools, "predict", lambda self, texts, x: (sizes.append(len(x)), predict(self, texts, x))[1])
    folder = split(table(), tmp_path / "data", [700])
    monkeypatch.setattr(load, "to_frame", lambda part: (sizes.append(len(part)), to_frame(part))[1])
    adaptivek.audit(folder, "label", "linear")
    assert sizes.count(400) == 1  # the sample
    assert max(size for size in sizes if size != 400) == 100
    assert sum(sizes) > 2 * ROWS


def test_a_run_that_was_stopped_goes_on(tmp_path, small, monkeypatch, capsys):
    folder, out = split(table(), tmp_path / "data", [700]), tmp_path / "out"
    whole = adaptivek.audit(folder, "label", "linear")
    calls: list[int] = []
    score = scores._scored

    def stops(*args):
        calls.append(args[4])
        if len(calls) == 8:
            raise KeyboardInterrupt
        return score(*args)

    monkeypatch.setattr(scores, "_scored", stops)
    with pytest.raises(SystemExit, match="130"):
        main(["audit", str(folder), "--label", "label", "--model", "linear", "--out", str(out)])
    assert "--resume goes on from the last rows" in " ".join(capsys.readouterr().err.split())
    kept = [f"part-{number:05d}.npz" for number in range(7)]
    assert sorted(path.name for path in (out / "scored").iterdir()) == kept
    (out / "scored" / "part-00003.npz").write_bytes(b"half of a file")
    calls.clear()
    monkeypatch.setattr(scores, "_scored", lambda *args: (calls.append(args[4]), score(*args))[1])
    again = adaptivek.audit(folder, "label", "linear", folder=out, resume=True)
    assert calls == [300, *range(700, ROWS, 100)]  # the broken one is done again
    np.testing.assert_array_equal(again.score, whole.score)
    np.testing.assert_array_equal(again.is_issue, whole.is_issue)
    assert not (out / "scored").exists()


def test_parts_of_other_data_are_done_again(tmp_path, small, monkeypatch):
    folder, out = split(table(), tmp_path / "data", [700]), tmp_path / "out"
    monkeypatch.setattr("adaptivek.auditing.audit.remove_parts", lambda folder: None)
    adaptivek.audit(folder, "label", "linear", folder=out)
    os.utime(folder / "part1.parquet", ns=(1, 1))
    calls: list[int] = []
    score = scores._scored
    monkeypatch.setattr(scores, "_scored", lambda *args: (calls.append(args[4]), score(*args))[1])
    adaptivek.audit(folder, "label", "linear", folder=out, resume=True)
    assert len(calls) == ROWS // 100


def test_the_command_under_torchrun_writes_what_it_writes_alone(tmp_path, capsys):
    folder = split(table(), tmp_path / "data", [700])
    command = ["audit", str(folder), "--label", "label", "--model", "linear", "--out"]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launcher, "-m", "adaptivek", *command, str(tmp_path / "two")],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    main([*command, str(tmp_path / "one")])
    alone = capsys.readouterr().out.splitlines()
    assert alone[1:-1] == done.stdout.splitlines()[1:-1]  # but for the bar's time, and the folder
    assert len(alone) > 5
    pd.testing.assert_frame_equal(issues(tmp_path / "one"), issues(tmp_path / "two"))
    assert {path.name for path in (tmp_path / "two").iterdir()} == {"summary.json", "issues", "clean", "report.html"}


def test_a_process_that_is_alone_cannot_share(tmp_path):
    with pytest.raises(ValueError, match="audit: distributed must be False without a process group, got True"):
        adaptivek.audit(split(table(), tmp_path / "data", []), "label", distributed=True)


def test_decisions_of_the_page_are_taken(tmp_path, small, monkeypatch):
    monkeypatch.setattr("adaptivek.auditing.embed.SHOWN", 5)
    folder = split(table(), tmp_path / "data", [700])
    first = adaptivek.audit(folder, "label", "linear")
    keep, fix, drop = first.row[np.flatnonzero(first.is_issue)[:3]].tolist()
    given = dict(zip(first.row.tolist(), first.label.tolist(), strict=True))
    names = first.classes
    lines = [f"{row},{names[given[row]]},{{}},{{}}" for row in (keep, fix, drop)]
    other = names[(given[fix] + 1) % 3]
    cells = [(names[given[keep]], "keep"), (other, "fix"), ("", "drop")]
    text = "\n".join(
        ["row,label,corrected_label,decision", *(at.format(*c) for at, c in zip(lines, cells, strict=True))]
    )
    (tmp_path / "corrected.csv").write_text(text)
    out = tmp_path / "next"
    second = adaptivek.audit(folder, "label", "linear", decisions=tmp_path / "corrected.csv", folder=out)
    assert drop not in second.row
    found = issues(out).set_index("row")
    assert found.loc[drop, "skipped"] == "dropped by decision"
    assert found.loc[fix, "label"] == other
    assert not found.loc[[keep, fix], "is_issue"].any()
    assert found["trusted"].sum() == 2
    page = json.loads((out / "report.html").read_text().partition('id="data">')[2].partition("</script>")[0])
    assert len(page["row"]) == 5
    assert {keep, fix} <= set(page["row"])  # or the next page's download would forget them
    assert {page["row"][place] for place, _ in page["earlier"]} == {keep, fix}
    cleaned = pd.concat([pd.read_parquet(path) for path in sorted((out / "clean").iterdir())])
    assert cleaned.loc[cleaned["b"] == table()["b"][fix], "label"].tolist() == [other]
    assert len(cleaned) == ROWS - 1 - second.removed.sum()


def test_a_batch_without_any_label(tmp_path, small):
    frame = table(600)
    frame["note"] = [f"it is the {number} one of these" for number in range(600)]
    frame.loc[100:299, "label"] = None
    result = adaptivek.audit(split(frame, tmp_path / "data", [150]), "label")
    without = [row for row in range(600) if not isinstance(frame["label"][row], str)]
    assert [row for row, _ in result.skipped] == without
    assert result.row.tolist() == sorted({*range(600)} - {*without})
    assert np.isfinite(result.score).all()


def test_texts_beside_columns_and_a_trusted_column(tmp_path, small):
    frame = table(600)
    rng = np.random.default_rng(2)
    frame["note"] = [" ".join(rng.choice([f"w{i}" for i in range(300)], 7)) for _ in range(600)]
    frame["sure"] = np.where(np.arange(600) % 10 == 0, "yes", "no")
    result = adaptivek.audit(split(frame, tmp_path / "data", [170]), "label", trusted="sure", ignore=["sold"])
    assert result.settings["model"] == "trees + words"
    assert result.settings["used_as"]["note"] == "text"
    assert result.settings["left_out"] == {"sure": "which rows are trusted", "sold": "to be ignored"}
    assert not result.is_issue[result.row % 10 == 0].any()
    assert result.given.trusted.sum() == (result.row % 10 == 0).sum()
    assert result.given.shown[1][3]["note"] == frame["note"][result.row[3]]
    alone = adaptivek.audit(tmp_path / "data", "label", text="note")
    assert alone.settings["model"] == "words"
    assert any("not to be trusted" in warning for warning in alone.warnings)  # these texts say nothing


def test_one_large_file_stays_on_disk_as_well(tmp_path, small, monkeypatch):
    monkeypatch.setattr("adaptivek.auditing.sources.MOST_ROWS", 1_000)
    table().to_parquet(tmp_path / "one.parquet", index=False)
    result = adaptivek.audit(tmp_path / "one.parquet", "label", "linear")
    assert result.given.streamed is not None
    assert len(result.given.streamed.row) == 400
    path = tmp_path / "one.parquet"
    assert is_streamed(path, "label", None)
    assert not is_streamed(path, ["label", "city"], None)  # two annotators
    assert not is_streamed(path, "label", "epochs")  # a network, which needs the rows
    monkeypatch.setattr("adaptivek.auditing.sources.MOST_ROWS", ROWS)
    assert not is_streamed(path, "label", None)
