"""The methods by name: the only registry."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..method import Method
from .adaptive_k import AdaptiveK as AdaptiveK
from .augdesc import AugDesc as AugDesc
from .bare import BARE as BARE
from .beta_mixture import BetaMixture as BetaMixture
from .bootstrapping import Bootstrapping as Bootstrapping
from .co_teaching import CoTeaching as CoTeaching
from .curriculum import Curriculum as Curriculum
from .cyclical_curriculum import CyclicalCurriculum as CyclicalCurriculum
from .dlt import DLT as DLT
from .eg_reweighting import EGReweighting as EGReweighting
from .elr import ELR as ELR
from .gce import GCE as GCE
from .itlm import ITLM as ITLM
from .jocor import JoCoR as JoCoR
from .label_memory import LabelMemory as LabelMemory
from .label_noised_trim import LabelNoisedTrim as LabelNoisedTrim
from .label_smoothing import LabelSmoothing as LabelSmoothing
from .median_tgd import MedianTGD as MedianTGD
from .mkl import MKL as MKL
from .moit import MOIT as MOIT
from .oracle import Oracle as Oracle
from .rt import RT as RT
from .sce import SCE as SCE
from .selc import SELC as SELC
from .sop import SOP as SOP
from .truncated_gce import TruncatedGCE as TruncatedGCE
from .vanilla import Vanilla as Vanilla
from .vanilla_mkl import VanillaMKL as VanillaMKL

METHODS: dict[str, type[Method[Any]]] = {
    "oracle": Oracle,
    "vanilla": Vanilla,
    "mkl": MKL,
    "vanilla+mkl": VanillaMKL,
    "adaptive-k": AdaptiveK,
    "augdesc": AugDesc,
    "bare": BARE,
    "beta-mixture": BetaMixture,
    "bootstrapping": Bootstrapping,
    "co-teaching": CoTeaching,
    "curriculum": Curriculum,
    "cyclical-curriculum": CyclicalCurriculum,
    "dlt": DLT,
    "eg-reweighting": EGReweighting,
    "elr": ELR,
    "gce": GCE,
    "itlm": ITLM,
    "jocor": JoCoR,
    "label-memory": LabelMemory,
    "label-noised-trim": LabelNoisedTrim,
    "label-smoothing": LabelSmoothing,
    "median-tgd": MedianTGD,
    "moit": MOIT,
    "rt": RT,
    "sce": SCE,
    "selc": SELC,
    "sop": SOP,
    "truncated-gce": TruncatedGCE,
}


def defaults(method: type[Method[Any]]) -> dict[str, Any]:
    """The parameters of a method and their defaults."""
    return {field.name: field.default for field in dataclasses.fields(method)}  # type: ignore[arg-type]


def needs(method: type[Method[Any]]) -> list[str]:
    """What a method must be given or costs beyond plain training, in a word each."""
    found = {
        "truth": method.privileged,
        "ratio": method.needs_ratio,
        "warm-up": method.wants_warmup,
        "logits": method.needs_logits,
        "rows": method.needs_rows or method.uses_rows,
        "epochs": method.needs_epochs,
        f"full pass for {method.full_pass}": bool(method.full_pass),
        f"{method.networks} networks": method.networks > 1,
        f"{method.views} views": method.views > 1,
    }
    return [need for need, wanted in found.items() if wanted]


def passes(method: type[Method[Any]]) -> tuple[int, int]:
    """Forward and backward passes of a step."""
    return method.networks * method.views, method.networks


def build(text: str, **preferred: Any) -> Method[Any]:
    """Make a method from text such as ``"mkl"`` or ``"adaptive-k:threshold=mean,beta1=0.8"``.

    ``preferred`` replaces the method's own defaults for parameters that the text leaves open; names
    that the method does not have are passed over, so that one call serves every method.
    """
    name, _, rest = text.partition(":")
    if name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {name!r}")
    known = defaults(METHODS[name])
    values = {key: value for key, value in preferred.items() if key in known}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if key not in known or not equals:
            takes = ", ".join(f"{k}={v}" for k, v in known.items()) or "no parameters"
            raise ValueError(f"{name}: {item!r} is not a parameter of this method, which takes {takes}")
        values[key] = _parse(name, key, value, type(known[key]))
    return METHODS[name](**values)


def _parse(name: str, key: str, value: str, kind: type) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{name}: {key} must be a {kind.__name__}, got {value!r}") from None
