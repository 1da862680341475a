"""Data sets: read from small files made here, kept, split and drawn by rules that are computed again."""

from __future__ import annotations

import hashlib
import io
import re
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from adaptivek.experiments.data import BENCHMARK, NAMES, Split, cache, load, shuffled
from adaptivek.experiments.data.read import held_out
from adaptivek.experiments.spec import RECIPES

datasets = pytest.importorskip("datasets")
DOCS = Path(__file__).parent.parent / "docs/data.md"


@pytest.fixture(autouse=True)
def _offline(monkeypatch, tmp_path):
    """No test asks the network, or sees what another has kept."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub")
    monkeypatch.setenv("ADAPTIVEK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ADAPTIVEK_DATA", raising=False)


def png(pixels: np.ndarray) -> dict[str, bytes | None]:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


def write_images(folder: Path, pixels: dict[str, np.ndarray], classes: int = 10, column: str = "image") -> Path:
    """Parquet files as the Hub has them."""
    folder.mkdir(parents=True)
    features = datasets.Features(
        {column: datasets.Image(), "label": datasets.ClassLabel(names=[str(c) for c in range(classes)])}
    )
    for split, images in pixels.items():
        rows = {column: [png(image) for image in images], "label": [i % classes for i in range(len(images))]}
        datasets.Dataset.from_dict(rows, features).to_parquet(folder / f"{split}.parquet")
    return folder


def write_lines(folder: Path, name: str, lines: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def equal(a: Split, b: Split) -> bool:
    return all(torch.equal(s, t) if isinstance(s, torch.Tensor) else s == t for s, t in zip(a, b, strict=True))


def test_images_come_as_they_were_written(tmp_path):
    grey, test = noise(6, 4, 5), noise(3, 4, 5)
    write_images(tmp_path / "mnist", {"train": grey, "test": test})
    data = load("mnist", root=tmp_path)
    np.testing.assert_allclose(data.x[:, 0], (grey / 255 - 0.1307) / 0.3081, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(data.x_test[:, 0], (test / 255 - 0.1307) / 0.3081, rtol=1e-5, atol=1e-6)
    assert data.y.tolist() == [0, 1, 2, 3, 4, 5]
    assert (data.x.dtype, data.y.dtype) == (torch.float32, torch.int64)
    assert (data.classes, data.vocabulary, data.inputs) == (10, 0, 1)


def test_colours_are_channels_and_are_normalised_by_the_training_rows(tmp_path, monkeypatch):
    train, test = noise(8, 4, 4, 3), noise(2, 4, 4, 3)
    write_images(tmp_path / "mine", {"train": train, "test": test}, column="img")
    monkeypatch.setenv("ADAPTIVEK_DATA", str(tmp_path))
    data = load("mine")
    mean, std = train.mean((0, 1, 2)), train.std((0, 1, 2))
    np.testing.assert_allclose(data.x_test, ((test - mean) / std).transpose(0, 3, 1, 2), rtol=1e-4, atol=1e-5)
    assert data.inputs == 3


def test_a_folder_of_images_may_mix_grey_and_colour(tmp_path):
    for index, (name, image) in enumerate([("cat", noise(3, 3)), ("cat", noise(3, 3, 3)), ("ant", noise(3, 3, 3))] * 4):
        (tmp_path / "pets" / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / "pets" / name / f"{index}.png")
    data = load(str(tmp_path / "pets"))
    assert data.x.shape == (10, 3, 3, 3)
    assert len(data.x_test) == 2
    both = torch.cat((data.y, data.y_test))
    assert both.bincount().tolist() == [4, 8]  # ant is 0: names in sorted order


def test_flat_images_are_not_divided_by_zero(tmp_path):
    write_images(tmp_path / "flat", {"train": np.full((4, 2, 2), 7, np.uint8), "test": np.zeros((2, 2, 2), np.uint8)})
    assert load("flat", root=tmp_path).x.eq(0).all()


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_five_thousand_rows_are_drawn_by_the_seed(name, tmp_path):
    images = np.arange(5_100, dtype=np.uint32).view(np.uint8).reshape(5_100, 2, 2)  # each says its own row
    write_images(tmp_path / name, {"train": images, "test": images[:2]})
    first, again, other = (load(name, seed=seed, root=tmp_path) for seed in (3, 3, 4))
    assert len(first.y) == 5_000
    assert equal(first, again)
    assert not torch.equal(first.y, other.y)
    source = BENCHMARK[name]
    pixels = (first.x * source.std[0] + source.mean[0]).mul(255).round().to(torch.uint8).reshape(-1, 4)
    rows = torch.from_numpy(pixels.numpy().view(np.uint32).astype(np.int64)).flatten()
    assert len(rows.unique()) == 5_000
    assert torch.equal(first.y, rows % 10)  # labels went with their images
    # the rule, written again
    digests = [hashlib.sha256(f"draw:3:{row}".encode()).hexdigest() for row in range(5_100)]
    assert rows.tolist() == sorted(range(5_100), key=lambda row: digests[row])[:5_000]


def test_splits_of_the_benchmark_are_those_written_down():
    """Sizes are the paper's; the rows are fixed by their number alone, and the documents have their checksum."""
    lines = re.findall(r"\| `(\w+)` \| ([\d,]+) \| ([\d,]+) \| `(\w{8})` \|", DOCS.read_text())
    assert [line[0] for line in lines] == ["sarcasm", "hotel", "20newsgroups"]
    for name, *counts, checksum in lines:
        train, test = (int(count.replace(",", "")) for count in counts)
        assert round(BENCHMARK[name].share * (train + test)) == test
        rows = held_out(train + test, test).tolist()
        assert rows == sorted(set(rows))
        assert f"{zlib.crc32(','.join(map(str, rows)).encode()):08x}" == checksum


def test_shuffling_is_fair():
    firsts = torch.stack([shuffled(10, f"key {i}") for i in range(1_000)])
    assert firsts.sort().values.eq(torch.arange(10)).all()
    counts = firsts[:, 0].bincount(minlength=10)  # 100 each, within five standard deviations
    assert (counts - 100).abs().max() < 50


def test_a_fifth_is_held_out_by_the_fixed_rule(tmp_path):
    folder = write_lines(tmp_path / "set", "train.csv", ["text,label", *(f"word{i} word{i},{i}" for i in range(20))])
    data = load(str(folder))
    assert data.y_test.tolist() == held_out(20, 4).tolist()
    assert sorted(data.y.tolist() + data.y_test.tolist()) == list(range(20))


def test_texts_are_numbered_by_the_training_words(tmp_path):
    folder = write_lines(tmp_path / "set", "train.csv", ["text,label", "b b b a a,no", '"A, c!!",yes', ",no"])
    write_lines(folder, "test.csv", ["text,label", "a z z z,yes"])
    data = load(str(folder))
    # a and b: three times each, so by the alphabet; ! twice; c once and z never: unknown
    assert data.x.tolist() == [[3, 3, 3, 2, 2], [2, 1, 4, 4, 0], [1, 0, 0, 0, 0]]
    assert data.x_test.tolist() == [[2, 1, 1, 1, 0]]
    assert (data.y.tolist(), data.y_test.tolist()) == ([0, 1, 0], [1])
    assert data.x.dtype == torch.int32
    assert (data.classes, data.vocabulary, data.inputs) == (2, 5, 5)


@pytest.mark.parametrize(
    ("lines", "classes"),
    [
        (['{"headline": "a b", "is_sarcastic": 1, "article_link": "x"}'] * 5 +
         ['{"headline": "c", "is_sarcastic": 0, "article_link": "y"}'] * 5, 2),
        ([f'{{"Review": "good {i}", "Rating": {1 + i % 5}}}' for i in range(10)], 5),
        ([f'{{"text": "good {i}", "label": "{i % 3}", "title": "no"}}' for i in range(10)], 3),
        ([f'{{"id": "good {i}", "ok": {str(i % 2 == 0).lower()}}}' for i in range(10)], 2),
    ],
)  # fmt: skip
def test_columns_are_found_and_labels_numbered(lines, classes, tmp_path):
    data = load(str(write_lines(tmp_path / "set", "data.jsonl", lines)))
    assert data.classes == classes
    assert sorted(set(data.y.tolist() + data.y_test.tolist())) == list(range(classes))
    assert data.vocabulary > 2


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("a.csv", ["review,sentiment", *["good,yes"] * 2], "several could be the label: review, sentiment, of review"),
        ("a.csv", ["a,b,label", "x,y,1"], "several could be the image or text: a, b, of a "),
        ("a.csv", ["x,label", "0.5,1"], r"none could be the image or text, of x \(other\), label \(whole number\)"),
        ("a.csv", ["x,text", "0.5,a"], "none could be the label, of x"),
        ("a.csv", ["text,label", "good,1"], "rows enough to hold out 20%; got 1 rows"),
        ("a.csv", ["text,label", "good,a", "bad,"], "each row must have a label; row 1 has none in label"),
        ("a.csv", ["text,label", "good,a", "bad,  "], "each row must have a label; row 1 has none in label"),
        ("README.md", ["# nothing here"], "cannot be taken as a data set"),
    ],
)
def test_what_is_no_data_set_is_refused_by_name(name, lines, message, tmp_path):
    folder = write_lines(tmp_path / "set", name, lines)
    with pytest.raises(ValueError, match=rf"load: \S*set cannot be taken as a data set: .*{message}|{message}"):
        load(str(folder))


def test_broken_images_are_named_by_row(tmp_path):
    folder = write_images(tmp_path / "set", {"train": noise(3, 2, 2), "test": noise(1, 2, 2)})
    rows = {"image": [png(noise(2, 2)), {"bytes": b"no image", "path": None}], "label": [0, 1]}
    features = datasets.load_dataset(str(folder), cache_dir=tmp_path / "hub")["test"].features
    datasets.Dataset.from_dict(rows, features).to_parquet(folder / "test.parquet")
    with pytest.raises(ValueError, match="each image must be readable; row 1 of image is not"):
        load(str(folder))


def test_images_of_several_sizes_are_refused(tmp_path):
    for index, size in enumerate([4, 4, 5]):
        (tmp_path / "set" / f"class{index}").mkdir(parents=True)
        Image.fromarray(noise(size, 4)).save(tmp_path / "set" / f"class{index}" / "0.png")
    with pytest.raises(ValueError, match="rows 0 and 2 of image have 4 x 4 and 4 x 5: resize them"):
        load(str(tmp_path / "set"))


def test_unpublished_labels_are_refused(tmp_path):
    folder = write_images(tmp_path / "set", {"train": noise(3, 2, 2)})
    part = datasets.load_dataset(str(folder), cache_dir=tmp_path / "hub")["train"]
    rows = {"image": [png(noise(2, 2))], "label": [-1]}
    datasets.Dataset.from_dict(rows, part.features).to_parquet(folder / "test.parquet")
    with pytest.raises(ValueError, match="row 0 has none in label"):
        load(str(folder))


@pytest.mark.parametrize("name", BENCHMARK)
def test_a_missing_data_set_says_both_ways(name):
    source = BENCHMARK[name]
    way = f"fetch {source.hub} from the Hugging Face Hub" if source.hub else f"get it from {source.origin}"
    with pytest.raises(ValueError, match=f"load: the data set {name} is not here") as error:
        load(name)
    assert way in str(error.value)
    assert f"into ROOT/{name} and say where that is: --data-root ROOT, or ADAPTIVEK_DATA=ROOT" in str(error.value)


def test_any_hub_id_may_be_asked_for_and_anything_else_is_refused():
    with pytest.raises(ValueError, match="fetch someone/else from the Hugging Face Hub"):
        load("someone/else")
    with pytest.raises(ValueError, match=r"load: dataset must be one of digits, mnist, .*; got '/no/such/folder'"):
        load("/no/such/folder")


def test_without_a_network_the_hub_is_not_asked(monkeypatch):
    def refuse(*_args: object, **_more: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("adaptivek.experiments.data.sources.getproxies", dict)
    monkeypatch.setattr("socket.create_connection", refuse)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_: pytest.fail("it was asked"))
    with pytest.raises(ValueError, match="the Hub cannot be reached"):
        load("mnist")


def test_what_came_from_the_hub_is_kept(monkeypatch, tmp_path):
    folder = write_images(tmp_path / "set", {"train": noise(3, 2, 2), "test": noise(1, 2, 2)})
    parts = datasets.load_dataset(str(folder), cache_dir=tmp_path / "hub")
    asked = []
    monkeypatch.setattr(datasets, "load_dataset", lambda name: asked.append(name) or parts)
    assert equal(load("mnist"), load("mnist"))
    assert asked == ["ylecun/mnist"]


@pytest.fixture
def texts(tmp_path) -> Path:
    return write_lines(tmp_path / "set", "train.csv", ["text,label", *(f"some word {i},{i % 2}" for i in range(10))])


def kept(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache").iterdir())


def test_the_second_time_nothing_is_read_anew(texts, tmp_path, monkeypatch):
    first = load(str(texts))
    (file,) = kept(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(datasets, "load_dataset", lambda *_: pytest.fail("read again"))
        assert equal(load(str(texts)), first)
    write_lines(texts, "train.csv", ["text,label", *(f"other {i},{i % 2}" for i in range(12))])
    assert len(load(str(texts)).y) == 10  # changed data is seen: twelve rows now
    assert file in kept(tmp_path)
    assert len(kept(tmp_path)) == 2


@pytest.mark.parametrize("spoil", ["cut", "flipped", "empty", "other"])
def test_a_spoiled_file_is_made_again(spoil, texts, tmp_path):
    first = load(str(texts))
    (file,) = kept(tmp_path)
    whole = file.read_bytes()
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    file.write_bytes({"cut": whole[:-9], "flipped": flipped, "empty": b"", "other": b"not tensors" * 99}[spoil])
    assert equal(load(str(texts)), first)
    again = cache.read(file)
    assert again is not None
    assert equal(again, first)
    assert kept(tmp_path) == [file]


def test_without_a_place_to_keep_it_data_comes_with_a_warning(texts, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ADAPTIVEK_CACHE", str(tmp_path / "file" / "below"))
    with pytest.warns(UserWarning, match="cannot keep prepared data"):
        assert len(load(str(texts)).y) == 8


def test_whoever_reads_while_others_write_gets_it_whole(tmp_path):
    """Two data sets turn by turn under one name, from several writers: a reader sees one or the other."""
    path = tmp_path / "cache" / "one.safetensors"
    sets = [Split(*(torch.full((rows, 2), rows) for _ in range(4)), classes=rows) for rows in (30_000, 50_000)]
    cache.write(path, sets[0])

    def turns(number: int) -> list[int]:
        if number < 2:
            return [cache.write(path, data) or 0 for data in sets * 10]
        return [0 if (found := cache.read(path)) is None else found.classes for _ in range(30)]

    with ThreadPoolExecutor(4) as pool:
        _, _, *found = pool.map(turns, range(4))
    assert {number for numbers in found for number in numbers} <= {30_000, 50_000}
    assert kept(tmp_path) == [path]


def test_where_data_is_kept(monkeypatch, tmp_path):
    assert cache.cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("ADAPTIVEK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.cache_folder() == tmp_path / "adaptivek"


@pytest.mark.parametrize("missing", ["datasets", "safetensors"])
def test_a_missing_extra_is_named(missing, texts, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=r"pip install 'adaptivek\[data\]'"):
        load(str(texts))
    assert load("digits").x.shape == (1437, 1, 8, 8)  # needs neither


def test_names_are_the_paper_s_and_digits():
    assert NAMES == ("digits", "mnist", "fashion-mnist", "cifar10", "imdb", "sarcasm", "hotel", "20newsgroups")


def test_digits_are_what_scikit_learn_ships():
    data = load("digits")
    assert data.x.shape == (1437, 1, 8, 8)
    assert len(data.x_test) == 360
    assert torch.equal(load("digits").y, data.y)  # the split does not change
    assert data.x.mean().abs() < 1e-5
    assert "digits" in RECIPES
