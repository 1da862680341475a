"""Data of one's own in `bench` and `train`: which columns are taken, and a recipe that fits what they hold."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from adaptivek.cli import main
from adaptivek.experiments.bench import Grid, bench
from adaptivek.experiments.data import Split, load
from adaptivek.experiments.executors import Settings
from adaptivek.experiments.prepare import prepare
from adaptivek.experiments.spec import NOTEBOOK, RECIPES, Recipe, RunSpec, recipe_by_kind

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def _kept_here(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub")
    monkeypatch.setenv("ADAPTIVEK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ADAPTIVEK_DATA", raising=False)


def texts(rows: int = 240) -> pd.DataFrame:
    """Reviews whose words tell their label, a column of numbers that are all different, and one that tells nothing."""
    rng = np.random.default_rng(0)
    words = {"good": ["good", "great", "lovely"], "bad": ["bad", "awful", "poor"], "odd": ["odd", "weird", "strange"]}
    labels = [list(words)[row % 3] for row in range(rows)]
    lines = [" ".join([*rng.choice(words[label], 3), *rng.choice(["it", "was", "a"], 3)]) for label in labels]
    numbers = {"id": range(1_000, 1_000 + rows), "stars": [1, 2] * (rows // 2)}
    return pd.DataFrame({"text": lines, "label": labels, **numbers})


def written(folder: Path, frame: pd.DataFrame) -> Path:
    folder.mkdir(parents=True)
    frame.to_parquet(folder / "train.parquet", index=False)
    return folder


@pytest.mark.parametrize(
    ("change", "columns", "classes"),
    [
        (lambda frame: frame.drop(columns="stars"), ("text", "label"), 3),
        (lambda frame: frame, ("text", "label"), 3),  # a column called label wins over any number
        (lambda frame: frame.rename(columns={"label": "mood"}).drop(columns="stars"), ("text", "mood"), 3),
        (lambda frame: frame.rename(columns={"label": "mood"}), ("text", "stars"), 2),
        (lambda frame: frame[["id", "label", "text"]].rename(columns={"text": "body"}), ("body", "label"), 3),
        # told apart by how many values they have
        (lambda frame: pd.DataFrame({"a": [f"{t} {i}" for i, t in enumerate(frame["text"])], "b": frame["label"]}),
         ("a", "b"), 3),
    ],
)  # fmt: skip
def test_ids_are_never_the_label_and_a_column_called_label_always_is(tmp_path, change, columns, classes):
    data = load(str(written(tmp_path / "set", change(texts()))))
    assert data.columns == columns
    assert data.classes == classes
    assert load(str(tmp_path / "set")).columns == columns  # kept with the data


def test_columns_can_be_named(tmp_path):
    folder = str(written(tmp_path / "set", texts().assign(other="x y z")))
    assert load(folder, label="stars").classes == 2
    assert load(folder, text="other", label="label").columns == ("other", "label")
    for wrong in ({"label": "mood"}, {"text": "mood"}):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"{name} must be a column, one of text, label, id, .*other; got 'mood'"):
            load(folder, **wrong)
    with pytest.raises(ValueError, match="text and label must be two columns, got 'label' for both"):
        load(folder, text="label", label="label")
    with pytest.raises(ValueError, match="load: label must not be given for digits"):
        load("digits", label="target")


def test_without_a_column_that_could_be_the_label_it_says_so(tmp_path):
    frame = texts()[["text", "id"]]
    with pytest.raises(ValueError, match=r"none could be the label, of text \(text\), id .*: name it, label="):
        load(str(written(tmp_path / "set", frame)))


def test_a_run_is_another_with_another_column():
    spec = RunSpec("mine", recipe=RECIPES["imdb"])
    others = [dataclasses.replace(spec, label="stars"), dataclasses.replace(spec, text="other")]
    assert len({each.identity() for each in (spec, *others)}) == 3


def images(rows: int, *shape: int) -> Split:
    x, y = torch.zeros(rows, *shape), torch.arange(rows) % 4
    return Split(x, y, x, y, 4)


def tokens(rows: int) -> Split:
    x, y = torch.ones(rows, 7, dtype=torch.int32), torch.arange(rows) % 3
    return Split(x, y, x, y, 3, vocabulary=5)


@pytest.mark.parametrize(
    ("data", "network"),
    [
        (images(300, 1, 8, 8), "digits-cnn"),
        (images(5_000, 1, 28, 28), "notebook-cnn"),
        (images(60, 3, 28, 28), "notebook-cnn"),
        (images(300, 3, 32, 32), "resnet9"),
        (images(60, 1, 40, 24), "resnet9"),
        (tokens(90), "text-bag"),
    ],
)  # fmt: skip
def test_the_recipe_follows_the_kind_and_the_size_of_the_data(data, network):
    recipe = recipe_by_kind(data)
    assert recipe.network == network
    job = prepare(RunSpec("mine", "vanilla", recipe=recipe), data)  # which refuses what does not fit
    assert job.steps_per_epoch >= 5
    assert recipe.epochs * job.steps_per_epoch <= 45_000


def test_the_recipe_of_data_like_the_benchmarks_is_the_benchmarks():
    assert recipe_by_kind(images(5_000, 1, 28, 28)) == NOTEBOOK
    assert recipe_by_kind(tokens(25_000)) == RECIPES["20newsgroups"]
    large = recipe_by_kind(images(50_000, 3, 8, 32))
    assert large == dataclasses.replace(RECIPES["cifar10"], augment=False)  # whether a mirrored one is one is not known


@pytest.mark.parametrize(
    ("network", "data", "message"),
    [
        ("notebook-cnn", images(60, 1, 8, 8), "images of 1 x 8 x 8, got notebook-cnn"),
        ("resnet9", images(60, 1, 4, 4), "images of 1 x 4 x 4, got resnet9"),
        ("text-bag", images(60, 1, 8, 8), "images of 1 x 8 x 8, got text-bag"),
        ("resnet9", tokens(60), "texts, got resnet9"),
    ],
)
def test_a_network_that_cannot_take_the_data_is_refused(network, data, message):
    recipe = Recipe(network, batch_size=5)
    with pytest.raises(ValueError, match=f"Recipe: network must be one that takes {message}"):
        prepare(RunSpec("mine", "vanilla", recipe=recipe), data)


def test_it_is_refused_before_anything_runs(tmp_path):
    specs = Grid(datasets=["digits"], noise_rates=[0.2], methods=["vanilla"], seeds=1).specs(network="notebook-cnn")
    with pytest.raises(ValueError, match="network must be one that takes images of 1 x 8 x 8, got notebook-cnn"):
        list(bench(specs, tmp_path, "local", Settings("cpu")))
    assert not list(tmp_path.iterdir())


def test_texts_of_ones_own_go_through_bench_and_train(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    written(tmp_path / "data/reviews", texts())
    options = ["--data-root", str(tmp_path / "data"), "--label", "label", "--text", "text", "--epochs", "2"]
    main(["train", "reviews", *options, "--device", "cpu", "--out", str(tmp_path / "run")])
    told = "reviews: 192 rows to train on and 48 to test on, 3 classes; texts from column text, labels from column"
    assert f"{told} label" in capsys.readouterr().out
    grid = ["--datasets", "reviews", "--noise-rates", "0.2", "--methods", "vanilla", "--seeds", "1", "--workers", "1"]
    main(["bench", *grid, *options, "--device", "cpu", "--out", str(tmp_path / "bench")])
    printed = capsys.readouterr().out
    assert told in printed
    assert "1 of 1" in printed
    assert "text-bag" in (tmp_path / "bench/report.html").read_text()


def test_images_in_folders_get_a_network_that_takes_them(tmp_path):
    for index in range(60):
        (tmp_path / "pets" / f"class{index % 2}").mkdir(parents=True, exist_ok=True)
        pixels = np.full((40, 40, 3), 200 * (index % 2), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pets" / f"class{index % 2}" / f"{index}.png")
    (spec,) = Grid([str(tmp_path / "pets")], noise_rates=[0.0], methods=["vanilla"], seeds=1).specs(epochs=1)
    assert spec.recipe.network == "resnet9"
    assert spec.recipe.batch_size <= 24  # two steps at least of 48 rows
    prepare(spec)
