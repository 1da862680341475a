"""Texts to the inputs of a network: numbers of words, or embeddings by a pre-trained sentence encoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..support.text import tokenise
from .data import AuditData
from .networks import standardised, taken_from

AT_ONCE = 1_024  #: texts that are encoded before the next are told of
OLDEST = 6  #: sentence-transformers before it runs code that it finds in a local folder


def tokenised(data: AuditData) -> AuditData:
    """The same with the inputs of a network, which models of words do without."""
    if data.kind != "text" or data.inputs:
        return data
    x, _, vocabulary = tokenise(data.content, [])
    return replace(data, fetch=taken_from(x), inputs=vocabulary)


def embed_texts(
    data: AuditData, name: str | Path, device: str, progress: Callable[[int, int], None] | None = None
) -> AuditData:
    """The same rows, with embeddings of their texts for inputs; ``progress`` is told how many of how many are done."""
    if data.kind != "text":
        raise ValueError(f"audit: encoder must be left out where the data are not texts, got {name} for {data.kind}")
    encoder, texts = load_encoder(name, device), data.content if data.beside is None else data.beside[0]
    parts = []
    for start in range(0, len(texts), AT_ONCE):
        parts.append(encoder.encode(texts[start : start + AT_ONCE], show_progress_bar=False))
        if progress is not None:
            progress(min(start + AT_ONCE, len(texts)), len(texts))
    x = torch.from_numpy(np.concatenate(parts)).float()
    if not bool(x.isfinite().all()):
        raise ValueError(f"audit: encoder must give finite numbers, got NaN or infinite ones from {name}")
    x = standardised(x) if data.beside is None else torch.cat([standardised(x), data.beside[1]], 1)
    about = data.about | {"encoder": str(name)}
    return replace(data, fetch=taken_from(x), inputs=x.shape[1], about=about)


def load_encoder(name: str | Path, device: str) -> Any:
    """From a folder, or from the Hub. No code that comes with it is run, and its network is never unpickled."""
    try:
        import sentence_transformers
    except ImportError:
        raise ImportError("a sentence encoder needs sentence-transformers: pip install 'adaptivek[encoder]'") from None
    version = sentence_transformers.__version__
    if int(version.partition(".")[0]) < OLDEST:
        raise ImportError(
            f"a sentence encoder needs sentence-transformers {OLDEST} or later, got {version}: "
            "pip install 'adaptivek[encoder]'"
        )
    try:
        if not str(name):
            raise ValueError("the name is empty")
        return sentence_transformers.SentenceTransformer(
            str(name),
            device=device,
            trust_remote_code=False,
            local_files_only=Path(name).is_dir(),  # a folder has all that is needed: the Hub is not asked
            model_kwargs={"use_safetensors": True},
        )
    except Exception as error:  # no network, no such name, no model in the folder: many kinds
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"audit: encoder must be the folder of a sentence encoder with safetensors, or its name on the Hub; "
            f"{name} cannot be loaded: {reason}"
        ) from None
