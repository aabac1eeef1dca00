"""All weights of a few chosen queries: the factors of the values of every tuple in tensor attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor

from separatrix.attention.arguments import CallOptions
from separatrix.attention.arithmetic.precision import no_autocast
from separatrix.attention.call import Call
from separatrix.attention.weights.scores import LogSum, blocks, checked, cut, of_heads
from separatrix.checks import whole
from separatrix.errors import ArgumentError


def attention_weights(
    query: Tensor,
    keys: Tensor | Sequence[Tensor],
    queries: Sequence[int] | Tensor,
    **options: Unpack[CallOptions],
) -> Tensor:
    """All weights of chosen queries: the factors by which `tensor_attention` multiplies the values of every tuple.

    The call needs memory for the result, L_1 L_2 ... numbers for each chosen query of each head, and for a few blocks.
    For the largest weights of all queries see `top_tuples`.

    Args:
        query: All queries, (..., L_q, d), because positions are indices of this tensor.
        keys: The key sets, (..., L_m, d) each, or one tensor for order 2.
        queries: The indices of the chosen queries, from -L_q to L_q - 1, in any order; a negative one counts from the
            end.
        **options: `is_causal`, `query_offset`, `key_masks`, `windows`, `scale` and `enable_gqa`, as in
            `tensor_attention`.

    Returns:
        The weights, (..., chosen queries, L_1, ..., L_{k-1}), float64 for float64 and float32 for all other dtypes.
        They are 0 for tuples that a query may not attend to, and add up to 1 for each query that may attend to a tuple.
        There are no gradients.

    Raises:
        ArgumentError: If an argument is not as described above, or an entry of a key that may be attended is not
            finite.
        SeparatrixError: If the scores overflow.

    Example:
        >>> import torch
        >>> x = torch.eye(3)
        >>> weights = attention_weights(x, [x, x], queries=[-1], is_causal=True, scale=2.0)
        >>> weights.shape
        torch.Size([1, 3, 3])
        >>> round(weights[0, 2, 2].item(), 3), round(weights.sum().item(), 3)
        (0.48, 1.0)
    """
    call = checked(query, keys, **options)
    chosen = _chosen(queries, call.query.shape[1])
    with torch.no_grad(), no_autocast(call.query.device.type):
        # `scores.blocks` needs ascending indices without duplicates.
        once = sorted(set(chosen))
        weights = weights_of(call, once)
        if chosen != once:
            weights = weights[:, [once.index(i) for i in chosen]]
    return call.shaped(weights.unflatten(2, call.key_lengths))


def _chosen(queries: object, length: int) -> list[int]:
    """The indices of the chosen queries as non-negative integers."""
    if isinstance(queries, Tensor) and queries.dim() == 1:
        queries = queries.tolist()
    if not isinstance(queries, (list, tuple, range)):
        got = f"shape {tuple(queries.shape)}" if isinstance(queries, Tensor) else queries
        raise ArgumentError("queries", expected="a list of the indices of queries", got=got)
    if queries and not length:
        raise ArgumentError("queries", expected="an empty list, since there are no queries", got=repr(queries))
    return [whole(f"queries[{n}]", i, low=-length, high=length - 1) % length for n, i in enumerate(queries)]


def weights_of(call: Call, chosen: Sequence[int]) -> Tensor:
    """The weights (H, queries, L_1 L_2 ...) of queries in ascending order."""
    heads, volume = call.query.shape[0], math.prod(call.key_lengths)
    weights = torch.zeros(heads, len(chosen), volume, dtype=call.computed_in, device=call.query.device)
    if not weights.numel():
        return weights
    rows, together, size = cut(call, len(chosen))
    box = [(0, length) for length in call.key_lengths]
    for start in range(0, heads, together):
        at_heads = slice(start, start + together)
        part = of_heads(call, (start, min(start + together, heads)))
        for first in range(0, len(chosen), rows):
            index = torch.tensor(chosen[first : first + rows], device=call.query.device)
            own = weights[at_heads, first : first + rows]
            log_sum = LogSum.empty(own.shape[0], own.shape[1], own.device)
            shifts = []
            for block in blocks(part, index, box, size):
                own[..., block.start : block.stop] = log_sum.add(block.scores, block.scores.amax(-1))
                shifts.append((block.start, block.stop, log_sum.largest))
            # The weights are the computed terms divided by their computed sum, so they sum to 1 even for large scores.
            for begin, end, largest in shifts:
                own[..., begin:end].mul_(log_sum.share(largest).to(own.dtype).unsqueeze(-1))
    return weights
