"""Does the jobs of benchmarks/real.py that are not done yet, in one process or in several side by side."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as processes
from measurements import read_lines
from real_settings import Job, version
from real_train import train

Line = dict[str, Any]


def run_all(
    wanted: Sequence[Job],
    folder: Path,
    out: Path,
    workers: int = 1,
    limit_s: float = float("inf"),
    options: Line | None = None,
) -> int:
    """Append a line to ``out`` for each job that has none, until time is over; 1 if any of them failed."""
    began, options = time.monotonic(), options or {}
    done = {(Job.from_dict(line), line["version"]) for line in read_lines(out)}
    left = [job for job in dict.fromkeys(wanted) if (job, version(job.method)) not in done]
    print(f"{len(left)} of {len(wanted)} runs to do", flush=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    run = _inline if workers <= 1 else _side_by_side
    failed = number = 0
    with out.open("a") as file:
        for line in run(left, folder, workers, began + limit_s, options):
            number += 1
            if "error" in line:
                failed += 1
            else:
                file.write(json.dumps(line) + "\n")
                file.flush()
            print(f"{number}/{len(left)}", _shown(line), flush=True)
    print(f"{number - failed} done, {failed} failed, {len(left) - number} left: {time.monotonic() - began:.0f} s")
    return int(failed > 0)


def _shown(line: Line) -> str:
    about = f"{line['network']} {line['data']} {line['noise']} {line['rate']:g} x{line['epochs']} {line['method']}"
    about += f" seed {line['seed']}:"
    if "error" in line:
        return f"{about} {line['error']}"
    found = " ".join(f"{line[key][-1]:.2f}" for key in ("accuracy", "averaged_accuracy", "balanced"))
    return f"{about} {found} noise {line['noise_ratio']} of {line['true_noise_ratio']}, {line['seconds']} s"


def _try(job: Job, folder: Path, options: Line) -> Line:
    try:
        return train(job, folder, **options)
    except Exception as error:  # one method that fails must not cost the others their time
        return {**job.as_dict(), "error": f"{type(error).__name__}: {error}"}


def _inline(left: Sequence[Job], folder: Path, workers: int, until: float, options: Line) -> Iterator[Line]:
    for job in left:
        if time.monotonic() >= until:
            return
        yield _try(job, folder, options)


def _side_by_side(left: Sequence[Job], folder: Path, workers: int, until: float, options: Line) -> Iterator[Line]:
    context = processes.get_context("spawn")  # CUDA does not survive a fork
    asked, answered = context.Queue(), context.Queue()
    for job in [*left, *[None] * workers]:
        asked.put(job)
    started = [
        context.Process(target=_work, args=(asked, answered, folder, options), daemon=True) for _ in range(workers)
    ]
    for process in started:
        process.start()
    number = 0
    while number < len(left) and time.monotonic() < until:
        alive = any(process.is_alive() for process in started)
        try:
            line = answered.get(timeout=1)
        except queue.Empty:
            if not alive:
                break
            continue
        number += 1
        yield line
    for process in started:
        process.kill()  # what is not done by now is done the next time


def _work(asked: Any, answered: Any, folder: Path, options: Line) -> None:
    torch.set_num_threads(1)
    while (job := asked.get()) is not None:
        answered.put(_try(job, folder, options))
