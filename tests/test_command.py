"""The command line, in processes of its own: what it writes, how it stops and goes on, what it says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import adaptivek
from adaptivek.cli import main
from adaptivek.cli.overrides import Overrides
from adaptivek.experiments.folder import run
from adaptivek.experiments.records import EpochRecord
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.methods import METHODS, needs, passes
from adaptivek.networks import make_model
from adaptivek.noise import Manifest

from .fresh import command

TRAIN = ["train", "digits", "--noise-rate", "0.4", "--batch-size", "50", "--device", "cpu"]
# one thread, as in this process: other sums would come out in other last digits
ENVIRONMENT = {**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1"}


def records(folder: Path) -> list[dict[str, object]]:
    """Without the one field that a second run cannot repeat."""
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "samples_per_second"} for line in lines]


def test_train_writes_config_records_noise_and_weights(tmp_path):
    out = tmp_path / "run"
    done = command(*TRAIN, "--method", "mkl:keep=0.7", "--epochs", "3", "--seed", "4", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "test accuracy" in done.stdout
    assert {path.name for path in out.iterdir()} == {
        "config.json", "made.json", "records.jsonl", "noise.json", "model.safetensors",
    }  # fmt: skip
    spec = RunSpec.from_dict(json.loads((out / "config.json").read_text()))
    assert (spec.method, spec.noise_rate, spec.seed, spec.recipe.epochs) == ("mkl:keep=0.7", 0.4, 4, 3)
    made = json.loads((out / "made.json").read_text())
    assert made["method"] == {"name": "mkl", "parameters": {"keep": 0.7}, "revision": METHODS["mkl"].revision}
    assert (made["adaptivek"], made["torch"]) == (adaptivek.__version__, torch.__version__)
    assert (made["device"], made["precision"]) == ("cpu", "float32")
    lines = records(out)
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert lines[0].keys() | {"samples_per_second"} == EpochRecord.__dataclass_fields__.keys()
    assert lines[-1]["kept_share"] == pytest.approx(0.7)
    manifest = Manifest.load(out / "noise.json")
    assert len(manifest.rows) / 1437 == pytest.approx(lines[-1]["true_noise_ratio"], abs=1e-6)
    make_model("digits-cnn", 1, 10).load_state_dict(load_file(out / "model.safetensors"))


def test_config_replays_to_the_same_weights(tmp_path):
    done = command(*TRAIN, "--epochs", "2", "--out", tmp_path / "one")
    assert done.returncode == 0, done.stderr
    spec = RunSpec.from_dict(json.loads((tmp_path / "one/config.json").read_text()))
    list(run(spec, tmp_path / "two", device="cpu"))
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert records(tmp_path / "one") == records(tmp_path / "two")


def test_killed_and_called_again_it_goes_on_to_the_same_end(tmp_path):
    args = [*TRAIN, "--epochs", "12", "--warmup-epochs", "4"]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert command(*args, "--out", whole).returncode == 0
    process = subprocess.Popen(
        [sys.executable, "-c", "from adaptivek.cli import main; main()", *args, "--out", str(stopped)],
        stdout=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    deadline = time.monotonic() + 60
    while not (stopped / "checkpoint.pt").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (stopped / "checkpoint.pt").exists()
    assert not (stopped / "model.safetensors").exists()
    with (stopped / "records.jsonl").open("a") as file:
        file.write('{"epoch": 99, "trunca')  # as if killed in the middle of a line
    done = command(*args, "--out", stopped)
    assert done.returncode == 0, done.stderr
    assert records(stopped) == records(whole)
    one, two = (load_file(folder / "model.safetensors") for folder in (whole, stopped))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not (stopped / "checkpoint.pt").exists()


def test_a_finished_run_is_not_run_again(tmp_path):
    args = [*TRAIN, "--epochs", "2", "--out", tmp_path / "run"]
    assert command(*args).returncode == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}
    assert command(*args).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()} == before


def test_a_run_of_another_revision_is_not_gone_on_with(tmp_path, monkeypatch):
    spec = RunSpec("digits", "mkl", noise_rate=0.4, recipe=Recipe("digits-cnn", epochs=1, batch_size=50))
    list(run(spec, tmp_path / "run", device="cpu"))
    monkeypatch.setattr(METHODS["mkl"], "revision", METHODS["mkl"].revision + 1)
    with pytest.raises(FileExistsError, match="earlier version or revision of the method"):
        list(run(spec, tmp_path / "run", device="cpu"))


def test_a_folder_of_another_run_is_refused_and_left_alone(tmp_path):
    assert command(*TRAIN, "--epochs", "1", "--out", tmp_path / "run").returncode == 0
    before = (tmp_path / "run/records.jsonl").read_text()
    done = command(*TRAIN, "--epochs", "1", "--seed", "1", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "holds another run" in done.stderr
    assert (tmp_path / "run/records.jsonl").read_text() == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("precious")
    done = command(*TRAIN, "--out", tmp_path / "mine")
    assert done.returncode == 2
    assert "is not empty and holds no run" in done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["train", "imagenet"], "or a folder; got 'imagenet'"),
        (["train", "digits", "--method", "best"], "method must be one of oracle, vanilla, mkl, vanilla+mkl"),
        (["train", "digits", "--noise-rate", "40"], "noise_rate must be a number in [0, 1], got 40.0"),
        (["train", "digits", "--epochs", "0"], "epochs must be a whole number of at least 1, got 0"),
        (["train", "digits", "--views", "2", "--method", "elr"], "views=2 needs a method that weighs or relabels"),
        (["train", "digits", "--device", "toaster"], "device must be auto or one that is here, got 'toaster'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(args, message, tmp_path):
    done = command(*args, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_methods_are_listed_with_a_line_and_a_paper():
    done = command("methods")
    assert done.returncode == 0, done.stderr
    for name, method in METHODS.items():
        line = next(line for line in done.stdout.splitlines() if line.startswith(name + " "))
        assert method.summary[:30] in line
        assert method.paper in line
        assert all(word in done.stdout for need in needs(method) for word in need.split())
        assert " {} + {} ".format(*passes(method)) in line
    assert needs(METHODS["oracle"]) == ["truth", "rows"]
    assert needs(METHODS["vanilla+mkl"]) == ["ratio", "warm-up"]
    assert needs(METHODS["vanilla"]) == []
    assert needs(METHODS["moit"]) == ["logits", "rows", "epochs", "full pass for features"]
    assert needs(METHODS["jocor"]) == ["ratio", "logits", "epochs", "2 networks"]
    assert [passes(METHODS[name]) for name in ("vanilla", "co-teaching", "augdesc")] == [(1, 1), (2, 2), (2, 1)]


def test_help_names_every_command_and_every_part_of_a_recipe():
    text = command("--help").stdout
    assert "train" in text
    assert "methods" in text
    assert "adaptivek theory" in text
    assert Overrides.__annotations__.keys() == Recipe.__dataclass_fields__.keys()
    text = command("train", "--help").stdout
    for name in Recipe.__dataclass_fields__:
        assert f"--{name.replace('_', '-')}" in text


def test_the_version_and_the_package_as_a_program(tmp_path):
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"adaptivek {adaptivek.__version__}\n")
    run = [sys.executable, "-m", "adaptivek"]
    done = subprocess.run([*run, "--version"], capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert done.stdout == f"adaptivek {adaptivek.__version__}\n"
    done = subprocess.run([*run, "report", str(tmp_path)], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("adaptivek: report: folder must hold results")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_and_options(tmp_path, capsys):
    script = tmp_path / "completion"
    with pytest.raises(SystemExit):
        main(["completion", "bash"])
    script.write_text(capsys.readouterr().out)

    def offered(*words: str) -> set[str]:
        ask = 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tyro_adaptivek adaptivek "${!#}"; echo "${COMPREPLY[@]}"'
        asked = ["bash", "-c", f"source '{script}'; {ask}", "bash", "adaptivek", *words]
        return set(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split())

    assert offered("") >= {"audit", "train", "bench", "methods", "theory", "report", "completion"}
    assert offered("a") == {"audit"}
    assert offered("train", "digits", "--noise-r") == {"--noise-rate"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script_that_knows_the_commands(shell, capsys):
    with pytest.raises(SystemExit) as left:
        main(["completion", shell])
    assert not left.value.code
    script = capsys.readouterr().out
    assert all(name in script for name in ("audit", "train", "noise-rate"))
