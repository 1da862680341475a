"""Fresh interpreters that begin where torch has been imported: what takes longest in most of them.

One process imports torch and nothing of ours, and forks for every piece of code. Each runs alone, with its own
modules, files and exit code.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

SERVER = """
import json, os, sys, traceback
import numpy, torch

def run(order):
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT), number)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 0)) or torch.get_num_threads())
    sys.argv = ["-c", *order["arguments"]]
    code = 0
    try:
        exec(compile(order["code"], "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1 if left.code else 0
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@functools.cache
def _server() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter, as ``python -c`` does."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with TemporaryDirectory() as folder:
        out, err = (str(Path(folder) / name) for name in ("out", "err"))
        order: dict[str, Any] = {"code": code, "arguments": arguments, "folder": os.getcwd(), "out": out, "err": err}
        server.stdin.write(json.dumps(order | {"environment": dict(os.environ) | environment}) + "\n")
        server.stdin.flush()
        exit_code = int(server.stdout.readline())
        return subprocess.CompletedProcess(arguments, exit_code, Path(out).read_text(), Path(err).read_text())


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run ``adaptivek`` with these in a fresh interpreter, with one thread: other sums come out in other digits."""
    return python("from adaptivek.cli import main; main()", *map(str, arguments), COLUMNS="200", OMP_NUM_THREADS="1")
