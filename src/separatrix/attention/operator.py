"""`tensor_attention`: order-k attention, the one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, overload

from torch import Tensor

from separatrix.attention.arguments import Call, check_call
from separatrix.attention.exact import exact_attention, fused_attention
from separatrix.errors import ArgumentError

Sets = Tensor | Sequence[Tensor]

METHODS: dict[str, Callable[[Call], tuple[Tensor, Tensor]]] = {"exact": exact_attention}
"""The algorithms by name; each takes a checked call and gives the output and the log-sum-exp."""


@overload
def tensor_attention(
    query: Tensor,
    keys: Sets,
    values: Sets,
    *,
    is_causal: bool = ...,
    query_offset: int = ...,
    key_masks: Tensor | Sequence[Tensor | None] | None = ...,
    windows: int | Sequence[int | None] | None = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    method: str = ...,
    tolerance: float | None = ...,
    return_lse: Literal[False] = ...,
) -> Tensor: ...


@overload
def tensor_attention(
    query: Tensor,
    keys: Sets,
    values: Sets,
    *,
    is_causal: bool = ...,
    query_offset: int = ...,
    key_masks: Tensor | Sequence[Tensor | None] | None = ...,
    windows: int | Sequence[int | None] | None = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    method: str = ...,
    tolerance: float | None = ...,
    return_lse: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def tensor_attention(
    query: Tensor,
    keys: Sets,
    values: Sets,
    *,
    is_causal: bool = False,
    query_offset: int = 0,
    key_masks: Tensor | Sequence[Tensor | None] | None = None,
    windows: int | Sequence[int | None] | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    method: str = "auto",
    tolerance: float | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Attention of order k: every query attends tuples of k-1 keys.

        out_i = sum_j  softmax_j( scale * sum_l q_il k_1,j1,l ... k_{k-1},j_{k-1},l )  v_1,j1 * ... * v_{k-1},j_{k-1}

    where j runs over all tuples (j_1, ..., j_{k-1}) and * is entrywise (Alman and Song, "How to Capture Higher-order
    Correlations?", Definition 1.5). Order 2 is ordinary attention.

    **The scale is 1/d by default, as in the paper**, not PyTorch's 1/sqrt(d): pass ``scale=d**-0.5`` for that.

    query: (..., L_q, d).
    keys, values: k-1 tensors (..., L_m, d) and (..., L_m, d_v), or one tensor each for order 2. Leading dimensions
        broadcast. Our k-1 key sets are the paper's K_1, ..., K_{k-1}; at order 2 they are PyTorch's key and value.
    is_causal: only tuples with every j_m <= i + query_offset. Without an offset all lengths must be equal.
    windows: windows[m] = w allows only j_m in (i + query_offset - w, i + query_offset].
    key_masks: key_masks[m], bool (..., L_m), **True where a key may be attended**.
    enable_gqa: heads in dimension -3; each key head serves query heads / key heads consecutive query heads.
    method: "exact", or "auto" for the cheapest that keeps the tolerance.
    tolerance: an absolute error allowed on every entry of the output; None never approximates.
    return_lse: also give the log-sum-exp of the scores, (..., L_q), float32 for half types.

    A query with nothing to attend gives zeros, -inf and zero gradients.

    >>> import torch
    >>> q, k1, k2, v1, v2 = torch.randn(5, 2, 7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> tensor_attention(q, [k1, k2], [v1, v2]).shape
    torch.Size([2, 7, 4])
    >>> out, lse = tensor_attention(q, [k1, k2], [v1, v2], is_causal=True, return_lse=True)
    >>> torch.allclose(out[:, 0], v1[:, 0] * v2[:, 0])  # the first query sees one tuple
    True
    """
    if method != "auto" and method not in METHODS:
        raise ArgumentError("method", expected=f"'auto' or one of {sorted(METHODS)}", got=method)
    if tolerance is not None and not (isinstance(tolerance, (int, float)) and 0 < tolerance < math.inf):
        raise ArgumentError("tolerance", expected="None or a positive finite number", got=tolerance)
    call = check_call(
        query,
        keys,
        values,
        is_causal=is_causal,
        query_offset=query_offset,
        key_masks=key_masks,
        windows=windows,
        scale=scale,
        enable_gqa=enable_gqa,
    )
    if not return_lse:
        out = fused_attention(call)
        if out is not None:
            return out
    out, lse = METHODS["exact" if method == "auto" else method](call)
    return (out, lse) if return_lse else out
