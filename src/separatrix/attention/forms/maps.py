r"""Maps of queries and keys to factors whose product form is another score form.

Exact attention, near-linear attention, certificates, streams and weights all take the scores

    scale * sum_l q_l k_1,l ... k_{k-1},l.

Each map here takes (query, keys) and returns (query', keys') whose sum of coordinate products is another function of
the vectors. The maps add constant coordinates: for the pairwise form at order 3, with q' = (q, q, 1), k_1' = (k_1, 1,
k_1) and k_2' = (1, k_2, k_2), the sum of products is q.k_1 + q.k_2 + k_1.k_2.

**The scale multiplies the score form, and its default is 1 / d' of the mapped dimension d'.** Pass the scale to
`tensor_attention`: ``scale=1 / d`` is the papers' default for the original dimension d. A bias is not multiplied by
the scale, so `with_bias` and `alibi` must be given the same scale.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.arguments import check_tensor
from separatrix.attention.forms.rotary_positions import rotate_heads
from separatrix.checks import finite, whole
from separatrix.errors import ArgumentError

Factors = tuple[Tensor, list[Tensor]]
"""The query and the keys, one tensor for each key set."""
Keys = Tensor | Sequence[Tensor]


def product(query: Tensor, keys: Keys) -> Factors:
    r"""The product form, which is the default of attention: query and keys unchanged.

        score = sum_l q_l k_1,l ... k_{k-1},l

    Josh Alman and Zhao Song, "How to Capture Higher-order Correlations? Generalizing Matrix Softmax Attention to
    Kronecker Computation"; at order 3 it is the trilinear form of James Clift, Dmitry Doryn, Daniel Murfet and James
    Wallbridge, "Logic and the 2-Simplicial Transformer".

    Args:
        query: The queries, (..., L_q, d).
        keys: The k-1 key sets, (..., L_m, d) each, or one tensor for order 2.

    Returns:
        The query and a list of the keys.
    """
    return _vectors(query, keys)


def pairwise(query: Tensor, keys: Keys) -> Factors:
    r"""Factors of dimension d k (k - 1) / 2 whose product form is the sum of all inner products of two vectors.

        score = q.k_1 + q.k_2 + k_1.k_2        at order 3; at order k the sum over all k (k - 1) / 2 pairs

    At order 3 this is Strassen attention: Alexander Kozachinskiy and others, "Strassen Attention: Unlocking
    Compositional Abilities in Transformers Based on a New Lower Bound Method". At order 2 it is ordinary attention.

    It costs as much as the product form at dimension 3 d for order 3. `pairwise_attention` is faster for exact
    attention at order 3; these factors are for certificates, streams, weights and other orders.

    Args:
        query: The queries, (..., L_q, d).
        keys: The k-1 key sets, (..., L_m, d) each, or one tensor for order 2.

    Returns:
        The mapped query and a list of the mapped keys.

    Example:
        >>> q, k1, k2 = (torch.tensor([x]) for x in ([1.0, 2.0], [3.0, 5.0], [7.0, 11.0]))
        >>> query, keys = pairwise(q, [k1, k2])
        >>> (query * keys[0] * keys[1]).sum().item(), ((q * k1).sum() + (q * k2).sum() + (k1 * k2).sum()).item()
        (118.0, 118.0)
    """
    query, sets = _vectors(query, keys)
    vectors = [query, *sets]
    pairs = list(itertools.combinations(range(len(vectors)), 2))
    mapped = [
        torch.cat([x if position in pair else torch.ones_like(x) for pair in pairs], -1)
        for position, x in enumerate(vectors)
    ]
    return mapped[0], mapped[1:]


def determinant(query: Tensor, keys: Keys) -> Factors:
    r"""Factors of dimension d (k - 1)! whose product form is a sum of determinants of blocks of k coordinates.

        score = sum over blocks b of det[ q^(b), k_1^(b), ..., k_{k-1}^(b) ]

    where x^(b) are the coordinates k b, ..., k b + k - 1 of x. At order 3 it is the form that Aurko Roy, Timothy Chou,
    Sai Surya Duvvuri and others, "Fast and Simplex: 2-Simplicial Attention in Triton", propose because rotations leave
    it unchanged: see `rotary` with ``form="determinant"``. The score is zero if two vectors of a tuple are equal.

    It costs as much as the product form at dimension 2 d for order 3, 6 d for order 4.

    Args:
        query: The queries, (..., L_q, d), with d a multiple of the order k.
        keys: The k-1 key sets, (..., L_m, d) each, or one tensor for order 2.

    Returns:
        The mapped query and a list of the mapped keys.

    Example:
        >>> q, k1, k2 = (torch.tensor([x]) for x in ([1.0, 2.0, 4.0], [3.0, 5.0, 0.0], [7.0, 11.0, 1.0]))
        >>> query, keys = determinant(q, [k1, k2])
        >>> (query * keys[0] * keys[1]).sum().item(), round(torch.linalg.det(torch.cat([q, k1, k2])).item(), 4)
        (-9.0, -9.0)
    """
    query, sets = _vectors(query, keys)
    order = len(sets) + 1
    if query.shape[-1] % order:
        expected = f"a last dimension that is a multiple of {order}, the order"
        raise ArgumentError("query", expected=expected, got=f"shape {tuple(query.shape)}")
    permutations = list(itertools.permutations(range(order)))
    signs = [_sign(permutation) for permutation in permutations]

    def columns(x: Tensor, position: int) -> Tensor:
        chosen = [permutation[position] for permutation in permutations]
        blocks: Tensor = x.unflatten(-1, (-1, order))
        return blocks[..., chosen]

    signed = columns(query, 0) * torch.tensor(signs, dtype=query.dtype, device=query.device)
    return signed.flatten(-2), [columns(key, m).flatten(-2) for m, key in enumerate(sets, 1)]


def _sign(permutation: Sequence[int]) -> int:
    """The sign of a permutation: -1 for an odd number of inversions."""
    return 1 - 2 * (sum(first > second for first, second in itertools.combinations(permutation, 2)) % 2)


def with_bias(
    query: Tensor, keys: Keys, query_factors: Tensor, key_factors: Tensor | Sequence[Tensor], *, scale: float
) -> Factors:
    r"""Factors of dimension d + r whose product form has a separable bias of rank r, which the scale does not multiply.

        scale * score' = scale * score + sum_{r} f_r(i) g_1,r(j_1) ... g_{k-1},r(j_{k-1})

    If the bias does not depend on a key set, the factors of this set are ones. `alibi` is the bias that falls off
    linearly with the distances.

    It costs as much as the product form at dimension d + r.

    Args:
        query: The queries, (..., L_q, d), or the result of another map.
        keys: The k-1 key sets, (..., L_m, d) each, or one tensor for order 2.
        query_factors: f, (..., L_q, r), whose leading dimensions broadcast with those of `query`.
        key_factors: g_m for each key set, (..., L_m, r), or one tensor for order 2.
        scale: The scale of the attention call, which must not be 0. f is divided by it, in float32 or float64, and
            rounded to the dtype of `query`.

    Returns:
        The query and a list of the keys, with r additional coordinates.

    Raises:
        ArgumentError: A factor has another length or rank, or the scale is 0 or not finite.

    Example:
        >>> from separatrix import tensor_attention
        >>> q, k1, k2, v = torch.randn(4, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        >>> g, ones = torch.arange(5.0, dtype=torch.float64)[:, None], torch.ones(5, 1, dtype=torch.float64)
        >>> query, keys = with_bias(q, [k1, k2], ones, [g, ones], scale=0.5)  # the bias is j_1
        >>> out = tensor_attention(query, keys, [v, v], scale=0.5)
        >>> scores = 0.5 * torch.einsum("il,jl,ml->ijm", q, k1, k2) + g
        >>> torch.allclose(out, torch.einsum("ijm,jl,ml->il", scores.flatten(1).softmax(1).view(5, 5, 5), v, v))
        True
    """
    query, sets = _vectors(query, keys)
    if finite("scale", scale) == 0:
        raise ArgumentError("scale", expected="a finite number other than 0", got=repr(scale))
    bias = [key_factors] if isinstance(key_factors, Tensor) else list(key_factors)
    if len(bias) != len(sets):
        raise ArgumentError("key_factors", expected=f"{len(sets)}, one for each key set", got=str(len(bias)))
    check_tensor("query_factors", query_factors, device=query.device, shape=("...", query.shape[-2], "rank"))
    rank = query_factors.shape[-1]
    for m, (key, factors) in enumerate(zip(sets, bias, strict=True)):
        check_tensor(f"key_factors[{m}]", factors, device=query.device, shape=("...", key.shape[-2], rank))
    divided = query_factors.to(torch.promote_types(query_factors.dtype, torch.float32)) / scale
    appended = [_append(key, factors) for key, factors in zip(sets, bias, strict=True)]
    return _append(query, divided), appended


def key_bias(query: Tensor, keys: Keys, key_factors: Tensor | Sequence[Tensor], *, scale: float) -> Factors:
    r"""Factors of dimension d + r whose product form has a bias on tuples of keys, of rank r, the same for all queries.

        scale * score' = scale * score + b(j_1, ..., j_{k-1}),    b = sum_{r} g_1,r(j_1) ... g_{k-1},r(j_{k-1})

    At order 3 b(j_1, j_2) is a matrix of rank r: the bias of each pair of keys, for every query. It is `with_bias` with
    ones for the query.

    It costs as much as the product form at dimension d + r.

    Args:
        query: The queries, (..., L_q, d), or the result of another map.
        keys: The k-1 key sets, (..., L_m, d) each, or one tensor for order 2.
        key_factors: g_m for each key set, (..., L_m, r), or one tensor for order 2.
        scale: The scale of the attention call, which must not be 0.

    Returns:
        The query and a list of the keys, with r additional coordinates.

    Example:
        >>> from separatrix import tensor_attention
        >>> q, k1, k2, v = torch.randn(4, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        >>> g, h = torch.randn(2, 5, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        >>> out = tensor_attention(*key_bias(q, [k1, k2], [g, h], scale=0.5), [v, v], scale=0.5)
        >>> scores = 0.5 * torch.einsum("il,jl,ml->ijm", q, k1, k2) + g @ h.T
        >>> torch.allclose(out, torch.einsum("ijm,jl,ml->il", scores.flatten(1).softmax(1).view(5, 5, 5), v, v))
        True
    """
    query, sets = _vectors(query, keys)
    bias = [key_factors] if isinstance(key_factors, Tensor) else list(key_factors)
    if not bias:
        raise ArgumentError("key_factors", expected=f"{len(sets)}, one for each key set", got="0")
    check_tensor("key_factors[0]", bias[0], shape=("...", sets[0].shape[-2], "rank"))
    ones = torch.ones(query.shape[-2], bias[0].shape[-1], dtype=query.dtype, device=query.device)
    return with_bias(query, sets, ones, bias, scale=scale)


def _append(x: Tensor, coordinates: Tensor) -> Tensor:
    """The vectors x with more coordinates, whose leading dimensions broadcast."""
    batch = torch.broadcast_shapes(x.shape[:-2], coordinates.shape[:-2])
    return torch.cat([y.expand(*batch, *y.shape[-2:]) for y in (x, coordinates.to(x.dtype))], -1)


def alibi_slopes(num_heads: int) -> Tensor:
    """The slopes of ALiBi, 2^(-8 / num_heads), 2^(-16 / num_heads), ..., 2^-8, in float64.

    Ofir Press, Noah A. Smith and Mike Lewis, "Train Short, Test Long: Attention with Linear Biases Enables Input Length
    Extrapolation".

    >>> alibi_slopes(4).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    whole("num_heads", num_heads, low=1)
    return 2.0 ** (-8.0 * torch.arange(1, num_heads + 1, dtype=torch.float64) / num_heads)


def alibi(
    query: Tensor,
    keys: Keys,
    slopes: float | Tensor | Sequence[float | Tensor],
    *,
    scale: float,
    query_offset: int = 0,
    key_starts: Sequence[int] | None = None,
) -> Factors:
    r"""Factors whose product form has ALiBi's bias: for each key set, minus a slope times the distance to the key.

        scale * score' = scale * score - sum_m slope_m (i + query_offset - j_m)

    **It is meant for causal attention**, where no distance is negative: among later keys it prefers the farthest. (The
    bias -slope |i - j| of both directions is not separable.) Ofir Press, Noah A. Smith and Mike Lewis, "Train Short,
    Test Long: Attention with Linear Biases Enables Input Length Extrapolation", has it for order 2.

    It costs as much as the product form at dimension d + k + 1. Half types have one more coordinate for each set and
    each further digit of the positions (8 bits in bfloat16, 11 in float16), so that positions are exact; slope / scale
    is rounded to the type. A score is rounded at the size of slope * position.

    Args:
        query: The queries, (..., L_q, d), or the result of another map.
        keys: The k-1 key sets, (..., L_m, d) each, or one tensor for order 2.
        slopes: One for all key sets, or a list with one for each. A slope is a number or a tensor with the leading
            dimensions of `query`: ``alibi_slopes(num_heads)`` for queries (batch, num_heads, L_q, d).
        scale: The scale of the attention call, which must not be 0.
        query_offset: The position of the first query among the keys, as in `tensor_attention`.
        key_starts: The position of the first key of each set; 0 for each by default.

    Returns:
        The query and a list of the keys, with the coordinates of the bias.

    Example:
        >>> from separatrix import tensor_attention
        >>> q, k1, k2, v = torch.randn(4, 8, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        >>> query, keys = alibi(q, [k1, k2], alibi_slopes(8), scale=0.5)
        >>> tensor_attention(query, keys, [v, v], scale=0.5, is_causal=True).shape
        torch.Size([8, 5, 2])
    """
    query, sets = _vectors(query, keys)
    given = _for_each_set("slopes", slopes, len(sets))
    starts = _for_each_set("key_starts", 0 if key_starts is None else key_starts, len(sets))
    if finite("scale", scale) == 0:
        raise ArgumentError("scale", expected="a finite number other than 0", got=repr(scale))
    stops = [start + key.shape[-2] for start, key in zip(starts, sets, strict=True)]
    farthest = max(abs(position) for position in (query_offset, query_offset + query.shape[-2], *starts, *stops))
    if farthest > torch.finfo(query.dtype).max:
        expected = f"positions up to {torch.finfo(query.dtype).max:.0f}, the largest number of {query.dtype}"
        raise ArgumentError("keys", expected=expected, got=str(farthest))
    # Rounded once, so that the terms of a query and a key at the same position cancel exactly.
    coefficients = [
        (_slope(m, slope, query) / scale).to(query.dtype).to(torch.float64) for m, slope in enumerate(given)
    ]
    digits = [_digits(start, key, farthest) for start, key in zip(starts, sets, strict=True)]
    count = digits[0].shape[-1]
    # The query's own term is divided by this power, and a key multiplied by it, to stay in the range of float16. In
    # other dtypes nothing depends on the length, so that layers can be exported for all lengths.
    power = 2.0 ** (max(farthest, 1).bit_length() - 1) if query.dtype == torch.float16 else 1.0
    positions = torch.arange(query.shape[-2], dtype=torch.float64, device=query.device) + query_offset
    own = -sum(coefficients[1:], coefficients[0]) * (positions / power).unsqueeze(-1)
    remainder = own - own.to(query.dtype).to(torch.float64)
    columns = [x.expand(*x.shape[:-2], query.shape[-2], count) for x in coefficients]
    batch = torch.broadcast_shapes(*(x.shape[:-2] for x in (*columns, own)))
    bias = torch.cat([x.expand(*batch, *x.shape[-2:]) for x in (*columns, own, remainder)], -1)
    mapped = []
    for m, (key, part) in enumerate(zip(sets, digits, strict=True)):
        factors = torch.ones(key.shape[-2], len(sets) * count + 2, dtype=torch.float64, device=key.device)
        factors[:, m * count : (m + 1) * count] = part
        if m == 0:
            factors[:, -2:] = power
        mapped.append(_append(key, factors))
    return _append(query, bias), mapped


def _slope(m: int, slope: float | Tensor, query: Tensor) -> Tensor:
    """A slope as a tensor (..., 1, 1) in float64, whose leading dimensions broadcast with those of the query."""
    if not isinstance(slope, Tensor):
        return torch.full((1, 1), finite(f"slopes[{m}]", slope), dtype=torch.float64, device=query.device)
    batch = query.shape[:-2]
    sizes = zip(slope.shape[::-1], batch[::-1], strict=False)
    if slope.dim() > len(batch) or any(size not in (1, room) for size, room in sizes):
        expected = f"a number or a tensor that broadcasts to {tuple(batch)}, the leading dimensions of query"
        raise ArgumentError(f"slopes[{m}]", expected=expected, got=f"shape {tuple(slope.shape)}")
    return slope.to(query.device, torch.float64)[..., None, None]


def _digits(start: int, key: Tensor, farthest: int) -> Tensor:
    """The positions of keys as sums of numbers that their dtype represents exactly, (length, digits) in float64."""
    radix = int(2 / torch.finfo(key.dtype).eps)
    positions = torch.arange(start, start + key.shape[-2], device=key.device)
    parts, rest, unit = [], positions, 1
    while unit * radix < farthest:
        unit *= radix
        parts.append(rest % unit)
        rest = rest - parts[-1]
    return torch.stack([*parts, rest], -1).to(torch.float64)


def _for_each_set(name: str, given: Any, count: int) -> list[Any]:
    """One entry for each key set, from a list with an entry for each or from a single entry for all."""
    entries = list(given) if isinstance(given, (list, tuple)) else [given] * count
    if len(entries) != count:
        raise ArgumentError(name, expected=f"one for all key sets, or a list of {count}", got=str(len(entries)))
    return entries


def rotary(
    query: Tensor,
    keys: Keys,
    *,
    form: str = "product",
    query_start: int = 0,
    key_start: int = 0,
    base: float = 10000.0,
) -> Factors:
    r"""Queries and keys with rotary positions, such that scores depend only on the distances between tokens.

    It is applied **before** the map of the form: ``determinant(*rotary(query, keys, form="determinant"))``. What is
    rotated depends on the form: with "product" each plane belongs to one key set, with "pairwise" all vectors are
    rotated as at order 2, with "determinant" all vectors are rotated in blocks of k coordinates, around an axis if k is
    odd. See `nn.rotary`, which does the same for one tensor.

    Jianlin Su, Yu Lu, Shengfeng Pan, Ahmed Murtadha, Bo Wen and Yunfeng Liu, "RoFormer: Enhanced Transformer with
    Rotary Position Embedding", has it for order 2.

    The only cost is the rotation; the dimension stays d.

    Args:
        query: The queries, (..., L_q, d).
        keys: The k-1 key sets, (..., L_m, d) each, or one tensor for order 2.
        form: The score form that follows: "product", "pairwise" or "determinant".
        query_start: The position of the first query.
        key_start: The position of the first key of every set.
        base: The lowest frequency is about 1 / base.

    Returns:
        The query and a list of the keys.

    Example:
        >>> from separatrix import tensor_attention
        >>> q, k1, k2, v = torch.randn(4, 6, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        >>> def attend(start):
        ...     rotated = rotary(q, [k1, k2], form="determinant", query_start=start, key_start=start)
        ...     return tensor_attention(*determinant(*rotated), [v, v], scale=1 / 9)
        >>> torch.allclose(attend(0), attend(1000))
        True
    """
    query, sets = _vectors(query, keys)
    return rotate_heads(query, sets, base=base, form=form, query_start=query_start, key_start=key_start)


MAPS = {"product": product, "pairwise": pairwise, "determinant": determinant}
"""The map of each score form by name."""


def _vectors(query: Tensor, keys: Keys) -> Factors:
    """The query and a list of the keys, checked: tensors of one dtype, device and last dimension."""
    check_tensor("query", query)
    sets = [keys] if isinstance(keys, Tensor) else list(keys)
    if not sets:
        raise ArgumentError("keys", expected="a tensor (order 2) or a list with one entry for each set", got="no set")
    for m, key in enumerate(sets):
        shape = ("...", "length", query.shape[-1])
        check_tensor(f"keys[{m}]", key, dtype=query.dtype, device=query.device, shape=shape)
    return query, sets
