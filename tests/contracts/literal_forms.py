"""Attention with any score function by the literal definition: the scores of all tuples, a softmax, and a sum."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from separatrix.attention import reference

Scores = Callable[[Sequence[Tensor]], Tensor]
"""Scores (..., L_q, L_1, ...) of all tuples of vectors that broadcast: `spread` makes them from query and keys."""


def spread(query: Tensor, keys: Sequence[Tensor]) -> list[Tensor]:
    """Query and keys with a dimension for each of them, (..., L_q, 1, ..., d), (..., 1, L_1, ..., d), ..."""
    vectors = [query, *keys]
    return [
        x[(..., *(slice(None) if other == position else None for other in range(len(vectors))), slice(None))]
        for position, x in enumerate(vectors)
    ]


def product_scores(vectors: Sequence[Tensor]) -> Tensor:
    total = vectors[0]
    for x in vectors[1:]:
        total = total * x
    return total.sum(-1)


def pairwise_scores(vectors: Sequence[Tensor]) -> Tensor:
    return sum((first * second).sum(-1) for first, second in itertools.combinations(vectors, 2))


def determinant_scores(vectors: Sequence[Tensor]) -> Tensor:
    order = len(vectors)
    blocks = [x.unflatten(-1, (-1, order)) for x in torch.broadcast_tensors(*vectors)]
    return torch.linalg.det(torch.stack(blocks, -2)).sum(-1)


SCORES = {"product": product_scores, "pairwise": pairwise_scores, "determinant": determinant_scores}


def literal_attention(
    score: Scores,
    query: Tensor,
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    bias: Tensor | float = 0.0,
    **masking: object,
) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp of attention with scale * score + bias; `masking` as in `reference.masked_scores`."""
    if enable_gqa:
        group = query.shape[-3] // keys[0].shape[-3]
        keys, values = ([x.repeat_interleave(group, -3) for x in sets] for sets in (keys, values))
    scale = 1 / query.shape[-1] if scale is None else scale
    S = scale * score(spread(query, keys)) + bias
    hidden = reference.masked_scores(torch.zeros_like(query), [torch.zeros_like(key) for key in keys], **masking)
    S = (S + hidden).flatten(-len(keys))
    empty = S.isneginf().all(-1, keepdim=True)
    lse = torch.logsumexp(S.masked_fill(empty, 0.0), -1, keepdim=True)
    weights = torch.where(empty, 0.0, (S - lse).exp())
    tuples = product_of_values(values)
    out = torch.matmul(weights, tuples)
    return out, lse.masked_fill(empty, -torch.inf).squeeze(-1)


def product_of_values(values: Sequence[Tensor]) -> Tensor:
    """v_1,j1 * ... for all tuples, (..., L_1 ... L_{k-1}, d_v), the last index fastest."""
    total = values[0]
    for value in values[1:]:
        total = (total.unsqueeze(-2) * value.unsqueeze(-3)).flatten(-3, -2)
    return total
