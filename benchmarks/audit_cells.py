"""Data sets with noisy labels, made and real, for `audit_real.py`.

Made noise: symmetric, pair (to the next class), one-class (a share of the first class to the second), hard (rows that a
model trained on the true labels tells worst, to its second choice, as people err) and none. Real noise: crowds, rules
and published labels, with trusted ones beside them. A third of the rows is held out as test rows if there are none.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from adaptivek.noise import InstanceDependent, PairFlip, Symmetric, corrupt

DATA = Path(os.environ.get("ADAPTIVEK_DATA", "data"))
#: nothing of the audit was chosen by these
HELD_BACK = ("manifesto_crowd", "weak_trec", "weak_sms", "chnsenticorp_golden", "cifar10_h")


class Rows(NamedTuple):
    x: Any  #: a list of texts, or an array of features or images
    y: np.ndarray  #: true classes


class Cell(NamedTuple):
    """One data set with one noise."""

    name: str
    group: str  #: of the table: symmetric, pair, one-class, ...
    kind: str  #: text, features, table or image
    x: Any
    labels: np.ndarray  #: as given
    gold: np.ndarray
    test: Rows

    @property
    def noisy(self) -> np.ndarray:
        return self.labels != self.gold


def linear(kind: str, texts: Any = None) -> Any:
    """The usual model: logistic regression on TF-IDF or on scaled features."""
    if kind == "text":
        no_spaces = sum(len(text.split()) for text in texts) < len("".join(texts)) / 15
        words = TfidfVectorizer(analyzer="char", ngram_range=(1, 3)) if no_spaces else TfidfVectorizer()
        return make_pipeline(words, LogisticRegression())
    return make_pipeline(StandardScaler(), LogisticRegression())


def take(x: Any, rows: np.ndarray) -> Any:
    return [x[row] for row in rows] if isinstance(x, list) else x[rows]


@cache
def base(name: str) -> tuple[str, Rows]:
    """The kind of data, and all rows with their true classes."""
    rng = np.random.default_rng(0)
    if name == "digits":
        return "image", Rows(load_digits().images[:, None].astype(np.float32), load_digits().target)
    if name == "cancer":
        return "table", Rows(*load_breast_cancer(return_X_y=True))
    if name == "clusters":
        x, y = make_classification(
            2_400, 20, n_informative=8, n_redundant=4, n_classes=4, class_sep=1.5, flip_y=0, random_state=0
        )
        return "table", Rows(x, y)
    if name == "pairs":  # of products, with the true classes
        frame = pd.read_parquet(DATA / "real/product_pairs_amt/train.parquet")
        return "table", Rows(frame.iloc[:, :12].to_numpy(np.float64), frame["gold"].to_numpy())
    if name == "labelme":
        frame = pd.read_parquet(DATA / "real/labelme_amt/train.parquet")
        return "features", Rows(frame.iloc[:, :512].to_numpy(np.float32), frame["gold"].to_numpy())
    if name.startswith("news"):  # news8: eight topics of 250; news20: all, the sizes falling from 250 to 15
        frame = pd.read_parquet(DATA / "20newsgroups/train.parquet")
        frame = frame[frame["text"].str.strip().str.len() > 0].sample(frac=1, random_state=0)
        kept = [0, 2, 5, 7, 10, 13, 15, 17] if name == "news8" else list(range(20))
        sizes = [250] * 8 if name == "news8" else np.geomspace(250, 15, 20).astype(int)[rng.permutation(20)]
        parts = [frame[frame["label"] == c].head(size) for c, size in zip(kept, sizes, strict=True)]
        frame = pd.concat(parts).sample(frac=1, random_state=0)
        codes = np.searchsorted(kept, frame["label"])
        return "text", Rows([text[:1500] for text in frame["text"]], codes)
    frame = pd.read_parquet(DATA / f"{name}/train.parquet").sample(3_000, random_state=0)
    labels = frame["label"].to_numpy()
    if name == "hotel":
        labels = np.digitize(labels, [2, 3])  # bad, middling, good
    return "text", Rows([text[:1500] for text in frame["text"]], labels)


def split(rows: Rows, seed: int = 1) -> tuple[Rows, Rows]:
    """Two thirds to audit, a third to test on."""
    order = np.random.default_rng(seed).permutation(len(rows.y))
    cut = len(order) * 2 // 3
    return tuple(Rows(take(rows.x, np.sort(part)), rows.y[np.sort(part)]) for part in (order[:cut], order[cut:]))


def made(name: str, noise: str, rate: float, seed: int = 1) -> Cell:
    """Noise of this kind and rate; ``seed`` is of the test rows."""
    kind, rows = base(name)
    train, test = split(rows, seed)
    y, classes = train.y.astype(np.int64), int(rows.y.max()) + 1
    rng = np.random.default_rng(2)
    if noise == "symmetric":
        labels = corrupt(y, Symmetric(rate), classes=classes, seed=0)[0].numpy()
    elif noise == "pair":
        labels = corrupt(y, PairFlip(rate), classes=classes, seed=0)[0].numpy()
    elif noise == "one-class":
        labels = np.where((y == 0) & (rng.random(len(y)) < rate), 1, y)
    elif noise == "instance":
        features = None if kind == "text" else np.reshape(train.x, (len(y), -1))
        if features is None:
            features = TfidfVectorizer(max_features=64).fit_transform(train.x).toarray()
        labels = corrupt(y, InstanceDependent(rate), classes=classes, seed=0, features=features)[0].numpy()
    elif noise == "hard":
        flat = train.x if kind == "text" else np.reshape(train.x, (len(y), -1))
        p = cross_val_predict(linear(kind, train.x if kind == "text" else None), flat, y, method="predict_proba")
        p[np.arange(len(y)), y] = -1
        chance = p.max(1) ** 0.5  # how likely the second choice is
        chosen = rng.choice(len(y), round(rate * len(y)), replace=False, p=chance / chance.sum())
        labels = y.copy()
        labels[chosen] = p.argmax(1)[chosen]
    else:
        labels = y
    return Cell(f"{name} {noise} {rate:g}" if rate else f"{name} clean", noise, kind, train.x, labels, y, test)


def imbalanced(kind: str, ratio: int, rate: float) -> Cell:
    """Two classes, one row of the second for ``ratio`` of the first, of which ``rate`` are labelled as the second."""
    rng = np.random.default_rng(3)
    if kind == "table":
        x, y = make_classification(
            6_000, 20, n_informative=8, weights=[ratio / (ratio + 1)], class_sep=1.5, flip_y=0, random_state=1
        )
        rows = Rows(x, y)
    else:
        frame = pd.read_parquet(DATA / "20newsgroups/train.parquet")
        frame = frame[frame["text"].str.strip().str.len() > 0].sample(frac=1, random_state=0)
        many, few = frame[frame["label"].isin([0, 2, 5, 7])].head(2_000), frame[frame["label"] == 13]
        frame = pd.concat([many, few.head(2_000 // ratio)]).sample(frac=1, random_state=0)
        rows = Rows([text[:1500] for text in frame["text"]], (frame["label"] == 13).to_numpy().astype(np.int64))
    train, test = split(rows)
    labels = np.where((train.y == 0) & (rng.random(len(train.y)) < rate), 1, train.y)
    return Cell(f"{kind} 1:{ratio}, {rate:g}", "imbalanced", kind, train.x, labels, train.y.astype(np.int64), test)


def real(name: str) -> Cell:
    folder = DATA / "real" / name
    if name.startswith("cifar"):
        return cifar(name)
    train = pd.read_parquet(folder / "train.parquet")
    names = sorted(set(train["gold"]) | set(train["label"]))
    codes = {name: code for code, name in enumerate(names)}
    labels, gold = (train[column].map(codes).to_numpy(np.int64) for column in ("label", "gold"))
    columns = {"labelme_amt": 512, "product_pairs_amt": 12}.get(name, 0)
    kind = {"labelme_amt": "features", "product_pairs_amt": "table"}.get(name, "text")
    x: Any = train.iloc[:, :columns].to_numpy(np.float64) if columns else [str(text) for text in train["text"]]
    group = "rules" if name.startswith("weak") else "published" if name.startswith("chn") else "crowd"
    if (folder / "test.parquet").exists():
        other = pd.read_parquet(folder / "test.parquet")
        test_x: Any = other.iloc[:, :columns].to_numpy(np.float64) if columns else [str(t) for t in other["text"]]
        return Cell(name, group, kind, x, labels, gold, Rows(test_x, other["label"].map(codes).to_numpy(np.int64)))
    order = np.random.default_rng(1).permutation(len(gold))
    cut = len(order) * 2 // 3
    first, rest = np.sort(order[:cut]), np.sort(order[cut:])
    return Cell(name, group, kind, take(x, first), labels[first], gold[first], Rows(take(x, rest), gold[rest]))


def cifar(name: str) -> Cell:
    """10,000 images with the labels of people."""
    import io

    from PIL import Image

    def images(part: str, rows: np.ndarray) -> np.ndarray:
        cells = pd.read_parquet(DATA / f"cifar10/{part}.parquet")["img"].iloc[rows]
        return np.stack([np.asarray(Image.open(io.BytesIO(cell["bytes"]))) for cell in cells]).transpose(0, 3, 1, 2)

    nothing = Rows(np.zeros((0, 3, 32, 32), np.uint8), np.zeros(0, np.int64))
    if name == "cifar10_h":
        frame = pd.read_parquet(DATA / "real/cifar10_h/test_labels.parquet")
        x = images("test", np.arange(10_000))
        return Cell(name, "crowd", "image", x, frame["label"].to_numpy(), frame["gold"].to_numpy(), nothing)
    frame = pd.read_parquet(DATA / "cifar10n/train.parquet").head(10_000)
    labels = frame[f"{name.split()[1]}_label"].to_numpy()
    return Cell(name, "crowd", "image", images("train", np.arange(10_000)), labels, frame["clean_label"].to_numpy(),
                nothing)  # fmt: skip


def cells() -> dict[str, Callable[[], Cell]]:
    """All cells by name, each made when it is asked for."""
    found: dict[str, Callable[[], Cell]] = {}

    def add(name: str, make: Callable[..., Cell], *arguments: Any) -> None:
        found[name] = lambda: make(*arguments)

    for name in ("labelme_amt", "product_pairs_amt", "weak_agnews", *HELD_BACK):
        add(name, real, name)
    for kind in ("table", "text"):
        for ratio, rate in ((20, 0.01), (20, 0.05), (100, 0.01), (100, 0.0)):
            add(f"{kind} 1:{ratio}, {rate:g}", imbalanced, kind, ratio, rate)
    many = [("symmetric", 0.2), ("symmetric", 0.4), ("pair", 0.2), ("one-class", 0.2), ("one-class", 0.4)]
    many += [("instance", 0.2), ("hard", 0.2)]
    few = [("symmetric", 0.2), ("one-class", 0.2), ("hard", 0.2)]
    for name in ("cancer", "labelme", "clusters", "sarcasm", "pairs", "hotel", "digits", "news8", "news20"):
        add(f"{name} clean", made, name, "clean", 0.0)
        for noise, rate in few if name in ("pairs", "hotel", "news20") else many:
            add(f"{name} {noise} {rate:g}", made, name, noise, rate)
    for name in ("cifar10n aggre", "cifar10n worse"):
        add(name, real, name)
    return found
