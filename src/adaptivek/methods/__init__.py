"""The methods by name: the only registry."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..types import Selector
from .adaptive_k import AdaptiveK as AdaptiveK
from .bare import BARE as BARE
from .bootstrapping import Bootstrapping as Bootstrapping
from .elr import ELR as ELR
from .gce import GCE as GCE
from .label_noised_trim import LabelNoisedTrim as LabelNoisedTrim
from .label_smoothing import LabelSmoothing as LabelSmoothing
from .mkl import MKL as MKL
from .oracle import Oracle as Oracle
from .sce import SCE as SCE
from .selc import SELC as SELC
from .vanilla import Vanilla as Vanilla
from .vanilla_mkl import VanillaMKL as VanillaMKL

METHODS: dict[str, type[Selector[Any]]] = {
    "oracle": Oracle,
    "vanilla": Vanilla,
    "mkl": MKL,
    "vanilla+mkl": VanillaMKL,
    "adaptive-k": AdaptiveK,
    "bare": BARE,
    "bootstrapping": Bootstrapping,
    "elr": ELR,
    "gce": GCE,
    "label-noised-trim": LabelNoisedTrim,
    "label-smoothing": LabelSmoothing,
    "sce": SCE,
    "selc": SELC,
}


def parameters(method: type[Selector[Any]]) -> dict[str, Any]:
    """The parameters of a method and their defaults."""
    return {field.name: field.default for field in dataclasses.fields(method)}  # type: ignore[arg-type]


def build(text: str, **preferred: Any) -> Selector[Any]:
    """Make a method from text such as ``"mkl"`` or ``"adaptive-k:threshold=mean,beta1=0.8"``.

    ``preferred`` replaces the method's own defaults for parameters that the text leaves open; names
    that the method does not have are passed over, so that one call serves every method.
    """
    name, _, rest = text.partition(":")
    if name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {name!r}")
    defaults = parameters(METHODS[name])
    values = {key: value for key, value in preferred.items() if key in defaults}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if key not in defaults or not equals:
            known = ", ".join(f"{k}={v}" for k, v in defaults.items()) or "no parameters"
            raise ValueError(f"{name}: {item!r} is not a parameter of this method, which takes {known}")
        values[key] = _parse(name, key, value, type(defaults[key]))
    return METHODS[name](**values)


def _parse(name: str, key: str, value: str, kind: type) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{name}: {key} must be a {kind.__name__}, got {value!r}") from None
