"""A fitted network: it predicts, and is saved with all that is needed to load it again. Nothing is unpickled."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from .. import __version__
from ..auditing.networks import NETWORKS
from ..auditing.result import AuditResult
from ..auditing.sources import load
from ..auditing.training import Plan
from ..support.device import find_device
from ..support.files import whole, write_whole
from .gain import Gain
from .inputs import NewRows, Settings, encode
from .training import predict

SETTINGS, WEIGHTS, AUDIT = "fit.json", "model.safetensors", "audit"
FORMAT = 1  #: of the files; one that is newer is refused


@dataclass(frozen=True, eq=False)
class Fitted:
    """What `fit` gives back."""

    model: nn.Module  #: trained on all rows, in eval()
    classes: list[str]
    plan: Plan
    device: torch.device
    inputs: Settings | None  #: how new rows are encoded; None: they come as the network takes them
    network: tuple[str, int] | None  #: kind and size of the inputs of a network of ours; None: the user's own
    audit: AuditResult | None = None  #: of the training rows; None after loading, its files are in the folder
    gain: Gain | None = None  #: over plain training, if it was measured

    def predict_proba(self, data: Any) -> NDArray[np.float32]:
        """(rows, classes) probabilities in the order of ``classes``; NaN for rows that cannot be read."""
        new = self.read(data)
        found = np.full((len(new.row) + len(new.skipped), len(self.classes)), np.nan, np.float32)
        rows = np.arange(len(new.row))
        if len(rows):
            p = predict(self.model, lambda part: new.x[torch.from_numpy(part)], rows, self.plan, self.device)
            found[new.row] = p.numpy()
        return found

    def predict(self, data: Any) -> list[str | None]:
        """The most probable class of each row; None for rows that cannot be read."""
        return [None if np.isnan(p[0]) else self.classes[int(p.argmax())] for p in self.predict_proba(data)]

    def read(self, data: Any) -> NewRows:
        """New rows as inputs: data of the kind that was fitted to, with or without labels."""
        if self.inputs is not None:
            return encode(self.inputs, data)
        if isinstance(data, torch.Tensor):
            return NewRows(data, np.arange(len(data)), [])
        loaded = load(data, np.arange(len(data)) % 2, None)  # labels are of no concern
        return NewRows(loaded.fetch(np.arange(len(loaded.row))), loaded.row, loaded.skipped)

    def save(self, folder: str | Path) -> None:
        """Write weights, settings, and the audit with its page."""
        try:
            from safetensors.torch import save_file
        except ImportError:
            raise ImportError("saving a network needs safetensors: pip install 'adaptivek[cli]'") from None
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if self.audit is not None:
            self.audit.save(folder / AUDIT)
        with whole(folder / WEIGHTS) as partial:
            weights = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
            save_file({name: value.clone() for name, value in weights.items()}, partial)
        settings = {
            "format": FORMAT,
            "version": __version__,
            "classes": self.classes,
            "plan": self.plan.as_dict(),
            "inputs": self.inputs,
            "network": self.network,
            "gain": None if self.gain is None else self.gain.as_dict(),
        }
        write_whole(folder / SETTINGS, json.dumps(settings, indent=1, ensure_ascii=False) + "\n")


def load_fitted(folder: str | Path, model: nn.Module | None = None, device: str = "auto") -> Fitted:
    """What `Fitted.save` has written. A network of your own is to be given again; its weights are then loaded."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path, where = Path(folder), find_device(device)
    if not (path / SETTINGS).is_file():
        raise FileNotFoundError(f"load_fitted: {folder} must be a folder that `fit` has written; {SETTINGS} not found")
    try:
        settings = json.loads((path / SETTINGS).read_text(encoding="utf-8"))
        if settings["format"] > FORMAT:
            raise ValueError(f"it is of format {settings['format']}, made by adaptivek {settings['version']}")
        classes, own = list(settings["classes"]), settings["network"]
        schedule = settings["plan"]["schedule"]
        plan = Plan(**settings["plan"] | {"schedule": schedule if schedule in ("linear", "constant") else "cosine"})
        gain = None if settings["gain"] is None else Gain(**settings["gain"])
        if model is None and own is None:
            raise ValueError("model must be given: it was fitted with a network of the user's")
        network = NETWORKS[own[0]](own[1], len(classes)) if model is None else model
        network.load_state_dict(load_file(path / WEIGHTS))
    except (ValueError, KeyError, TypeError, OSError, RuntimeError, SafetensorError) as error:
        raise ValueError(f"load_fitted: {folder} cannot be loaded: {str(error).partition(chr(10))[0]}") from None
    kind = None if own is None else (str(own[0]), int(own[1]))
    return Fitted(network.to(where).eval(), classes, plan, where, settings["inputs"], kind, None, gain)
