"""Attention by its definition, in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from separatrix.separation.datasets import AttentionInput


def attention_by_definition(data: AttentionInput, weights: Tensor, network: str) -> tuple[Tensor, Tensor, Tensor]:
    """The vectors u, f, c of Definitions C.1 and C.4."""
    scores = data.A1 @ weights @ data.A2.mT
    u = torch.exp(scores) if network == "exp" else scores
    f = u / u.sum(1, keepdim=True)
    return u, f, f @ data.A3
