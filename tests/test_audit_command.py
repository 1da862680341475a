"""`adaptivek audit`: what it writes, and what it says of files that cannot be audited."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from adaptivek.auditing.training import Run
from adaptivek.cli import main

NASTY = "=1+cmd()"
COLUMNS = (
    "row",
    "label",
    "suggested_label",
    "score",
    "is_issue",
    "removed",
    "other_label",
    "other_probability",
    "alike",
    "skipped",
)


def texts(rows: int = 160) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    good, bad = ["good", "great", "lovely", "nice"], ["bad", "awful", "poor", "nasty"]
    other = ["it", "was", "a", "film", "in", "town"]
    lines, labels = [], []
    for row in range(rows):
        words = [*rng.choice(good if row % 2 else bad, 3), *rng.choice(other, 4)]
        lines.append(" ".join(rng.permutation(words)))
        labels.append(["no", "yes"][row % 2 if row % 10 else 1 - row % 2])
    return pd.DataFrame(
        {"id": [f"{row:04d}" for row in range(rows)], "review": lines, "sentiment": labels, "n": "1.50"}
    )


def audited(*args: str | Path) -> tuple[Path, dict[str, object], list[dict[str, str]]]:
    out = Path(args[-1]) / "out"
    main(["audit", *map(str, args[:-1]), "--out", str(out), "--device", "cpu"])
    with (out / "issues.csv").open(newline="") as file:
        return out, json.loads((out / "summary.json").read_text()), list(csv.DictReader(file))


def test_a_csv_of_texts(tmp_path, capsys):
    frame = texts()
    frame.loc[3, "review"] = ""
    frame.loc[5, "review"] = f'{NASTY} good "great", nice <script>alert(1)</script>'
    frame.to_csv(tmp_path / "reviews.csv", index=False)
    out, summary, lines = audited(tmp_path / "reviews.csv", "--label", "sentiment", tmp_path)
    written = {"summary.json", "issues.csv", "targets.npz", "clean.csv", "report.html"}
    assert {path.name for path in out.iterdir()} == written
    assert summary["n_rows"] == 159
    assert summary["n_classes"] == 2
    assert summary["skipped"] == [{"row": 3, "reason": "empty text"}]
    assert summary["noise_ratio_low"] <= summary["noise_ratio"] <= summary["noise_ratio_high"]
    assert summary["settings"]["text"] == "review"
    assert list(lines[0]) == [*COLUMNS]
    flagged = {int(line["row"]) for line in lines if line["is_issue"] == "True"}
    assert len(flagged) == summary["n_flagged"]
    assert [int(line["row"]) for line in lines] == list(range(160))  # a join by position is right
    assert lines[3] == dict.fromkeys(COLUMNS, "") | {"row": "3", "is_issue": "False", "skipped": "empty text"}
    for line in lines[:3]:
        assert line["other_label"] == {"yes": "no", "no": "yes"}[line["label"]]
        assert float(line["score"]) + float(line["other_probability"]) == pytest.approx(1, abs=1e-4)
    assert "film" not in (out / "issues.csv").read_text()
    before, after = (
        pd.read_csv(path, dtype=str, keep_default_na=False) for path in (tmp_path / "reviews.csv", out / "clean.csv")
    )
    removed = {int(line["row"]) for line in lines if line["removed"] == "True"}
    assert removed <= flagged
    assert len(removed) == summary["n_removed"]
    pd.testing.assert_frame_equal(after, before.drop(index=sorted(removed)).reset_index(drop=True))
    assert "<script>alert(1)" not in (out / "report.html").read_text()
    assert "labels look noisy" in capsys.readouterr().out


def test_a_parquet_table_keeps_its_types(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    frame = pd.DataFrame({"a": y * 4 + rng.standard_normal(200), "when": pd.Timestamp("2020-01-01"), "churned": y == 1})
    frame["city"] = np.array(["Rome", "Oslo", None], dtype=object)[np.arange(200) % 3]
    frame.loc[7, "a"] = np.nan
    frame.to_parquet(tmp_path / "table.parquet", index=False)
    out, summary, lines = audited(tmp_path / "table.parquet", "--label", "churned", "--epochs", "5", tmp_path)
    assert summary["settings"]["columns"] == ["a", "city"]
    left = pd.read_parquet(out / "clean.parquet")
    keep = [int(line["row"]) for line in lines if line["removed"] == "False"]
    pd.testing.assert_frame_equal(left, pd.read_parquet(tmp_path / "table.parquet").iloc[keep].reset_index(drop=True))


def test_a_folder_of_images_with_some_that_are_none(tmp_path):
    rng = np.random.default_rng(0)
    for name, shade in (("dark", 40), (NASTY, 200)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(12):
            picture = rng.integers(shade - 30, shade + 30, (20, 24, 3)).astype(np.uint8)
            Image.fromarray(picture).save(tmp_path / "photos" / name / f"{number:02d}.png")
    (tmp_path / "photos/dark/03.png").write_bytes(b"no image")
    (tmp_path / "photos/dark/04.png").write_bytes((tmp_path / "photos/dark/05.png").read_bytes()[:60])
    out, summary, lines = audited(tmp_path / "photos", "--epochs", "3", tmp_path)
    assert summary["n_skipped"] == 2
    assert summary["skipped"][0] == {"row": 15, "file": "dark/03.png", "reason": "not an image that can be read"}
    assert summary["classes"] == [NASTY, "dark"]
    assert {line["label"] for line in lines} == {f"'{NASTY}", "dark", ""}  # no spreadsheet takes it for a formula
    assert [line["file"] for line in lines[12:]] == [f"dark/{number:02d}.png" for number in range(12)]
    assert lines[15]["skipped"] == "not an image that can be read"
    left = pd.read_csv(out / "clean.csv")
    assert left["file"].tolist() == [line["file"].removeprefix("'") for line in lines if line["removed"] == "False"]
    assert "<bdi>dark/03.png</bdi>: not an image" in (out / "report.html").read_text()


def test_features_from_files_and_a_folder_in_use(tmp_path, capsys):
    x = np.random.default_rng(0).standard_normal((60, 3))
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "y.txt").write_text("\n".join("left" if row[0] < 0 else "right" for row in x))
    arguments = ["--features", tmp_path / "x.npy", "--labels", tmp_path / "y.txt", "--epochs", "2"]
    assert audited(*arguments, tmp_path)[1]["classes"] == ["left", "right"]
    with pytest.raises(SystemExit) as stopped:
        audited(*arguments, tmp_path)
    assert stopped.value.code == 2
    assert "holds an audit already" in " ".join(capsys.readouterr().err.split())


def written(folder: Path) -> None:
    """Files that cannot be audited."""
    frame = texts(40)
    frame.to_csv(folder / "fine.csv", index=False)
    frame.assign(sentiment="yes").to_csv(folder / "one_class.csv", index=False)
    frame.assign(sentiment=["maybe", *frame["sentiment"][1:]]).to_csv(folder / "one_row.csv", index=False)
    frame.assign(sentiment=np.linspace(0, 1, 40)).to_csv(folder / "floats.csv", index=False)
    frame.assign(sentiment=range(40)).to_csv(folder / "distinct.csv", index=False)
    frame.assign(review="").to_csv(folder / "no_words.csv", index=False)
    (folder / "binary.csv").write_bytes(bytes(range(256)) * 10)
    (folder / "empty.csv").write_text("")
    (folder / "prose.csv").write_text("This is a letter\nand no table\nat all\n")
    (folder / "ragged.csv").write_text("a,label\n1,x\n2,y,z,w\n")
    (folder / "wrong.parquet").write_bytes(b"PAR1 no")
    (folder / "pictures/a").mkdir(parents=True)
    (folder / "pictures/a/x.png").write_bytes(b"no image")
    (folder / "nothing").mkdir()
    np.save(folder / "x.npy", np.zeros((5, 2)))
    np.save(folder / "objects.npy", np.array([{}, []], dtype=object), allow_pickle=True)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["missing.csv", "--label", "a"], "not found"),
        (["fine.csv"], "label must be given"),
        (["fine.csv", "--label", "mood"], "one of id, review, sentiment, n; got 'mood'"),
        (["fine.csv", "--label", "sentiment", "--text", "body"], "text must be a column"),
        (["fine.csv", "--label", "sentiment", "--method", "best"], "method must be one of"),
        (["one_class.csv", "--label", "sentiment"], "at least two classes, got 'yes'"),
        (["one_row.csv", "--label", "sentiment"], "one only in 'maybe'"),
        (["floats.csv", "--label", "sentiment"], "must be classes, not fractions"),
        (["distinct.csv", "--label", "sentiment"], "40 different values in 40 rows"),
        (["no_words.csv", "--label", "sentiment", "--text", "review"], "only empty ones"),
        (["binary.csv", "--label", "a"], "must be a CSV file"),
        (["empty.csv", "--label", "a"], "it is empty"),
        (["prose.csv", "--label", "a"], "one column only"),
        (["ragged.csv", "--label", "label"], "must be a CSV file"),
        (["wrong.parquet", "--label", "a"], "must be a Parquet file"),
        (["pictures"], "none is"),
        (["nothing"], "a folder of images for each class"),
        (["--features", "x.npy"], "--labels must be given"),
        (["--features", "x.npy", "--labels", "none.npy"], "was not found"),
        (["--features", "objects.npy", "--labels", "x.npy"], "got an array of shape"),
        ([], "give either SOURCE or --features"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(args, message, tmp_path, monkeypatch, capsys):
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "500")
    with pytest.raises(SystemExit) as stopped:
        main(["audit", *args, "--device", "cpu", "--out", "out"])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("epochs", [0, 1])
def test_stopped_it_promises_to_go_on_only_from_what_is_there(tmp_path, monkeypatch, capsys, epochs):
    monkeypatch.setenv("COLUMNS", "300")
    texts().to_csv(tmp_path / "reviews.csv", index=False)
    real, done = Run.epoch, []

    def epoch(self, step):
        if len(done) == epochs:
            raise KeyboardInterrupt
        done.append(None)
        real(self, step)

    arguments = ["audit", str(tmp_path / "reviews.csv"), "--label", "sentiment", "--device", "cpu"]
    arguments += ["--model", "network", "--out", str(tmp_path / "out")]
    with monkeypatch.context() as patch:
        patch.setattr(Run, "epoch", epoch)
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
    assert stopped.value.code == 130
    told = capsys.readouterr().err
    if epochs:
        assert "the same command with --resume goes on from the last whole epoch" in told
        main([*arguments, "--resume"])
    else:
        assert "stopped before the first epoch was done: there is nothing to go on from" in told
        assert "--resume" not in told
        main(arguments)
    assert (tmp_path / "out/summary.json").exists()


def test_an_error_leaves_no_bar(tmp_path, monkeypatch):
    """In a terminal, which is where a bar is drawn."""
    from rich.console import Console

    from adaptivek.support import terminal

    screen = io.StringIO()
    monkeypatch.setattr(terminal, "out", Console(file=screen, force_terminal=True, width=100))

    def fail() -> None:
        with terminal.progress_bar() as progress:
            progress.add_task("training", total=None, status="reading")
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        fail()
    assert screen.getvalue().endswith("\x1b[2K")  # the line that it was in is cleared
    screen.truncate(0)
    with terminal.progress_bar() as progress:
        progress.add_task("training", total=1, completed=1, status="done")
    assert not screen.getvalue().endswith("\x1b[2K")  # a bar that came to its end stays


def test_in_a_process_of_its_own(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "from adaptivek.cli import main; main()", "audit", tmp_path / "gone.csv"],
        capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 2
    assert "gone.csv must be a file" in done.stderr
    assert "Traceback" not in done.stderr
