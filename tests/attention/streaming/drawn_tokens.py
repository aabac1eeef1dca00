"""Random tokens for the tests of streams, and masks of visible tokens."""

from __future__ import annotations

import torch


def uniform(seed, *shape, dtype=torch.float64, bound=1.0):
    generator = torch.Generator().manual_seed(seed)
    return bound * (2 * torch.rand(*shape, dtype=dtype, generator=generator) - 1)


def tokens(seed, order, n, d, d_v, batch=(), dtype=torch.float64, bound=1.0):
    query = uniform(seed, *batch, n, d, dtype=dtype, bound=bound)
    keys = [uniform(seed + m, *batch, n, d, dtype=dtype, bound=bound) for m in range(1, order)]
    values = [uniform(seed + 50 + m, *batch, n, d_v, dtype=dtype) for m in range(1, order)]
    return query, keys, values


def part(sets, *where):
    return [x[..., slice(*where), :] for x in sets]


SEEN = torch.tensor([[[True, False, True, True, False, True]], [[False, False, False, True, True, True]]])
"""The mask of six tokens for each of two sequences, the same for all heads."""
