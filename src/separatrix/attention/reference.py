r"""The definition of order-k attention: literal formulas with all weights materialised, slow and obvious.

This file is the oracle of every algorithm in the package. It follows Josh Alman and Zhao Song, "How to Capture
Higher-order Correlations? Generalizing Matrix Softmax Attention to Kronecker Computation" (Definitions 1.1, 1.5,
2.2-2.4, C.1-C.5), and, for linear attention, Definition C.1 of Yichuan Deng, Zhao Song, Kaijun Yuan and Tianyi Zhou,
"Why Softmax Attention Outperforms Linear Attention".

Order k has a query Q, k-1 key sets K_1, ..., K_{k-1} and k-1 value sets:

    S[i, j_1, ..., j_{k-1}] = scale * sum_l Q[i, l] K_1[j_1, l] ... K_{k-1}[j_{k-1}, l]
    out = D^{-1} A (V_1 (x) ... (x) V_{k-1}),    A = exp(S),    D = diag(A 1)

Everything is computed in the dtype given.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "allowed_tuples",
    "attention_weights",
    "column_kronecker",
    "linear_attention",
    "masked_scores",
    "tensor_attention",
    "tensor_scores",
    "top_tuples",
]


def column_kronecker(*matrices: Tensor) -> Tensor:
    """The column-wise Kronecker product of (..., L_m, d) matrices, (..., L_1 L_2 ..., d) (Definition 2.4).

    Row i_1 + i_2 L_1 + i_3 L_1 L_2 + ... is the entrywise product of the rows i_1, i_2, ...: the first index runs
    fastest.

    >>> column_kronecker(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[1, 10], [0, 5]])).tolist()
    [[1, 20], [3, 40], [0, 10], [0, 20]]
    """
    product = matrices[0]
    for matrix in matrices[1:]:
        product = (matrix.unsqueeze(-2) * product.unsqueeze(-3)).flatten(-3, -2)
    return product


def tensor_scores(query: Tensor, keys: Sequence[Tensor], scale: float) -> Tensor:
    """The tensor ``scale * (Q . K_1 . ... . K_{k-1})`` of shape (..., L_q, L_1, ..., L_{k-1}) (Definition 2.2).

    >>> Q, K = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0]])
    >>> tensor_scores(Q, [K, K], scale=0.5).tolist()  # 0.5 * (1 * 3 * 3 + 2 * 4 * 4) is the first
    [[[20.5, 31.5], [31.5, 48.5]]]
    """
    axes = "abcefghijkmnopqrstuvwxyz"[: len(keys)]
    factors = ",".join(f"...{axis}l" for axis in "d" + axes)
    return scale * torch.einsum(f"{factors}->...d{axes}", query, *keys)


def allowed_tuples(
    query_length: int,
    key_lengths: Sequence[int],
    *,
    is_causal: bool = False,
    query_offset: int = 0,
    windows: Sequence[int | None] | None = None,
    lookahead: int = 0,
    sinks: int = 0,
    prefix: int = 0,
    distinct: bool = False,
    device: torch.device | None = None,
) -> Tensor:
    """A mask (L_q, L_1, ..., L_{k-1}) of the tuples (j_1, ..., j_{k-1}) that query i may attend, by position.

    Causal: every j_m <= i + offset. A window w on set m: j_m in (i + offset - w, i + offset + lookahead], where the
    lower end does not concern the first `sinks` keys. A query at one of the first `prefix` positions attends all keys
    at these positions. Distinct: j_1, ..., j_{k-1} are pairwise different.
    """
    positions = torch.arange(query_length, device=device) + query_offset
    allowed = torch.ones(query_length, *key_lengths, dtype=torch.bool, device=device)
    for m, length in enumerate(key_lengths):
        window = None if windows is None else windows[m]
        keys = torch.arange(length, device=device)
        distance = positions[:, None] - keys
        may = torch.ones_like(distance, dtype=torch.bool)
        if window is not None:
            may = (distance >= -lookahead) & ((distance < window) | (keys < sinks))
        if is_causal:
            may = may & (distance >= 0)
            may = may | ((positions[:, None] < prefix) & (keys < prefix))
        allowed = allowed & may.reshape(query_length, *_axis(m, key_lengths))
    if distinct:
        places = torch.meshgrid(*(torch.arange(length, device=device) for length in key_lengths), indexing="ij")
        for first, second in combinations(places, 2):
            allowed = allowed & (first != second)
    return allowed


def _axis(m: int, lengths: Sequence[int]) -> list[int]:
    return [length if other == m else 1 for other, length in enumerate(lengths)]


def masked_scores(
    query: Tensor,
    keys: Sequence[Tensor],
    *,
    is_causal: bool = False,
    query_offset: int = 0,
    key_masks: Sequence[Tensor | None] | None = None,
    windows: Sequence[int | None] | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    **places: Any,
) -> Tensor:
    """The scores (..., L_q, L_1, ..., L_{k-1}) of all tuples, -inf for those that a query may not attend.

    `places` are `lookahead`, `sinks`, `prefix` and `distinct` of `allowed_tuples`.

    >>> masked_scores(torch.ones(2, 1), [torch.tensor([[3.0], [4.0]])], is_causal=True).tolist()
    [[3.0, -inf], [3.0, 4.0]]
    """
    if enable_gqa:
        keys = [key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3) for key in keys]
    scale = 1 / query.shape[-1] if scale is None else scale
    S = tensor_scores(query, keys, scale)
    lengths = [key.shape[-2] for key in keys]
    allowed = allowed_tuples(
        query.shape[-2],
        lengths,
        is_causal=is_causal,
        query_offset=query_offset,
        windows=windows,
        device=query.device,
        **places,
    ).expand(S.shape)
    for m, mask in enumerate(key_masks or ()):
        if mask is not None:
            allowed = allowed & mask.reshape(*mask.shape[:-1], 1, *_axis(m, lengths))
    return S.masked_fill(~allowed, -torch.inf)


def _softmax(S: Tensor) -> tuple[Tensor, Tensor]:
    """The softmax over the last dimension and its log-sum-exp; zeros and -inf where all scores are -inf."""
    empty = S.isneginf().all(-1)
    S = S.masked_fill(empty.unsqueeze(-1), 0.0)
    weights = torch.softmax(S, -1).masked_fill(empty.unsqueeze(-1), 0.0)
    return weights, torch.logsumexp(S, -1).masked_fill(empty, -torch.inf)


def attention_weights(query: Tensor, keys: Sequence[Tensor], **options: Any) -> Tensor:
    """The weights (..., L_q, L_1, ..., L_{k-1}) of all tuples, D^{-1} A; options as in `masked_scores`.

    >>> attention_weights(torch.zeros(1, 1), [torch.ones(2, 1)] * 2).tolist()
    [[[0.25, 0.25], [0.25, 0.25]]]
    """
    S = masked_scores(query, keys, **options)
    return _softmax(S.flatten(-len(keys)))[0].reshape(S.shape)


def top_tuples(query: Tensor, keys: Sequence[Tensor], k: int, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The k tuples of largest weight, their weights and the log-sum-exp; options as in `masked_scores`.

    The indices are (..., L_q, k, order - 1) with -1 where there are fewer tuples. Among equal scores the
    lexicographically first tuple comes first.

    >>> indices, weights, lse = top_tuples(torch.zeros(1, 1), [torch.ones(2, 1)], 3)
    >>> indices.tolist(), weights.tolist()
    ([[[0], [1], [-1]]], [[0.5, 0.5, 0.0]])
    """
    S = masked_scores(query, keys, **options)
    lengths, rows = S.shape[-len(keys) :], S.flatten(-len(keys))
    weights, lse = _softmax(rows)
    short = max(0, k - rows.shape[-1])
    ranked, places = rows.sort(dim=-1, descending=True, stable=True)
    indices = torch.stack(torch.unravel_index(places[..., :k], lengths), -1)
    indices = indices.masked_fill((ranked[..., :k] == -torch.inf).unsqueeze(-1), -1)
    of_indices = weights.gather(-1, places[..., :k])
    pad = torch.nn.functional.pad
    return pad(indices, (0, 0, 0, short), value=-1), pad(of_indices, (0, short)), lse


def tensor_attention(
    query: Tensor,
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    *,
    enable_gqa: bool = False,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """Order-k softmax attention and its log-sum-exp (Definition 1.5); options as in `masked_scores`.

    >>> V = torch.tensor([[2.0], [4.0]])
    >>> out, lse = tensor_attention(torch.zeros(1, 1), [torch.ones(2, 1)] * 2, [V, V])
    >>> out.item(), round(lse.exp().item(), 5)  # the mean of 4, 8, 8, 16 over four tuples
    (9.0, 4.0)
    """
    S = masked_scores(query, keys, enable_gqa=enable_gqa, **options)
    if enable_gqa:
        values = [value.repeat_interleave(query.shape[-3] // value.shape[-3], dim=-3) for value in values]
    # Definition 2.4 puts the first index fastest, row-major flattening the last: hence the reversal.
    tuples = tuple(range(-1, -1 - len(keys), -1))
    weights, lse = _softmax(S.movedim(tuples, tuple(range(-len(keys), 0))).flatten(-len(keys)))
    return weights @ column_kronecker(*values), lse


def linear_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention with `lin` in place of `exp`: row i of Q K^T divided by its sum, times V (Definition C.1).

    >>> linear_attention(torch.tensor([[1.0]]), torch.tensor([[1.0], [3.0]]), torch.tensor([[0.0], [4.0]])).item()
    3.0
    """
    u = query @ key.mT
    return (u / u.sum(-1, keepdim=True)) @ value
