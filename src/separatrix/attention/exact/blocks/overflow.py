"""When exp(scores) can be summed as it is, with no maximum subtracted: bounds on scores and values tell."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def score_bound(query: Tensor, keys: Sequence[Tensor], scale: float) -> float:
    """A bound R on every |score|, the smaller of the amplitudes' and Hoelder's; NaN or inf if the input has any.

    scale * sum_l |q_l| prod_m max_j |k_m,jl|, and scale * ||q||_k prod_m max_j ||k_m,j||_k.

    >>> score_bound(torch.tensor([[[1.0, -2.0]]]), [torch.tensor([[[3.0, 0.5], [-1.0, 1.0]]])], scale=0.5)
    2.5
    """
    found = torch.minimum(_by_amplitudes(query, keys), _by_hoelder(query, keys))
    return abs(scale) * float(found.max())


def _by_amplitudes(query: Tensor, keys: Sequence[Tensor]) -> Tensor:
    """(H,). By logarithms: what is huge in one factor and tiny in another must not vanish on the way."""
    amplitudes = torch.stack([key.abs().amax(-2, keepdim=True) for key in keys]).to(torch.float64).log2().sum(0)
    return (query.abs().to(torch.float64) * amplitudes.exp2()).sum(-1).amax(-1)


def _by_hoelder(query: Tensor, keys: Sequence[Tensor]) -> Tensor:
    order = len(keys) + 1
    return torch.stack([_largest_norm(x, order).log2() for x in (query, *keys)]).sum(0).exp2()


def _largest_norm(x: Tensor, k: int) -> Tensor:
    """The largest l_k norm of the rows, in float64, relative to the largest entry: its powers would leave the range.

    By products: powers of other than 1 and 2 take many times as long.
    """
    largest = x.abs().amax((-2, -1), keepdim=True)
    x = x.abs() / largest.masked_fill(largest == 0, 1.0)
    power = x
    for _ in range(k - 1):
        power = power * x
    return power.sum(-1).amax(-1).to(torch.float64) ** (1 / k) * largest[..., 0, 0].to(torch.float64)


def needs_no_shift(query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor], scale: float) -> bool:
    """Whether exp(scores), its sums and its sums against the values stay well inside the dtype's range, in every head.

    What underflows is to be small against the largest product of values in a column, the *same* column in every set.
    """
    largest = torch.stack([value.abs().amax(-2) for value in values]).to(torch.float64).log().sum(0).amax(-1)
    largest = largest.masked_fill(largest == -math.inf, 0.0)
    tuples = sum(math.log(value.shape[-2]) for value in values)
    room = 0.9 * math.log(torch.finfo(query.dtype).max) - tuples - largest.abs()
    near = abs(scale) * _by_amplitudes(query, keys) < room
    # Hoelder's bound takes several times as long, and is seldom needed.
    return bool(near.all()) or bool((near | (abs(scale) * _by_hoelder(query, keys) < room)).all())
