"""Training good models on badly labelled data: Adaptive-k and the methods around it."""

from .accumulation import Accumulation as Accumulation
from .accumulation import rerun as rerun
from .auditing.audit import audit as audit
from .auditing.result import AuditResult as AuditResult
from .averaging import Average as Average
from .methods import BARE as BARE
from .methods import DLT as DLT
from .methods import ELR as ELR
from .methods import GCE as GCE
from .methods import ITLM as ITLM
from .methods import METHODS as METHODS
from .methods import MKL as MKL
from .methods import MOIT as MOIT
from .methods import RT as RT
from .methods import SCE as SCE
from .methods import SELC as SELC
from .methods import SOP as SOP
from .methods import AdaptiveK as AdaptiveK
from .methods import AugDesc as AugDesc
from .methods import BetaMixture as BetaMixture
from .methods import Bootstrapping as Bootstrapping
from .methods import CoTeaching as CoTeaching
from .methods import Curriculum as Curriculum
from .methods import CyclicalCurriculum as CyclicalCurriculum
from .methods import EGReweighting as EGReweighting
from .methods import JoCoR as JoCoR
from .methods import LabelMemory as LabelMemory
from .methods import LabelNoisedTrim as LabelNoisedTrim
from .methods import LabelSmoothing as LabelSmoothing
from .methods import MedianTGD as MedianTGD
from .methods import Oracle as Oracle
from .methods import TruncatedGCE as TruncatedGCE
from .methods import Vanilla as Vanilla
from .methods import VanillaMKL as VanillaMKL
from .objective import Memory as Memory
from .objective import Outcome as Outcome
from .objective import objective as objective
from .objective import start as start
from .peers import Peers as Peers
from .rows import indexed as indexed
from .selection import Selection as Selection
from .types import Seen as Seen
from .types import Selector as Selector
from .types import Task as Task

__version__ = "0.1.0"
