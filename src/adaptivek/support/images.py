"""Images from files or bytes: the one way to read them. They are untrusted."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

MOST_PIXELS = 150_000_000  #: about half a gigabyte once decoded
GREY = ("1", "L", "LA", "I;16")  #: modes of Pillow without colour

#: bytes, or where they are
ImageSource = bytes | Path


class ImageError(OSError):
    """An image that cannot be read; the message says why."""


def read_image(source: ImageSource | None) -> Any:
    """A `PIL.Image` in grey (mode L) or colour (mode RGB).

    Raises:
        ImageError: it cannot be read, is too large, or there is none.
    """
    image = load_pillow()
    if source is None:
        raise ImageError("there is no image")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", image.DecompressionBombWarning)  # the limit below is ours
            with image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as opened:
                _check(opened)
                return opened.convert("L" if opened.mode in GREY else "RGB")
    except image.UnidentifiedImageError:
        raise ImageError("not an image that can be read") from None
    except Exception as error:  # a broken file can make Pillow raise anything
        raise ImageError(str(error)[:200]) from None


def hub_images(dataset: Any, column: str) -> list[ImageSource | None]:
    """The images in a column of a `datasets.Dataset`, not decoded; None where there is none."""
    from datasets import Image

    return [_source(encoded) for encoded in dataset.cast_column(column, Image(decode=False))[column][:]]


def load_pillow() -> Any:
    """`PIL.Image`."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("reading images needs Pillow: pip install 'adaptivek[audit]'") from None
    return Image


def _check(opened: Any) -> None:
    """Before anything is decoded: a small file can become a very large image."""
    if opened.format == "EPS":
        raise ImageError("an EPS file is a program, which is not run")
    width, height = opened.size
    if width * height > MOST_PIXELS:
        raise ImageError(f"an image must have at most {MOST_PIXELS:,} pixels, got {width:,} x {height:,}")


def _source(encoded: Any) -> ImageSource | None:
    if encoded is None or not (encoded["bytes"] or encoded["path"]):
        return None
    return encoded["bytes"] or Path(encoded["path"])
