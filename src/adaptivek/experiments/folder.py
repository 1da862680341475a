"""One run in one folder: what was asked, a record per epoch, the weights. Stops and goes on.

- config.json: the specification
- made.json: the provenance: the method with all its parameters and its revision, versions, device and precision
- noise.json: which labels are noisy (see `noise.Manifest`)
- records.jsonl: one line per epoch
- checkpoint.pt: to go on from; gone when the run is done
- model.safetensors: the weights whose accuracy is reported; here when the run is done
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from ..support.files import whole, write_whole
from .data import Split
from .provenance import provenance_of
from .records import EpochRecord, read_lines
from .session import Session
from .spec import RunSpec


def run(
    spec: RunSpec,
    folder: str | Path,
    data: Split | None = None,
    device: str = "auto",
    root: str | Path | None = None,
    start: Tensor | None = None,
) -> Iterator[EpochRecord]:
    """Train ``spec`` in ``folder`` and give the record of each epoch, first those already there.

    Called again on the folder of a run that was stopped, it goes on; the result is the same as if it
    had never stopped. A folder that holds another run is refused. ``start`` is that of `Session`.
    """
    try:
        from safetensors.torch import save_file
    except ImportError:
        raise ImportError("writing a run needs safetensors: pip install 'adaptivek[cli]'") from None
    folder = Path(folder)
    _refuse_another_run(folder, spec)
    weights, checkpoint, records = (folder / n for n in ("model.safetensors", "checkpoint.pt", "records.jsonl"))
    if weights.exists():
        yield from read_lines(records)
        return
    session = Session(spec, data, device, root, start)  # raises what is wrong before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "config.json", json.dumps(spec.to_dict(), indent=2) + "\n")
    provenance = {"identity": spec.identity(), "method": spec.resolved()._asdict()}
    provenance |= dataclasses.asdict(provenance_of(spec.recipe, session.device, session.threads))
    write_whole(folder / "made.json", json.dumps(provenance, indent=2) + "\n")
    session.manifest.save(folder / "noise.json")
    if checkpoint.exists():
        session.load_state_dict(torch.load(checkpoint, weights_only=True, map_location="cpu"))
    # a record may have been written after the last checkpoint: that epoch is run again
    done = read_lines(records)[: session.epoch] if records.exists() else []
    write_whole(records, "".join(_line(record) for record in done))
    yield from done
    with records.open("a") as lines:
        for record in session:
            lines.write(_line(record))
            lines.flush()
            with whole(checkpoint) as partial:
                torch.save(session.state_dict(), partial)
            yield record
    with whole(weights) as partial:
        save_file({name: value.contiguous() for name, value in session.final_weights().items()}, partial)
    checkpoint.unlink(missing_ok=True)


def _refuse_another_run(folder: Path, spec: RunSpec) -> None:
    config = folder / "config.json"
    if config.exists():
        if _identity(folder / "made.json") != spec.identity():
            raise FileExistsError(
                f"{folder} holds another run (see {config}), or one of an earlier version or revision of the method: "
                "give another folder, or remove it"
            )
    elif folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty and holds no run: give another folder")


def _identity(provenance: Path) -> str:
    try:
        return str(json.loads(provenance.read_text())["identity"])
    except (OSError, ValueError, TypeError, KeyError):
        return ""  # no run of ours


def _line(record: EpochRecord) -> str:
    return json.dumps(record.to_json()) + "\n"
