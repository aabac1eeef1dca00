r"""Rotary positions at any order: scores that depend on the distances from a query to its keys, and on nothing else.

Rotary embeddings turn a plane (x_p, x_{p + d/2}) of queries and keys by an angle proportional to the position. For
pairs this works because the inner product of a plane does not change when both vectors are turned alike. The product

    sum_l q_l k_1,l ... k_{k-1},l

of k >= 3 vectors does change, and no other trilinear form would do: among the products of three vectors of a plane,
none but zero stays the same when all three are turned alike. So here a plane *belongs to one key set*. In it the query
and the keys of that set are turned, and every other set has one number in place of two,

    sum over the plane = (q_p k_m,p + q_{p + d/2} k_m,p + d/2)  *  the product of the other sets' numbers,

in which an inner product of two turned vectors is multiplied by numbers that do not turn. It is the same product of
coordinates: nothing but the vectors changes, and nothing costs more. Plane p belongs to set 1 + p mod (k - 1), and the
planes of a set have frequencies base^(-i / count) for i = 0, ..., count - 1. At order 2 this is the usual embedding.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from separatrix.checks import whole
from separatrix.errors import ArgumentError


def rotary(x: Tensor, role: int, order: int, *, start: int = 0, base: float = 10000.0) -> Tensor:
    """Queries or keys with their positions, such that scores depend on the distances from a query to its keys alone.

    Args:
        x: The vectors (..., length, d), at the positions start, start + 1, ...; d must be even.
        role: 0 for queries, and m for the m-th key set, from 1 to order - 1.
        order: The order of the attention.
        start: The position of the first vector.
        base: The lowest frequency is about 1 / base.

    Returns:
        Vectors of the same shape and type. Those of key sets have, in every plane that belongs to another set, the sum
        of their two coordinates over sqrt(2), twice.

    Raises:
        ArgumentError: The last dimension is odd, or the order has no such role.

    Example:
        >>> from separatrix import tensor_attention
        >>> q, k1, k2, v1, v2 = torch.randn(5, 6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        >>> def attend(start):
        ...     query, *keys = (rotary(x, role, 3, start=start) for role, x in enumerate([q, k1, k2]))
        ...     return tensor_attention(query, keys, [v1, v2], is_causal=True)
        >>> torch.allclose(attend(0), attend(1000))
        True
    """
    whole("order", order, low=2)
    whole("role", role, low=0, high=order - 1)
    if x.dim() < 2 or x.shape[-1] % 2:
        raise ArgumentError("x", expected="(..., length, d) with an even last dimension", got=f"shape {tuple(x.shape)}")
    wide = torch.promote_types(x.dtype, torch.float32)
    planes, sets = x.shape[-1] // 2, order - 1
    plane = torch.arange(planes, device=x.device)
    frequencies = base ** (-(plane // sets).to(torch.float64) / math.ceil(planes / sets))
    positions = torch.arange(start, start + x.shape[-2], dtype=torch.float64, device=x.device)
    angles = positions.unsqueeze(-1) * frequencies
    cos, sin = angles.cos().to(wide), angles.sin().to(wide)
    first, second = x.to(wide).split(planes, -1)
    turned = first * cos - second * sin, first * sin + second * cos
    if role:
        own, tied = plane % sets == role - 1, (first + second) * math.sqrt(0.5)
        turned = torch.where(own, turned[0], tied), torch.where(own, turned[1], tied)
    return torch.cat(turned, -1).to(x.dtype)


def rotate_heads(
    q: Tensor, keys: list[Tensor], base: float | None, query_start: int, key_start: int
) -> tuple[Tensor, list[Tensor]]:
    """Queries and keys with rotary positions from these starts on; unchanged if `base` is None."""
    if base is None:
        return q, keys
    order = len(keys) + 1
    placed = [rotary(key, m, order, start=key_start, base=base) for m, key in enumerate(keys, 1)]
    return rotary(q, 0, order, start=query_start, base=base), placed
