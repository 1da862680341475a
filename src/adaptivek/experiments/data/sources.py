"""Data sets by name: bundled, from a folder, or from the Hugging Face Hub."""

from __future__ import annotations

import os
import re
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from torch import Tensor

from ...support import text
from . import cache
from .read import prepare
from .split import Split, shuffled

FORMAT = 2  #: of what is kept on disk; a new number makes all data sets be prepared again
SHARE = 0.2  #: held out for testing where neither a split nor the paper's sizes are known


@dataclass(frozen=True)
class Source:
    """Where a data set of the benchmark comes from, and what the paper takes of it."""

    hub: str = ""  #: id on the Hugging Face Hub, if it is there
    origin: str = ""  #: where to get it otherwise
    draw: int | None = None  #: training rows drawn by the seed; all of them if None
    share: float = SHARE  #: held out where there is no published split
    mean: tuple[float, ...] = ()  #: of the pixels, by channel; from the training rows if empty
    std: tuple[float, ...] = ()


#: the paper's seven
BENCHMARK = {
    "mnist": Source("ylecun/mnist", draw=5_000, mean=(0.1307,), std=(0.3081,)),
    "fashion-mnist": Source("zalando-datasets/fashion_mnist", draw=5_000, mean=(0.2860,), std=(0.3530,)),
    "cifar10": Source("uoft-cs/cifar10", mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616)),
    "imdb": Source("stanfordnlp/imdb"),
    "sarcasm": Source(
        origin="rmisra/news-headlines-dataset-for-sarcasm-detection (version 2) on Kaggle", share=2_862 / 28_619
    ),
    "hotel": Source(origin="andrewmvd/trip-advisor-hotel-reviews on Kaggle", share=6_763 / 20_491),
    "20newsgroups": Source(origin="Twenty Newsgroups at the UCI repository", share=3_999 / 19_997),
}
NAMES = ("digits", *BENCHMARK)


def load(name: str, *, seed: int = 0, root: str | Path | None = None, text: str = "", label: str = "") -> Split:
    """A data set by name.

    Args:
        name: one of `NAMES`; or the id of a data set on the Hugging Face Hub ("owner/name"), or a folder
            (Parquet, CSV, JSON, or images in a folder per class), with one image or text column and a
            label column.
        seed: decides which rows are drawn, for the data sets of which the paper takes some rows.
        root: folder with a folder ``name`` in it, asked before the Hub; ADAPTIVEK_DATA if not given.
        text: the column of the texts or images; found if not given.
        label: the column of the labels; found if not given: the one called label, if there is one.
    """
    if name == "digits":
        if text or label:
            raise ValueError(f"load: {'text' if text else 'label'} must not be given for digits, which has no columns")
        return digits()
    root = root or os.environ.get("ADAPTIVEK_DATA")
    source = BENCHMARK.get(name)
    folder = None
    if root and (Path(root) / name).is_dir():
        folder = Path(root) / name
    elif source is None and Path(name).is_dir():
        folder = Path(name)
    elif source is None:
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
            names = ", ".join(NAMES)
            raise ValueError(
                f"load: dataset must be one of {names}; or a data set of the Hugging Face Hub (owner/name), "
                f"or a folder; got {name!r}"
            )
        source = Source(hub=name)
    source = source or Source()
    return _ready(_prepared(name, source, folder, text, label), source, seed)


def digits() -> Split:
    """scikit-learn's bundled digits: 1,797 images of 8 x 8, a fifth of each class held out. No download."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError:
        raise ImportError("the data set digits needs scikit-learn: pip install 'adaptivek[data]'") from None
    images, labels = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(images, labels, test_size=0.2, stratify=labels, random_state=0)
    mean, std = x.mean(), x.std()

    def image(a: object) -> Tensor:
        scaled: Tensor = (torch.as_tensor(a, dtype=torch.float32) - mean) / std
        return scaled.reshape(-1, 1, 8, 8)

    return Split(image(x), torch.as_tensor(y), image(x_test), torch.as_tensor(y_test), classes=10)


def _ready(data: Split, source: Source, seed: int) -> Split:
    """Rows drawn, pixels normalised."""
    if source.draw and source.draw < len(data.y):
        rows = shuffled(len(data.y), f"draw:{seed}")[: source.draw]
        data = data._replace(x=data.x[rows], y=data.y[rows])
    if data.vocabulary:
        return data
    x, x_test = (pixels.float().div_(255) for pixels in (data.x, data.x_test))
    mean, std = torch.tensor(source.mean), torch.tensor(source.std)
    if len(mean) != x.shape[1]:
        mean, std = x.mean((0, 2, 3)), x.std((0, 2, 3), correction=0)
    std = torch.where(std > 0, std, 1.0)
    for pixels in (x, x_test):
        pixels.sub_(mean[:, None, None]).div_(std[:, None, None])
    return data._replace(x=x, x_test=x_test)


def _prepared(name: str, source: Source, folder: Path | None, column: str, label: str) -> Split:
    """Bytes of pixels or token numbers: kept from the last time, or read anew."""
    try:
        import safetensors  # noqa: F401
    except ImportError:
        raise _extra(name) from None
    identity = {"format": FORMAT, "share": source.share, "text": [text.WORD.pattern, text.WORDS, text.LENGTH]}
    identity |= {"columns": [column, label]}
    # what came from the Hub once is taken again without asking; a folder is looked at each time
    where = {"hub": source.hub} if folder is None else {"folder": str(folder.resolve()), "files": _files(folder)}
    kept = cache.cache_file(name, **identity, **where)
    data = cache.read(kept)
    if data is None:
        try:
            import datasets
        except ImportError:
            raise _extra(name) from None
        columns = column, label
        data = (
            _from_hub(datasets, name, source, columns)
            if folder is None
            else _from_folder(datasets, folder, source, columns)
        )
        cache.write(kept, data)
    return data


def _extra(name: str) -> ImportError:
    return ImportError(f"the data set {name} needs more than the library: pip install 'adaptivek[data]'")


def _files(folder: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of each file: changes when the data does."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            about = path.stat()
            found.append((path.relative_to(folder).as_posix(), about.st_size, about.st_mtime_ns))
    return found


def _from_folder(datasets: Any, folder: Path, source: Source, columns: tuple[str, str]) -> Split:
    # the copy that `datasets` makes on the way is not needed afterwards
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        try:
            return prepare(datasets.load_dataset(str(folder.resolve()), cache_dir=scratch), source.share, *columns)
        except Exception as error:
            raise ValueError(f"load: {folder} cannot be taken as a data set: {error}") from error


def _from_hub(datasets: Any, name: str, source: Source, columns: tuple[str, str]) -> Split:
    if not source.hub:
        raise _missing(name, source, "it is not on the Hub")
    if not datasets.config.HF_HUB_OFFLINE and not _answers(datasets.config.HF_ENDPOINT):
        raise _missing(name, source, "the Hub cannot be reached")  # at once, not after minutes of trying again
    try:
        splits = datasets.load_dataset(source.hub)
    except (ConnectionError, FileNotFoundError) as error:
        raise _missing(name, source, str(error)) from None
    try:
        return prepare(splits, source.share, *columns)
    except ValueError as error:
        raise ValueError(f"load: {source.hub} cannot be taken as a data set: {error}") from error


def _missing(name: str, source: Source, reason: str) -> ValueError:
    fetch = f"fetch {source.hub} from the Hugging Face Hub" if source.hub else f"get it from {source.origin}"
    return ValueError(
        f"load: the data set {name} is not here ({reason}). Either, with a network, {fetch}"
        f"{' (done when it is first used)' if source.hub else ''}; or put its files (Parquet, CSV, JSON or images) "
        f"into ROOT/{name} and say where that is: --data-root ROOT, or ADAPTIVEK_DATA=ROOT"
    )


def _answers(address: str) -> bool:
    """Whether there is a host at this address. Where there is a proxy, it knows and we do not."""
    if getproxies():
        return True
    url = urlsplit(address)
    try:
        socket.create_connection((url.hostname or "", url.port or (80 if url.scheme == "http" else 443)), 5).close()
    except OSError:
        return False
    return True
