"""Decides by bounds on scores and values whether exp(scores) can be summed without subtracting a maximum."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import truth


def by_amplitudes(query: Tensor, keys: Sequence[Tensor]) -> Tensor:
    """For each head, the largest sum_l |q_l| prod_m max_j |k_m,jl|, which no |score| / |scale| exceeds.

    The products are taken by logarithms, so that a huge factor and a tiny one do not overflow or vanish on the way.
    """
    amplitudes = torch.stack([key.abs().amax(-2, keepdim=True) for key in keys]).to(torch.float64).log2().sum(0)
    return (query.abs().to(torch.float64) * amplitudes.exp2()).sum(-1).amax(-1)


def by_hoelder(query: Tensor, keys: Sequence[Tensor]) -> Tensor:
    """For each head, the largest ||q||_k prod_m max_j ||k_m,j||_k, which no |score| / |scale| exceeds."""
    order = len(keys) + 1
    return torch.stack([_largest_norm(x, order).log2() for x in (query, *keys)]).sum(0).exp2()


def _largest_norm(x: Tensor, k: int) -> Tensor:
    """The largest l_k norm of the rows, in float64.

    The entries are divided by the largest one, whose powers could leave the range of the type. Powers are computed by
    products, because PyTorch's own are many times slower for exponents other than 1 and 2.
    """
    largest = x.abs().amax((-2, -1), keepdim=True)
    x = x.abs() / largest.masked_fill(largest == 0, 1.0)
    power = x
    for _ in range(k - 1):
        power = power * x
    return power.sum(-1).amax(-1).to(torch.float64) ** (1 / k) * largest[..., 0, 0].to(torch.float64)


def needs_no_shift(query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor], scale: float) -> bool:
    """Whether exp(scores), their sums and their products with the values stay well inside the type's range everywhere.

    Terms that underflow must be small against the largest product of values of one column, the *same* in every set.
    """
    largest = torch.stack([value.abs().amax(-2) for value in values]).to(torch.float64).log().sum(0).amax(-1)
    largest = largest.masked_fill(largest == -math.inf, 0.0)
    tuples = sum(math.log(value.shape[-2]) for value in values)
    room = 0.9 * math.log(torch.finfo(query.dtype).max) - tuples - largest.abs()
    near = abs(scale) * by_amplitudes(query, keys) < room
    # Hoelder's bound takes several times as long, and is seldom needed.
    return truth(near.all()) or truth((near | (abs(scale) * by_hoelder(query, keys) < room)).all())
