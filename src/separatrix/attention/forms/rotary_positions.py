r"""Rotary positions at any order: scores that depend on positions only through the distances between tokens.

Rotary embeddings rotate planes of queries and keys by angles proportional to the position. At order 2 this works
because the inner product does not change when both vectors are rotated by the same angle. Which rotations leave a score
of k >= 3 vectors unchanged depends on its form:

- *product*, sum_l q_l k_1,l ... k_{k-1},l: none. No trilinear form of vectors in a plane, except zero, is invariant
  when all three are rotated by the same angle. So a plane (x_p, x_{p + d/2}) *belongs to one key set*. In it the query
  and the keys of that set are rotated, and every other set has one number in place of two,

      sum over the plane = (q_p k_m,p + q_{p + d/2} k_m,p + d/2)  *  the product of the other sets' numbers,

  an inner product of two rotated vectors times numbers that do not rotate. Plane p belongs to set 1 + p mod (k - 1),
  and the planes of a set have frequencies base^(-i / count) for i = 0, ..., count - 1.
- *pairwise*, a sum of inner products: all vectors are rotated in all planes, as at order 2.
- *determinant*, a sum of determinants of blocks of k coordinates: det(R q, R k_1, ...) = det(q, k_1, ...) for every
  rotation R of a block, so all vectors are rotated in the planes (0, 1), (2, 3), ... of every block. The last
  coordinate of a block of odd size is the axis. All planes of all blocks have different frequencies, base^(-i / count).
  Blocks of three, and their invariance, are from Aurko Roy, Timothy Chou, Sai Surya Duvvuri and others, "Fast and
  Simplex: 2-Simplicial Attention in Triton".

Only the vectors change: the same algorithms compute the score at the same cost. At order 2, product and
pairwise are the usual embedding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from separatrix.attention.arguments import check_tensor
from separatrix.checks import one_of, positive, whole
from separatrix.errors import ArgumentError

FORMS = ("product", "pairwise", "determinant")
"""The score forms by name."""


def rotary(x: Tensor, role: int, order: int, *, start: int = 0, base: float = 10000.0, form: str = "product") -> Tensor:
    """Queries or keys with their positions, such that scores depend only on the distances between tokens.

    Args:
        x: The vectors (..., length, d), at the positions start, start + 1, ...; d must be even, or, for the determinant
            form, a multiple of the order.
        role: 0 for queries, and m for the m-th key set, from 1 to order - 1.
        order: The order of the attention.
        start: The position of the first vector.
        base: The lowest frequency is about 1 / base.
        form: The score form: "product", "pairwise" or "determinant". The map of the form (see `separatrix.forms`) comes
            afterwards.

    Returns:
        Vectors of the same shape and dtype. With the product form, a key has two equal coordinates in every plane that
        belongs to another key set: the sum of its two coordinates divided by sqrt(2).

    Raises:
        ArgumentError: The last dimension is invalid for the form, or the role is not one of the order.

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
    positive("base", base)
    check_tensor("x", x)
    if one_of("form", form, FORMS) == "determinant":
        return _rotate_blocks(x, order, start, base)
    if x.shape[-1] % 2:
        raise ArgumentError("x", expected="(..., length, d) with an even last dimension", got=f"shape {tuple(x.shape)}")
    sets = order - 1 if form == "product" else 1
    planes = x.shape[-1] // 2
    plane = torch.arange(planes, device=x.device)
    frequencies = base ** (-(plane // sets).to(torch.float64) / math.ceil(planes / sets))
    first, second = x.to(_wide(x)).split(planes, -1)
    rotated = _rotate(first, second, frequencies, start)
    if role and form == "product":
        own, tied = plane % sets == role - 1, (first + second) * math.sqrt(0.5)
        rotated = torch.where(own, rotated[0], tied), torch.where(own, rotated[1], tied)
    return torch.cat(rotated, -1).to(x.dtype)


def _rotate_blocks(x: Tensor, order: int, start: int, base: float) -> Tensor:
    """Rotate the planes (0, 1), (2, 3), ... of every block of `order` coordinates."""
    if x.shape[-1] % order:
        expected = f"(..., length, d) with a multiple of {order}, the order, as its last dimension"
        raise ArgumentError("x", expected=expected, got=f"shape {tuple(x.shape)}")
    blocks, planes = x.shape[-1] // order, order // 2
    count = blocks * planes
    frequencies = base ** (-torch.arange(count, dtype=torch.float64, device=x.device) / count)
    vectors = x.to(_wide(x)).unflatten(-1, (blocks, order))
    pairs = vectors[..., : 2 * planes].unflatten(-1, (planes, 2)).flatten(-3, -2)
    rotated = torch.stack(_rotate(pairs[..., 0], pairs[..., 1], frequencies, start), -1)
    rotated = rotated.unflatten(-2, (blocks, planes)).flatten(-2)
    return torch.cat([rotated, vectors[..., 2 * planes :]], -1).flatten(-2).to(x.dtype)


def _rotate(first: Tensor, second: Tensor, frequencies: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """Rotate the planes (first, second), (..., length, planes), by angles from the position `start` on."""
    length = first.shape[-2]
    positions = torch.arange(start, start + length, dtype=torch.float64, device=first.device)
    angles = positions.unsqueeze(-1) * frequencies
    cos, sin = angles.cos().to(first.dtype), angles.sin().to(first.dtype)
    return first * cos - second * sin, first * sin + second * cos


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def rotate_heads(
    query: Tensor,
    keys: Sequence[Tensor],
    *,
    base: float | None,
    form: str = "product",
    query_start: int = 0,
    key_start: int = 0,
) -> tuple[Tensor, list[Tensor]]:
    """Queries and keys with rotary positions from these starts on; unchanged if `base` is None."""
    if base is None:
        return query, list(keys)
    order = len(keys) + 1
    rotated = [rotary(key, m, order, start=key_start, base=base, form=form) for m, key in enumerate(keys, 1)]
    return rotary(query, 0, order, start=query_start, base=base, form=form), rotated
