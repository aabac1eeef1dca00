r"""Exact attention and its derivatives with the whole attention tensor held: what can be differentiated and decomposed.

With scores S and weights P = softmax(S) over the tuples of keys (Definition 1.5 of Alman and Song),

    backward:  G = dO . V_1 . ... . V_{k-1},    dS = P * (G - sum_t P_t G_t + dlse),
               dQ = scale dS . K_1 . ... . K_{k-1},    dK_m = scale dS . Q . (all K but K_m),
               dV_m = P . dO . (all V but V_m)
    forward:   S' = scale (Q' . K_1 . ... + Q . K_1' . ... + ...),    lse' = sum_t P_t S'_t,
               out' = (P * (S' - lse')) . V_1 . ... + P . V_1' . ... + ...

where * is entrywise, a dot sums over all indices that the result does not have, and a prime is a tangent. All of it is
made of PyTorch's own functions, so that second derivatives and higher ones come from PyTorch, in either mode, and so
that attention can be exported to a format that has standard operators only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import ascii_lowercase

import torch
from torch import Tensor

from separatrix.attention import reference
from separatrix.errors import SeparatrixError

LARGEST_VOLUME = 1 << 22
"""The largest H * L_q * L_1 * ... * L_{k-1} of which derivatives are computed."""
LARGEST_DECOMPOSED_VOLUME = 1 << 28
"""The largest H * L_q * L_1 * ... * L_{k-1} that attention is decomposed at: 1 GiB in float32."""


def attend(
    query: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    masks: list[Tensor | None],
    is_causal: bool,
    offset: int,
    windows: list[int],
    scale: float,
) -> tuple[Tensor, Tensor]:
    """What the operator of this name gives, without its guards, for finite input whose scores are in range."""
    lengths = [key.shape[1] for key in keys]
    volume = _example_size(math.prod((*query.shape[:2], *lengths)))
    if volume > LARGEST_DECOMPOSED_VOLUME:
        raise SeparatrixError(
            "Exact attention in standard operators (torch.onnx.export) holds the whole attention tensor, of at most "
            f"{LARGEST_DECOMPOSED_VOLUME} entries; this call has {volume}. Export with a shorter example or a smaller "
            "batch, or compile the model by AOTInductor, which keeps the operator."
        )
    computed_in = torch.float64 if query.dtype == torch.float64 else torch.float32
    Q = query.to(computed_in)
    of_queries = _of_queries(masks, Q)
    K, V = (_shown(_of_queries(sets, Q), of_queries, computed_in) for sets in (keys, values))
    out, lse = reference.tensor_attention(
        Q,
        K,
        V,
        is_causal=is_causal,
        query_offset=offset,
        key_masks=of_queries or None,
        windows=[window or None for window in windows],
        scale=scale,
    )
    return out.to(query.dtype), lse


def _example_size(size: int | torch.SymInt) -> int:
    """A size; for a symbolic size, its value in the example that the graph is made from."""
    if isinstance(size, int):
        return size
    from torch.fx.experimental.symbolic_shapes import optimization_hint  # which imports SymPy

    return optimization_hint(size)


def attend_backward(
    query: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    masks: list[Tensor | None],
    is_causal: bool,
    offset: int,
    windows: list[int],
    scale: float,
    out: Tensor,
    lse: Tensor,
    grad_out: Tensor,
    grad_lse: Tensor,
) -> list[Tensor]:
    """What the operator of this name gives; `out` and `lse` are functions of the rest, and are not used."""
    Q, dO = query.to(lse.dtype), grad_out.to(lse.dtype)
    of_queries = _of_queries(masks, Q)
    K, V = (_shown(_of_queries(sets, Q), of_queries, lse.dtype) for sets in (keys, values))
    P = _weights(Q, K, of_queries, is_causal, offset, windows, scale)
    G = reference.tensor_scores(dO, V, 1.0)
    dS = scale * P * (G - _as_rows((P * G).flatten(2).sum(-1) - grad_lse, P))
    sets = range(1, len(K) + 1)
    grads = [_onto(m, dS, (Q, *K)) for m in (0, *sets)] + [_onto(m, P, (dO, *V)) for m in sets]
    shared = query.shape[0] // max(keys[0].shape[0], 1)
    if shared > 1:
        grads = [grads[0], *(x.unflatten(0, (-1, shared)).sum(1) for x in grads[1:])]
    return [x.to(query.dtype) for x in grads]


def attend_tangents(
    query: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    masks: list[Tensor | None],
    is_causal: bool,
    offset: int,
    windows: list[int],
    scale: float,
    out: Tensor,
    lse: Tensor,
    query_tangent: Tensor,
    key_tangents: list[Tensor],
    value_tangents: list[Tensor],
) -> tuple[Tensor, Tensor]:
    """What the operator of this name gives; `out` and `lse` are functions of the rest, and are not used."""
    Q, Q_dot = query.to(lse.dtype), query_tangent.to(lse.dtype)
    of_queries = _of_queries(masks, Q)
    given = (keys, values, key_tangents, value_tangents)
    K, V, K_dot, V_dot = (_shown(_of_queries(sets, Q), of_queries, lse.dtype) for sets in given)
    P = _weights(Q, K, of_queries, is_causal, offset, windows, scale)
    S_dot = reference.tensor_scores(Q_dot, K, scale)
    for m, x in enumerate(K_dot):
        S_dot = S_dot + reference.tensor_scores(Q, [*K[:m], x, *K[m + 1 :]], scale)
    lse_dot = (P * S_dot).flatten(2).sum(-1)
    out_dot = _onto(0, P * (S_dot - _as_rows(lse_dot, P)), (Q, *V))
    for m, x in enumerate(V_dot):
        out_dot = out_dot + _onto(0, P, (Q, *V[:m], x, *V[m + 1 :]))
    return out_dot.to(query.dtype), lse_dot


def _of_queries(sets: Sequence[Tensor | None], Q: Tensor) -> list[Tensor]:
    """Keys, values or masks, if there are any, for each head of the queries Q, of which several may share them."""
    heads = Q.shape[0]
    given = [x for x in sets if x is not None]
    return [x if x.shape[0] == heads else x.repeat_interleave(heads // x.shape[0], 0) for x in given]


def _shown(sets: Sequence[Tensor], masks: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    if not masks:
        return [x.to(dtype) for x in sets]
    return [x.to(dtype).masked_fill(~mask.unsqueeze(-1), 0.0) for x, mask in zip(sets, masks, strict=True)]


def _weights(
    Q: Tensor,
    K: list[Tensor],
    masks: Sequence[Tensor],
    is_causal: bool,
    offset: int,
    windows: Sequence[int],
    scale: float,
) -> Tensor:
    """P (H, L_q, L_1, ..., L_{k-1}), zero for a query with nothing to attend."""
    lengths = [key.shape[1] for key in K]
    volume = math.prod((*Q.shape[:2], *lengths))
    if volume > LARGEST_VOLUME:
        raise SeparatrixError(
            "The second derivative of exact attention holds the whole attention tensor, of at most "
            f"{LARGEST_VOLUME} entries; this call has {volume}."
        )
    allowed = reference.allowed_tuples(
        Q.shape[1],
        lengths,
        is_causal=is_causal,
        query_offset=offset,
        windows=[window or None for window in windows],
        device=Q.device,
    ).unsqueeze(0)
    for m, mask in enumerate(masks):
        axes = [length if other == m else 1 for other, length in enumerate(lengths)]
        allowed = allowed & mask.reshape(-1, 1, *axes)
    S = reference.tensor_scores(Q, K, scale)
    allowed = allowed.expand(S.shape).flatten(2)
    empty = ~allowed.any(-1, keepdim=True)
    weights = S.flatten(2).masked_fill(~allowed, -torch.inf).masked_fill(empty, 0.0).softmax(-1)
    return weights.masked_fill(empty, 0.0).reshape(S.shape)


def _as_rows(x: Tensor, P: Tensor) -> Tensor:
    """(H, L_q), to be subtracted from each tuple of P."""
    return x.reshape(*x.shape, *[1] * (P.dim() - 2))


def _onto(m: int, T: Tensor, rows: Sequence[Tensor]) -> Tensor:
    """The sum of T (H, L_q, L_1, ...) against all rows (H, L, x), query first, but those at m: (H, L_m, x)."""
    axes = ascii_lowercase[: len(rows)]
    factors = [(axis, x) for other, (axis, x) in enumerate(zip(axes, rows, strict=True)) if other != m]
    left = ",".join([f"y{axes}", *(f"y{axis}z" for axis, _ in factors)])
    return torch.einsum(f"{left}->y{axes[m]}z", T, *(x for _, x in factors))
