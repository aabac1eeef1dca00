"""A small language model of our layers, for tests of other software with a whole model."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from separatrix.nn import TensorAttention

TOKENS = 11
KINDS = {
    "order 2": {"order": 2},
    "order 3": {},
    "windows": {"windows": 3},
    "windows, sinks": {"windows": 3, "sinks": 3},
    "rotary, grouped": {"rotary": 100.0, "num_kv_heads": 1},
    "bounded": {"bound": 1.0},
    "near-linear": {"bound": 1.0, "tolerance": 1e-3, "method": "polynomial"},
    "pairwise, ALiBi": {"form": "pairwise", "alibi": True},
    "determinant": {"order": 2, "form": "determinant"},
    "normalised": {"qk_norm": True, "head_norm": True, "learned_scale": True},
    "lookahead": {"windows": 3, "lookahead": 2},
    "prefix": {"windows": [None, 3], "sinks": 1},
    "distinct": {"distinct": True},
    "mixed orders": {"order": [2, 3], "rotary": 100.0},
    "key bias": {"key_bias": 2},
    "near-linear pairwise": {"form": "pairwise", "bound": 1.0, "tolerance": 1e-2, "key_bias": 1},
}
"""The options of the layers."""
CALLS = {"lookahead": {}, "prefix": {"is_causal": True, "prefix": 3}}
"""The options of their calls, which are causal if they are not here."""


class Block(nn.Module):
    def __init__(self, kind: str, generator: torch.Generator) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.attention = TensorAttention(8, 2, generator=generator, **KINDS[kind])
        self.options = CALLS.get(kind, {"is_causal": True})

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        return x + self.attention(self.norm(x), key_padding_mask=padding, **self.options)


class LanguageModel(nn.Module):
    """Token logits (batch, length, TOKENS) from tokens and, if given, a mask that is True for padding."""

    def __init__(self, kind: str, blocks: int = 2) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.embedding = nn.Embedding.from_pretrained(torch.randn(TOKENS, 8, generator=generator), freeze=False)
        self.blocks = nn.ModuleList(Block(kind, generator) for _ in range(blocks))

    def forward(self, tokens: Tensor, padding: Tensor | None = None) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, padding)
        return x @ self.embedding.weight.T


def batch(size: int, length: int) -> tuple[Tensor, Tensor]:
    """Tokens, and a mask of padding that hides a few of them."""
    generator = torch.Generator().manual_seed(100 * size + length)
    tokens = torch.randint(TOKENS, (size, length), generator=generator)
    return tokens, torch.rand(size, length, generator=generator) < 0.2
