"""Training good models on badly labelled data: Adaptive-k and the methods around it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .criterion import Selection as Selection
from .method import Batch as Batch
from .method import Decision as Decision
from .method import EarlyNoise as EarlyNoise
from .method import Method as Method
from .method import Task as Task
from .methods import ANL as ANL
from .methods import BARE as BARE
from .methods import CORES as CORES
from .methods import DLT as DLT
from .methods import ELR as ELR
from .methods import GCE as GCE
from .methods import ITLM as ITLM
from .methods import LCCN as LCCN
from .methods import METHODS as METHODS
from .methods import MKL as MKL
from .methods import MOIT as MOIT
from .methods import PES as PES
from .methods import PLC as PLC
from .methods import RT as RT
from .methods import SAT as SAT
from .methods import SCE as SCE
from .methods import SELC as SELC
from .methods import SOP as SOP
from .methods import AdaptiveK as AdaptiveK
from .methods import Agreement as Agreement
from .methods import AugDesc as AugDesc
from .methods import BetaMixture as BetaMixture
from .methods import Bootstrapping as Bootstrapping
from .methods import CoTeaching as CoTeaching
from .methods import Curriculum as Curriculum
from .methods import CyclicalCurriculum as CyclicalCurriculum
from .methods import EGReweighting as EGReweighting
from .methods import Forward as Forward
from .methods import JoCoR as JoCoR
from .methods import LabelAgreement as LabelAgreement
from .methods import LabelMemory as LabelMemory
from .methods import LabelNoisedTrim as LabelNoisedTrim
from .methods import LabelPosterior as LabelPosterior
from .methods import LabelSmoothing as LabelSmoothing
from .methods import MedianTGD as MedianTGD
from .methods import Mixup as Mixup
from .methods import Oracle as Oracle
from .methods import TruncatedGCE as TruncatedGCE
from .methods import Vanilla as Vanilla
from .methods import VanillaMKL as VanillaMKL
from .methods import register as register
from .step import Inputs as Inputs
from .step import Memory as Memory
from .step import Outcome as Outcome
from .step import remember as remember
from .step import start as start
from .step import train_step as train_step
from .training.accumulation import Accumulation as Accumulation
from .training.accumulation import rerun as rerun
from .training.ema import EMA as EMA
from .training.history import History as History
from .training.indexed import indexed as indexed
from .training.mixup import mixup as mixup
from .training.monitor import ClassMonitor as ClassMonitor
from .training.networks import Networks as Networks
from .training.views import StrongViews as StrongViews

if TYPE_CHECKING:
    from .auditing.audit import audit as audit
    from .auditing.result import AuditResult as AuditResult
    from .auditing.targets import load_audit as load_audit
    from .stages.fit import fit as fit
    from .stages.fitted import Fitted as Fitted
    from .stages.fitted import load_fitted as load_fitted

__version__ = "0.2.0"

#: loaded when they are first used: most training loops need none of them
_LATER = {
    "audit": ".auditing.audit",
    "AuditResult": ".auditing.result",
    "load_audit": ".auditing.targets",
    "fit": ".stages.fit",
    "Fitted": ".stages.fitted",
    "load_fitted": ".stages.fitted",
}
_LATER_MODULES = ("experiments", "integrations", "noise", "plots", "testing", "theory")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name], __name__), name)
    if name in _LATER_MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
