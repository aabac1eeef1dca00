"""When exp(scores) can be summed as it is, with no maximum subtracted: a bound on the scores tells."""

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
    order = len(keys) + 1
    # By logarithms: what is huge in one factor and tiny in another must not vanish on the way.
    amplitudes = torch.stack([key.abs().amax(-2, keepdim=True).to(torch.float64).log2() for key in keys])
    by_amplitudes = (query.abs().to(torch.float64) * amplitudes.sum(0).exp2()).sum(-1).amax(-1)
    by_hoelder = torch.stack([_largest_norm(x, order).log2() for x in (query, *keys)]).sum(0).exp2()
    return abs(scale) * float(torch.minimum(by_amplitudes, by_hoelder).max())


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
    """Whether exp(scores), its sums and its sums against the values stay well inside the dtype's range."""
    reach = score_bound(query, keys, scale)
    for value in values:
        largest = float(value.abs().max()) if value.numel() else 0.0
        if not math.isfinite(largest):
            return False
        reach += math.log(value.shape[-2]) + (abs(math.log(largest)) if largest else 0.0)
    return reach < 0.9 * math.log(torch.finfo(query.dtype).max)
