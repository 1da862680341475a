"""The methods by name: the only registry, for methods from outside too."""

from __future__ import annotations

import dataclasses
import re
from importlib.metadata import entry_points
from typing import Any, TypeVar

from ..method import Method
from .adaptive_k import AdaptiveK as AdaptiveK
from .agreement import Agreement as Agreement
from .anl import ANL as ANL
from .augdesc import AugDesc as AugDesc
from .bare import BARE as BARE
from .beta_mixture import BetaMixture as BetaMixture
from .bootstrapping import Bootstrapping as Bootstrapping
from .co_teaching import CoTeaching as CoTeaching
from .cores import CORES as CORES
from .curriculum import Curriculum as Curriculum
from .cyclical_curriculum import CyclicalCurriculum as CyclicalCurriculum
from .dlt import DLT as DLT
from .eg_reweighting import EGReweighting as EGReweighting
from .elr import ELR as ELR
from .forward import Forward as Forward
from .gce import GCE as GCE
from .itlm import ITLM as ITLM
from .jocor import JoCoR as JoCoR
from .label_agreement import LabelAgreement as LabelAgreement
from .label_memory import LabelMemory as LabelMemory
from .label_noised_trim import LabelNoisedTrim as LabelNoisedTrim
from .label_posterior import LabelPosterior as LabelPosterior
from .label_smoothing import LabelSmoothing as LabelSmoothing
from .lccn import LCCN as LCCN
from .median_tgd import MedianTGD as MedianTGD
from .mixup import Mixup as Mixup
from .mkl import MKL as MKL
from .moit import MOIT as MOIT
from .oracle import Oracle as Oracle
from .pes import PES as PES
from .plc import PLC as PLC
from .rt import RT as RT
from .sat import SAT as SAT
from .sce import SCE as SCE
from .selc import SELC as SELC
from .sop import SOP as SOP
from .truncated_gce import TruncatedGCE as TruncatedGCE
from .vanilla import Vanilla as Vanilla
from .vanilla_mkl import VanillaMKL as VanillaMKL

DEFAULT = "label-agreement"  #: of `Selection`

METHODS: dict[str, type[Method[Any]]] = {
    "oracle": Oracle,
    "vanilla": Vanilla,
    "mkl": MKL,
    "vanilla+mkl": VanillaMKL,
    "adaptive-k": AdaptiveK,
    "agreement": Agreement,
    "anl": ANL,
    "augdesc": AugDesc,
    "bare": BARE,
    "beta-mixture": BetaMixture,
    "bootstrapping": Bootstrapping,
    "co-teaching": CoTeaching,
    "cores": CORES,
    "curriculum": Curriculum,
    "cyclical-curriculum": CyclicalCurriculum,
    "dlt": DLT,
    "eg-reweighting": EGReweighting,
    "elr": ELR,
    "forward": Forward,
    "gce": GCE,
    "itlm": ITLM,
    "jocor": JoCoR,
    "label-agreement": LabelAgreement,
    "label-memory": LabelMemory,
    "label-noised-trim": LabelNoisedTrim,
    "label-posterior": LabelPosterior,
    "label-smoothing": LabelSmoothing,
    "lccn": LCCN,
    "median-tgd": MedianTGD,
    "mixup": Mixup,
    "moit": MOIT,
    "pes": PES,
    "plc": PLC,
    "rt": RT,
    "sat": SAT,
    "sce": SCE,
    "selc": SELC,
    "sop": SOP,
    "truncated-gce": TruncatedGCE,
}


MethodT = TypeVar("MethodT", bound=type[Method[Any]])
GROUP = "adaptivek.methods"  #: of entry points, by which installed packages bring methods


def register(method: MethodT) -> MethodT:
    """Make a method known by its name, in everything that takes one: `Selection`, the commands, the report.

    >>> @adaptivek.register
    ... @dataclass(frozen=True)
    ... class MyMethod(adaptivek.Method[State]): ...

    A package may name its methods as entry points of the group ``adaptivek.methods`` instead.
    """
    check_class(method)
    known = METHODS.get(method.name)
    if known is not None and (known.__module__, known.__qualname__) != (method.__module__, method.__qualname__):
        raise ValueError(f"register: name must be a new one, got {method.name!r}, which is {known.__qualname__}")
    METHODS[method.name] = method
    return method


def check_class(method: type[Method[Any]]) -> None:
    """Raise unless a class is a method that can be told by its name and parameters."""
    owner = getattr(method, "__qualname__", repr(method))
    if not (isinstance(method, type) and issubclass(method, Method)):
        raise TypeError(f"{owner}: a method must be a subclass of adaptivek.Method")
    for name in ("name", "summary", "paper"):
        if not isinstance(getattr(method, name, None), str):
            raise ValueError(f"{owner}: {name} must be a str, got {getattr(method, name, None)!r}")
    if not re.fullmatch(r"[a-z0-9][a-z0-9+-]*", method.name):
        raise ValueError(f"{owner}: name must be of small letters, digits, + and -, got {method.name!r}")
    if not dataclasses.is_dataclass(method) or not method.__dataclass_params__.frozen:
        raise ValueError(
            f"{owner}: must be a frozen dataclass: its fields are parameters, progress belongs to the state"
        )
    for field in dataclasses.fields(method):
        if not isinstance(field.default, (bool, int, float, str)):
            raise ValueError(f"{owner}: {field.name} must have a number or a str for a default, got {field.default!r}")
    for name in ("clean_share", "mixing"):
        parameter = getattr(method, name)
        if parameter and parameter not in defaults(method):
            raise ValueError(f"{owner}: {name} must name a parameter, got {parameter!r}")


def find(name: str) -> type[Method[Any]]:
    """The method of this name, be it that an installed package brings it."""
    if name not in METHODS:
        for found in entry_points(group=GROUP, name=name):
            register(found.load())
    if name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {name!r}")
    return METHODS[name]


def defaults(method: type[Method[Any]]) -> dict[str, Any]:
    """The parameters of a method and their defaults."""
    return {field.name: field.default for field in dataclasses.fields(method)}  # type: ignore[arg-type]


def needs(method: type[Method[Any]]) -> list[str]:
    """What a method must be given or costs beyond plain training, in a word each."""
    found = {
        "truth": method.privileged,
        "ratio": bool(method.clean_share),
        "warm-up": method.wants_warmup,
        "logits": method.needs_logits,
        "rows": method.needs_rows or method.uses_rows,
        "epochs": method.needs_epochs,
        f"full pass for {method.full_pass}": bool(method.full_pass),
        f"{method.networks} networks": method.networks > 1,
        f"{method.views} views": method.views > 1,
        "mixing": bool(method.mixing),
        "freezing": method.freezes,
    }
    return [need for need, wanted in found.items() if wanted]


def passes(method: type[Method[Any]]) -> tuple[int, int]:
    """Forward and backward passes of a step."""
    return method.networks * method.views, method.networks


def build(text: str, noise_ratio: float | None = None) -> Method[Any]:
    """Make a method from text such as ``"mkl"`` or ``"adaptive-k:threshold=mean,beta1=0.8"``.

    ``noise_ratio`` sets the parameter that the method declares for it, unless the text does.
    """
    name, _, rest = text.partition(":")
    method = find(name)
    known = defaults(method)
    values: dict[str, Any] = {}
    if noise_ratio is not None and method.clean_share:
        values[method.clean_share] = 1 - noise_ratio
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if key not in known or not equals:
            takes = ", ".join(f"{k}={v}" for k, v in known.items()) or "no parameters"
            raise ValueError(f"{name}: {item!r} is not a parameter of this method, which takes {takes}")
        values[key] = _parse(name, key, value, type(known[key]))
    return method(**values)


def default(started: bool) -> str:
    """What is used unless told; label memory makes the most of predictions that its memory begins with."""
    return "label-memory" if started else DEFAULT


def chosen(owner: str, method: Method[Any] | str | None, started: bool) -> Method[Any]:
    """The method that is given, by name or as it is, or the default."""
    method = default(started) if method is None else method
    if isinstance(method, str):
        method = build(method)
    if not isinstance(method, Method):
        raise TypeError(f"{owner}: method must be a method or the name of one, got {method!r}")
    return method


def told_noise_ratio(text: str) -> bool:
    """Whether `build` tells this method the noise ratio: it has a parameter for it, and the text leaves that open."""
    name, _, rest = text.partition(":")
    share = METHODS[name].clean_share if name in METHODS else ""
    return bool(share) and f"{share}=" not in rest


def _parse(name: str, key: str, value: str, kind: type) -> Any:
    try:
        return {"true": True, "false": False}[value.lower()] if kind is bool else kind(value)
    except (ValueError, KeyError):
        raise ValueError(f"{name}: {key} must be a {kind.__name__}, got {value!r}") from None
