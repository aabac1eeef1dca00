"""Tensors for tests, drawn with a seed."""

from __future__ import annotations

import torch
from torch import Tensor


def seeded(seed: int = 0) -> torch.Generator:
    """A generator with this seed."""
    return torch.Generator().manual_seed(seed)


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal numbers, drawn in float64 and rounded to the dtype."""
    return torch.randn(*shape, dtype=torch.float64, generator=seeded(seed)).to(dtype)
