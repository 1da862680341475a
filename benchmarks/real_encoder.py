"""The pre-trained text encoder, a BERT such as MiniLM, plain enough to be recorded as a CUDA graph."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

import torch.nn.functional as F
from torch import Tensor, nn

ModuleT = TypeVar("ModuleT", bound=nn.Module)
EPS = 1e-12  # of BERT's normalisation


class Encoder(nn.Module):
    """Mean of the last layer over all tokens, then one linear layer that is new.

    Args:
        weights: by the names of `transformers.BertModel`, in any precision.
        heads: of attention, which the weights do not tell.
        classes: outputs of the new layer.
        dropout: in training.
    """

    def __init__(self, weights: Mapping[str, Tensor], heads: int, classes: int, dropout: float = 0.1) -> None:
        super().__init__()
        words, places, kinds = (
            weights[f"embeddings.{name}_embeddings.weight"].float() for name in ("word", "position", "token_type")
        )
        self.words = nn.Embedding.from_pretrained(words, freeze=False)
        self.places = nn.Parameter(places + kinds[0])  # a text alone is of the first kind
        self.norm, self.dropout = _norm(weights, "embeddings.LayerNorm"), nn.Dropout(dropout)
        number = 1 + max(int(found[1]) for name in weights if (found := re.match(r"encoder\.layer\.(\d+)\.", name)))
        self.layers = nn.ModuleList(_Layer(weights, f"encoder.layer.{i}.", heads, dropout) for i in range(number))
        self.head = nn.Linear(words.shape[1], classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits, (rows, classes), of token numbers, (rows, length); 0 is padding."""
        there = tokens > 0
        x = self.dropout(self.norm(self.words(tokens) + self.places[: tokens.shape[1]]))
        for layer in self.layers:
            x = layer(x, there[:, None, None, :])
        share = there.unsqueeze(-1).to(x.dtype)
        mean = (x * share).sum(1) / share.sum(1)
        out: Tensor = self.head(self.dropout(mean))
        return out


class _Layer(nn.Module):
    """Attention and a perceptron, each added to its input and normalised."""

    def __init__(self, weights: Mapping[str, Tensor], name: str, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        inner = [f"{name}attention.self.{part}" for part in ("query", "key", "value")]
        self.query, self.key, self.value = (_linear(weights, part) for part in inner)
        self.out = _linear(weights, f"{name}attention.output.dense")
        self.norm = _norm(weights, f"{name}attention.output.LayerNorm")
        self.wide, self.narrow = _linear(weights, f"{name}intermediate.dense"), _linear(weights, f"{name}output.dense")
        self.last_norm = _norm(weights, f"{name}output.LayerNorm")

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        query, key, value = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        dropout = self.dropout.p if self.training else 0.0
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=there, dropout_p=dropout)
        x = self.norm(x + self.dropout(self.out(seen.transpose(1, 2).flatten(2))))
        out: Tensor = self.last_norm(x + self.dropout(self.narrow(F.gelu(self.wide(x)))))
        return out


def _linear(weights: Mapping[str, Tensor], name: str) -> nn.Linear:
    weight = weights[f"{name}.weight"]
    return _filled(nn.Linear(weight.shape[1], weight.shape[0], device="meta"), weights, name)


def _norm(weights: Mapping[str, Tensor], name: str) -> nn.LayerNorm:
    return _filled(nn.LayerNorm(len(weights[f"{name}.weight"]), EPS, device="meta"), weights, name)


def _filled(module: ModuleT, weights: Mapping[str, Tensor], name: str) -> ModuleT:
    """With weights of its own, and without drawing any first: the seed decides the new layer alone."""
    values = {part: weights[f"{name}.{part}"].float() for part in ("weight", "bias")}
    module.load_state_dict({part: value.clone() for part, value in values.items()}, assign=True)
    return module.requires_grad_(True)
