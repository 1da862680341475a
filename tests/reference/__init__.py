"""Slow transcriptions of the methods in plain Python and NumPy, written from the papers, sharing no code with src.

Each is a class that is told how many rows and classes there are and the method's parameters, and then goes
through training: `start_epoch(epoch, losses)` where an epoch begins (of all rows, by NumPy; features or logits for a
method that wants these), and
`step(logits, labels, rows)` for each batch; what methods with several networks or views are given has an axis
for these in front, and so has what they give. A step gives two things: a function from logits to the loss of each
sample, in which all that is not differentiated is held fixed, and the weight of each sample.
"""

from __future__ import annotations

from .adaptive_k import AdaptiveK
from .agreement import Agreement
from .anl import ANL
from .augdesc import AugDesc
from .bare import BARE
from .beta_mixture import BetaMixture
from .bootstrapping import Bootstrapping
from .co_teaching import CoTeaching
from .cores import CORES
from .curriculum import Curriculum
from .cyclical_curriculum import CyclicalCurriculum
from .dlt import DLT
from .eg_reweighting import EGReweighting
from .elr import ELR
from .forward import Forward
from .gce import GCE
from .itlm import ITLM
from .jocor import JoCoR
from .label_agreement import LabelAgreement
from .label_memory import LabelMemory
from .label_noised_trim import LabelNoisedTrim
from .label_posterior import LabelPosterior
from .label_smoothing import LabelSmoothing
from .lccn import LCCN
from .median_tgd import MedianTGD
from .mixup import Mixup
from .mkl import MKL
from .moit import MOIT
from .oracle import Oracle
from .pes import PES
from .plc import PLC
from .rt import RT
from .sat import SAT
from .sce import SCE
from .selc import SELC
from .sop import SOP
from .vanilla import Vanilla

#: method text -> reference, and its options
REFERENCES: dict[str, tuple[type, dict[str, object]]] = {
    "vanilla": (Vanilla, {}),
    "oracle": (Oracle, {}),
    "mkl": (MKL, {"keep": 0.6}),
    "mkl:keep=0.25": (MKL, {"keep": 0.25}),
    "vanilla+mkl": (MKL, {"keep": 0.6}),
    "adaptive-k": (AdaptiveK, {}),
    "adaptive-k:beta1=0.5,beta2=0.9": (AdaptiveK, {"beta1": 0.5, "beta2": 0.9}),
    "adaptive-k:threshold=mean": (AdaptiveK, {"threshold": "mean"}),
    "agreement": (Agreement, {}),
    "anl": (ANL, {}),
    "anl:alpha=10.0,beta=1.0": (ANL, {"alpha": 10.0, "beta": 1.0}),
    "bare": (BARE, {}),
    "bootstrapping": (Bootstrapping, {}),
    "bootstrapping:kind=soft,beta=0.95": (Bootstrapping, {"kind": "soft", "beta": 0.95}),
    "elr": (ELR, {}),
    "forward": (Forward, {}),
    "forward:percentile=60": (Forward, {"percentile": 60}),
    "forward:percentile=100": (Forward, {"percentile": 100}),
    "gce": (GCE, {}),
    "gce:truncate=0.3": (GCE, {"truncate": 0.3}),
    "label-memory:beta=0.2": (LabelMemory, {"beta": 0.2}),
    "label-memory:beta=0.2,caution=0.8": (LabelMemory, {"beta": 0.2, "caution": 0.8}),
    "label-memory": (LabelMemory, {}),
    "label-posterior": (LabelPosterior, {}),
    "label-posterior:beta=0.8,worth=2.0,strength=0.5": (LabelPosterior, {"beta": 0.8, "worth": 2.0, "strength": 0.5}),
    "label-noised-trim": (LabelNoisedTrim, {}),
    "label-noised-trim:flip=0.5,largest=0.3,smallest=0.0": (
        LabelNoisedTrim,
        {"flip": 0.5, "largest": 0.3, "smallest": 0.0},
    ),
    "label-smoothing": (LabelSmoothing, {}),
    "sat": (SAT, {}),
    "sat:alpha=0.5": (SAT, {"alpha": 0.5}),
    "sce": (SCE, {}),
    "selc": (SELC, {}),
    # after those that act at once, one of which frameworks are tried with
    "label-agreement": (LabelAgreement, {}),
    "label-agreement:limit=0.2": (LabelAgreement, {"limit": 0.2}),
    "beta-mixture": (BetaMixture, {}),
    "beta-mixture:rounds=3": (BetaMixture, {"rounds": 3}),
    "cores:beta=1.5,plain=0,ramp=3,sieve=1": (CORES, {"beta": 1.5, "plain": 0, "ramp": 3, "sieve": 1}),
    "cores": (CORES, {}),
    "curriculum": (Curriculum, {}),
    "curriculum:start=0.2,end=0.7,ramp=2": (Curriculum, {"start": 0.2, "end": 0.7, "ramp": 2}),
    "cyclical-curriculum": (CyclicalCurriculum, {}),
    "cyclical-curriculum:start=0.3,end=0.9,factor=0.6": (
        CyclicalCurriculum,
        {"start": 0.3, "end": 0.9, "factor": 0.6},
    ),
    "dlt:plain=1": (DLT, {"plain": 1}),
    "dlt:plain=2": (DLT, {"plain": 2}),
    "dlt": (DLT, {}),
    "eg-reweighting": (EGReweighting, {}),
    "eg-reweighting:rate=0.5,decay=0.7": (EGReweighting, {"rate": 0.5, "decay": 0.7}),
    "itlm": (ITLM, {}),
    "itlm:keep=0.45,every=2": (ITLM, {"keep": 0.45, "every": 2}),
    "median-tgd": (MedianTGD, {}),
    "median-tgd:factor=1": (MedianTGD, {"factor": 1}),
    "pes:plain=1,later=1,head=0": (PES, {"plain": 1, "later": 1, "head": 0}),
    "pes": (PES, {}),
    "plc:plain=1": (PLC, {"plain": 1}),
    "plc:plain=2,window=1,threshold=0.8,increment=0.5": (
        PLC,
        {"plain": 2, "window": 1, "threshold": 0.8, "increment": 0.5},
    ),
    "plc": (PLC, {}),
    "lccn": (LCCN, {}),
    "lccn:prior=20.0": (LCCN, {"prior": 20.0}),
    "rt": (RT, {}),
    "rt:keep=0.3,ramp=3,curve=exp,power=2": (RT, {"keep": 0.3, "ramp": 3, "curve": "exp", "power": 2}),
    "rt:ramp=3,curve=log,power=4,late=0.3": (RT, {"ramp": 3, "curve": "log", "power": 4, "late": 0.3}),
    "rt:ramp=4,power=2": (RT, {"ramp": 4, "power": 2}),
    "augdesc": (AugDesc, {}),
    "co-teaching": (CoTeaching, {}),
    "co-teaching:keep=0.3,ramp=2": (CoTeaching, {"keep": 0.3, "ramp": 2}),
    "jocor": (JoCoR, {}),
    "jocor:keep=0.5,ramp=3,agreement=0.9": (JoCoR, {"keep": 0.5, "ramp": 3, "agreement": 0.9}),
    "mixup": (Mixup, {}),
    "moit:neighbours=10,plain=1": (MOIT, {"neighbours": 10, "plain": 1}),
    "moit": (MOIT, {}),
    "sop:rate_u=2.0,rate_v=3.0": (SOP, {"rate_u": 2.0, "rate_v": 3.0}),
    "sop": (SOP, {}),
    "truncated-gce": (GCE, {"truncate": 0.5}),
}

#: one text for each method, the first, for tests that take long: what does something within a few steps
ONE_EACH = list({text.partition(":")[0]: text for text in reversed(REFERENCES)}.values())[::-1]
