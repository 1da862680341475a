"""A headless Chromium, spoken to through a pipe: no driver, no download, nothing but the standard library."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# Chromium reads commands from descriptor 3 and answers on 4; another Python puts ours there
LAUNCH = """
import fcntl, os, sys
# first out of the way: one of them may be 3 or 4 already
read, write = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 60.0  # seconds for an answer


def find() -> str | None:
    """The browser of ADAPTIVEK_BROWSER, or the first that is installed."""
    names = (os.environ.get("ADAPTIVEK_BROWSER", ""), "chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, filter(None, names)) if path), None)


class Browser:
    """One page, and what it said and asked for."""

    def __init__(self, executable: str, profile: Path) -> None:
        theirs_read, self._write = os.pipe()
        self._read, theirs_write = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(theirs_read), str(theirs_write), executable, *FLAGS,
             f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(theirs_read, theirs_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_read)
        os.close(theirs_write)
        self._buffer, self._number, self._session = b"", 0, ""
        self.complaints: list[str] = []  #: of the console, and errors of scripts
        self.requests: list[str] = []
        self._loaded = False
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def open(self, path: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Load a file in a window of this size; forgets what was before."""
        self.resize(width, height, dark)
        self.complaints.clear()
        self.requests.clear()
        self._loaded = False
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not self._loaded:
            self._next()

    def resize(self, width: int, height: int = 900, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def screenshot(self, whole: bool = False) -> bytes:
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]  # type: ignore[no-any-return]

    def close(self) -> None:
        try:
            self._session = ""
            self.call("Browser.close")
            self._process.wait(10)
        except (OSError, EOFError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def _next(self) -> dict[str, Any]:
        """The next message; what is no answer is noted down."""
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], deadline - time.monotonic())[0]:
                raise TimeoutError("the browser does not answer")
            chunk = os.read(self._read, 1 << 16)
            if not chunk:
                raise EOFError("the browser has gone")
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        about = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.requestWillBeSent":
                self.requests.append(about["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(about["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.complaints.append(str(about["args"]))
            case "Log.entryAdded":
                self.complaints.append(about["entry"]["text"])
        return message
