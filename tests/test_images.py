"""Images that come from anywhere, and what is done with those that cannot be read."""

from __future__ import annotations

import io
import struct
import sys
import zlib

import numpy as np
import pytest
from datasets import Dataset, Features, Value
from datasets import Image as Encoded
from PIL import Image

import adaptivek
from adaptivek.support import images
from adaptivek.support.images import ImageError, hub_images, read_image

GREY, COLOUR = np.arange(48, dtype=np.uint8).reshape(6, 8), np.arange(144, dtype=np.uint8).reshape(6, 8, 3)
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"


def png(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


def huge(side: int) -> bytes:
    """A small file that says it is (side, side)."""
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return start + struct.pack(">I", 99) + b"IDAT"


@pytest.mark.parametrize(("array", "mode"), [(GREY, "L"), (GREY > 20, "L"), (COLOUR, "RGB")])
def test_bytes_and_files_are_read_alike_in_grey_or_colour(array, mode, tmp_path):
    (tmp_path / "image.png").write_bytes(png(array))
    for source in (png(array), tmp_path / "image.png"):
        found = read_image(source)
        assert found.mode == mode
        np.testing.assert_array_equal(found, np.where(array, 255, 0) if array.dtype == bool else array)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"no image", "not an image that can be read"),
        (png(np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8))[:2_000], "truncated"),
        (huge(13_000), "an image must have at most 150,000,000 pixels, got 13,000 x 13,000"),
        (huge(50_000), "decompression bomb"),
        (EPS, "an EPS file is a program, which is not run"),
        (None, "there is no image"),
    ],
    ids=["text", "half", "large", "bomb", "program", "none"],
)
def test_what_cannot_be_read_says_why(data, reason):
    with pytest.raises(ImageError, match=reason):
        read_image(data)


def test_a_file_that_is_gone_says_which(tmp_path):
    with pytest.raises(ImageError, match=r"gone\.png"):
        read_image(tmp_path / "gone.png")


def test_without_pillow_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"reading images needs Pillow: pip install 'adaptivek\[audit\]'"):
        read_image(b"")


def test_the_audit_skips_rows_of_the_hub_without_an_image(tmp_path):
    Image.fromarray(GREY).save(tmp_path / "grey.png")
    pictures = [{"bytes": png(GREY + row), "path": None} for row in range(19)]
    pictures += [{"bytes": None, "path": str(tmp_path / "grey.png")}, None, {"bytes": huge(13_000), "path": None}]
    features = Features({"image": Encoded(), "label": Value("int64")})
    data = Dataset.from_dict({"image": pictures, "label": [0, 1] * 11}, features=features)
    assert hub_images(data, "image")[18:21] == [png(GREY + 18), tmp_path / "grey.png", None]
    found = adaptivek.audit(data, "label", epochs=2)
    assert found.skipped == [
        (20, "there is no image"),
        (21, "an image must have at most 150,000,000 pixels, got 13,000 x 13,000"),
    ]
    assert len(found.row) == 20


def test_the_limit_is_a_number_of_pixels(monkeypatch):
    monkeypatch.setattr(images, "MOST_PIXELS", 48)
    assert read_image(png(GREY)).size == (8, 6)
    monkeypatch.setattr(images, "MOST_PIXELS", 47)
    with pytest.raises(ImageError, match="at most 47 pixels, got 8 x 6"):
        read_image(png(GREY))
