"""From the data folder and the encoder's files to small files that training needs nothing else for.

Each file has the inputs of one network for one data set: rows of token numbers, of TF-IDF (the entries that are not
0), or of features; the observed labels where the data has noise of its own, the trusted ones, and a trusted test set.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as parquet
from real_images import HUMAN_LABELS, human_labels
from real_settings import DATA, INJECTED

from adaptivek.experiments.data.read import held_out
from adaptivek.experiments.data.sources import BENCHMARK
from adaptivek.experiments.data.split import shuffled
from adaptivek.support.text import tokenise

Arrays = dict[str, np.ndarray]
#: tokens that the encoder reads of a text, in eights; of a longer one the beginning and the end
LENGTH, LENGTHS = 64, {"sarcasm": 40, "weak_trec": 32}
TERMS = 4_000  # of TF-IDF
AT_MOST = {"imdb": (10_000, 5_000), "weak_agnews": (10_000, 4_000)}  # rows for training and testing
ASIDE = ("text", "label", "gold", "majority")  # columns that are no features


class Columns(NamedTuple):
    """A data set as it was read: inputs, observed labels (None: they are clean), trusted labels."""

    x: Sequence[Any]
    labels: list[Any] | None
    gold: list[Any]
    x_test: Sequence[Any]
    y_test: list[Any]


def read(root: Path, name: str) -> Columns:
    """Texts, or rows of numbers, and labels; a test set is held out where there is none."""
    folder = root / name if name in INJECTED else root / "real" / name
    x, labels, gold = _file(folder / "train.parquet")
    if (folder / "test.parquet").exists():
        x_test, _, y_test = _file(folder / "test.parquet")
    else:
        share = BENCHMARK[name].share if name in INJECTED else 1 / 3
        test = np.isin(np.arange(len(gold)), held_out(len(gold), round(share * len(gold))).numpy())
        x_test, y_test = _take(x, test), _take(gold, test)
        x, labels, gold = (_take(column, ~test) for column in (x, labels, gold))
    if name in AT_MOST:
        for_training, for_testing = AT_MOST[name]
        rows = np.isin(np.arange(len(gold)), shuffled(len(gold), name)[:for_training].numpy())
        tested = np.isin(np.arange(len(y_test)), shuffled(len(y_test), f"{name}:test")[:for_testing].numpy())
        x, labels, gold = (_take(column, rows) for column in (x, labels, gold))
        x_test, y_test = _take(x_test, tested), _take(y_test, tested)
    return Columns(x, None if name in INJECTED else labels, gold, x_test, y_test)


def read_images(root: Path, name: str, weights: Path) -> Columns:
    found = human_labels(root, weights)
    return Columns(found.x, found.labels[name], found.gold, found.x_test, found.y_test)


def _file(path: Path) -> tuple[list[Any], list[Any], list[Any]]:
    """Inputs, labels and trusted labels. A file without the column has labels to be trusted."""
    table = parquet.read_table(path)
    labels = table.column("label").to_pylist()
    gold = table.column("gold").to_pylist() if "gold" in table.column_names else labels
    features = [name for name in table.column_names if name not in ASIDE]
    if features:
        numbers = np.stack([table.column(name).to_numpy() for name in features], 1)
        return list(numbers.astype(np.float64)), labels, gold
    return [text or "" for text in table.column("text").to_pylist()], labels, gold


def _take(values: Sequence[Any], where: np.ndarray) -> list[Any]:
    return [value for value, wanted in zip(values, where, strict=True) if wanted]


def tokens(texts: Sequence[str], tokenizer: Any, length: int) -> np.ndarray:
    """Token numbers, (rows, length), 0 for padding."""
    table = np.zeros((len(texts), length), np.uint16)
    head = (length + 1) // 2
    for row, found in zip(table, tokenizer.encode_batch(list(texts)), strict=True):
        ids = found.ids
        if len(ids) > length:
            ids = ids[:head] + ids[len(ids) - (length - head) :]
        row[: len(ids)] = ids
    return table


def for_encoder(name: str, data: Columns, tokenizer: Any) -> Arrays:
    x, x_test = (tokens(texts, tokenizer, LENGTHS.get(name, LENGTH)) for texts in (data.x, data.x_test))
    return {"x": x, "x_test": x_test}


def for_perceptron(name: str, data: Columns, tokenizer: Any) -> Arrays:
    """TF-IDF of texts, all else standardised."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import StandardScaler

    if not isinstance(data.x[0], str):
        scaler = StandardScaler().fit(np.stack(data.x))
        x, x_test = (scaler.transform(np.stack(rows)).astype(np.float16) for rows in (data.x, data.x_test))
        return {"x": x, "x_test": x_test}
    # Chinese has no spaces between words
    words: dict[str, Any] = {"analyzer": "char", "ngram_range": (1, 2)} if name.startswith("chn") else {}
    vectorizer = TfidfVectorizer(max_features=TERMS, sublinear_tf=True, **words)
    arrays: Arrays = {}
    for key, table in (("x", vectorizer.fit_transform(data.x)), ("x_test", vectorizer.transform(data.x_test))):
        rows, columns = table.nonzero()
        arrays |= {f"{key}_rows": rows.astype(np.uint16), f"{key}_columns": columns.astype(np.uint16)}
        arrays[f"{key}_values"] = np.asarray(table[rows, columns]).ravel().astype(np.float16)
        arrays[f"{key}_shape"] = np.array(table.shape)
    return arrays


def for_text_bag(name: str, data: Columns, tokenizer: Any) -> Arrays:
    """Words as `adaptivek bench` numbers them."""
    x, x_test, vocabulary = tokenise(data.x, data.x_test)
    numbers = {key: table.numpy().astype(np.uint16) for key, table in (("x", x), ("x_test", x_test))}
    return numbers | {"vocabulary": np.array(vocabulary)}


INPUTS: dict[str, Callable[[str, Columns, Any], Arrays]] = {
    "encoder": for_encoder,
    "perceptron": for_perceptron,
    "text-bag": for_text_bag,
}


def numbered(data: Columns) -> Arrays:
    """Labels as numbers from 0 in the order of the classes."""
    classes = {label: number for number, label in enumerate(sorted({*data.gold, *data.y_test, *(data.labels or ())}))}
    columns = {"labels": data.labels, "gold": data.gold, "y_test": data.y_test}
    return {
        key: np.array([classes[label] for label in column], np.uint8)
        for key, column in columns.items()
        if column is not None
    } | {"classes": np.array(len(classes))}


def prepare(root: Path, weights: Sequence[Path], out: Path) -> None:
    """All files, and the encoder's weights in half precision."""
    from tokenizers import Tokenizer

    out.mkdir(parents=True, exist_ok=True)
    encoder, image_weights = _find(weights, "model.safetensors").parent, _find(weights, "mobilenetv2*.pt")
    save_encoder(encoder, out / "encoder.npz")
    tokenizer = Tokenizer.from_file(str(encoder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    for name in dict.fromkeys(name for names in DATA.values() for name in names):
        data = read_images(root, name, image_weights) if name in HUMAN_LABELS else read(root, name)
        labels = numbered(data)
        for network in (network for network, names in DATA.items() if name in names):
            path = out / f"{network}-{name}.npz"
            np.savez_compressed(path, **labels, **INPUTS[network](name, data, tokenizer))
            noisy = np.mean(labels["labels"] != labels["gold"]) if "labels" in labels else 0
            print(
                f"{path.name}: {len(labels['gold'])} rows for training, {len(labels['y_test'])} for testing, "
                f"{labels['classes']} classes, {noisy:.1%} noisy, {path.stat().st_size / 2**20:.1f} MiB",
                flush=True,
            )


def _find(folders: Sequence[Path], pattern: str) -> Path:
    for folder in folders:
        for path in folder.rglob(pattern):
            return path
    raise ValueError(
        f"prepare: weights must be folders with {pattern} somewhere in one, got {', '.join(map(str, folders))}"
    )


def save_encoder(folder: Path, path: Path) -> None:
    from safetensors.numpy import load_file

    heads = json.loads((folder / "config.json").read_text())["num_attention_heads"]
    weights = load_file(folder / "model.safetensors")
    half = {name: value.astype(np.float16) for name, value in weights.items() if value.dtype.kind == "f"}
    np.savez_compressed(path, heads=np.array(heads), **half)
    print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB", flush=True)
