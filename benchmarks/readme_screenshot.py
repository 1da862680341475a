"""The picture of the audit's page in the README: digits as images, every sixth label noisy.

    python benchmarks/readme_screenshot.py

Needs Chromium. Writes docs/figures/audit-page.png, the top of the page and below it the list of rows, and says how many
of the flagged rows are noisy.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from sklearn.datasets import load_digits

import adaptivek
from adaptivek.noise import Symmetric, corrupt

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def images(folder: Path) -> set[str]:
    """A folder for each observed label; the names of the files that are in the wrong one."""
    pixels, digits = load_digits(return_X_y=True)
    observed, _ = corrupt(digits, Symmetric(1 / 6), classes=10, seed=0)
    for row, (picture, label) in enumerate(zip(pixels, np.asarray(observed), strict=True)):
        path = folder / NAMES[label] / f"{row:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        grey = Image.fromarray((picture.reshape(8, 8) * 255 / 16).astype(np.uint8))
        grey.resize((64, 64), Image.Resampling.BICUBIC).resize((32, 32)).save(path)
    return {f"{row:04}.png" for row in np.flatnonzero(np.asarray(observed) != digits)}


def photograph(executable: str, page: Path, profile: Path) -> list[Image.Image]:
    """The top of the page, and the list of rows."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from tests.browser import Browser

    browser, parts = Browser(executable, profile), []
    try:
        browser.open(page, 1280, 440)
        parts.append(browser.screenshot())
        browser.resize(1280, 600)
        browser.evaluate("document.getElementById('suspects').scrollIntoView()")
        browser.evaluate("new Promise(done => setTimeout(done, 500))")  # the list is drawn when it is seen
        parts.append(browser.screenshot())
    finally:
        browser.close()
    return [Image.open(io.BytesIO(part)).convert("RGB") for part in parts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/figures/audit-page.png"))
    given = parser.parse_args()
    out = given.out.resolve()
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        parser.error("no Chromium on the path")
    with tempfile.TemporaryDirectory() as folder:
        noisy = images(Path(folder) / "digits")
        os.chdir(folder)  # the page is named after the path
        result = adaptivek.audit("digits", folder="audit")
        files = [path.name for path in sorted(Path("digits").rglob("*.png"))]
        flagged = {files[row] for row in result.row[result.is_issue]}
        print(f"{len(noisy)} noisy, {len(flagged)} flagged, {len(noisy & flagged)} of them noisy")
        parts = photograph(browser, Path("audit/report.html"), Path("profile"))
    picture = Image.new("RGB", (parts[0].width, sum(part.height for part in parts)))
    for number, part in enumerate(parts):
        picture.paste(part, (0, sum(above.height for above in parts[:number])))
    picture = ImageOps.expand(picture, 1, "#d1d9e0")  # else it has no edge on a white page
    picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=128).save(out, optimize=True)  # a third of the size
    print(given.out, f"{out.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
