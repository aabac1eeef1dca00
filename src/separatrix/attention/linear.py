r"""Linear attention: softmax attention with exp(q . k) replaced by phi(q) . phi(k), in time linear in the length.

    out_i = phi(q_i)^T (sum_j phi(k_j) v_j^T) / alpha_i,    alpha_i = phi(q_i)^T sum_j phi(k_j)

With phi the identity this is Definition C.1 of Yichuan Deng, Zhao Song, Kaijun Yuan and Tianyi Zhou, "Why Softmax
Attention Outperforms Linear Attention": its u_lin is the row of phi(q_i) . phi(k_j), its alpha_lin our normaliser.

When does a normaliser vanish in floating point? Let m_i = |phi(q_i)|^T sum_j |phi(k_j)| be alpha_i without
cancellation, n = L_k + r the longest chain of roundings on the way to it, u and u' the unit roundoffs of the dtypes in
which the numerator and alpha_i are summed, and gamma_n = n u' / (1 - n u'). We raise an error if

    |alpha_i| <= (u + gamma_n) m_i + n tiny

where tiny is the smallest normal number. The term u m_i concerns the numerator: below it, changing each product by one
rounding, which the numerator's arithmetic does anyway, could make alpha_i vanish, so no digit of the quotient is known.
The term gamma_n m_i is the worst-case error of alpha_i itself, which is summed in float64, so that gamma_n is
negligible for narrower dtypes: with float32 sums nearly one percent of the valid queries would raise an error for a
thousand Gaussian keys. The last term bounds underflow. With features of one sign m_i = alpha_i, and only the term for
underflow remains. Close to the threshold the quotient is ill conditioned, by m_i / |alpha_i|; that belongs to the
definition, and no algorithm removes it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from separatrix.attention.arguments import check_tensor
from separatrix.attention.arithmetic.precision import no_autocast
from separatrix.attention.dispatch.registration import operator
from separatrix.attention.features import FeatureMap, mapped
from separatrix.checks import flag
from separatrix.errors import ArgumentError, SeparatrixError

__all__ = ["linear_attention"]

_ACCUMULATES_IN = {
    torch.float64: torch.float64,
    torch.float32: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
}


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    feature_map: str | FeatureMap = "identity",
    is_causal: bool = False,
) -> Tensor:
    """Linear attention by associativity, O((L_q + L_k) r d_v) for r features, with linear memory, gradients too.

    Args:
        query: The queries, (..., L_q, d). The leading dimensions of all three tensors broadcast.
        key: The keys, (..., L_k, d).
        value: The values, (..., L_k, d_v).
        feature_map: "identity" (the paper's `lin`), "elu", "relu", "taylor2", a map made by
            `separatrix.attention.features.random_positive`, or any callable from (..., L, d) to (..., L, r).
        is_causal: Whether query i attends only the keys j <= i; the lengths must then be equal.

    Returns:
        The output, (..., L_q, d_v).

    **There is no scale**: neither 1/d nor 1/sqrt(d). For "identity" and "relu" a positive scale would cancel; for the
    other maps multiply the query by the scale.

    **The normaliser alpha_i can vanish**: "identity" has weights of either sign, "relu" may have none. A vanishing
    normaliser raises a `SeparatrixError` with the batch index and the query position; nothing is added to the
    denominator. The module's docstring defines when a normaliser vanishes in floating point.

    With no keys (L_k = 0) there is nothing to attend and every query gets zeros, as in `tensor_attention`. bfloat16
    and float16 are mapped and summed in float32; the normaliser is summed in float64 wherever the device has it.
    Inside `torch.autocast` the same holds: the inputs keep their dtypes.

    Example:
        >>> q, k, v = torch.tensor([[1.0]]), torch.tensor([[1.0], [3.0]]), torch.tensor([[0.0], [4.0]])
        >>> linear_attention(q, k, v).item()  # (1 * 0 + 3 * 4) / (1 + 3)
        3.0
        >>> linear_attention(k, k, v, is_causal=True).tolist()
        [[0.0], [3.0]]
        >>> linear_attention(q, torch.tensor([[1.0], [-1.0]]), v)
        Traceback (most recent call last):
            ...
        separatrix.errors.SeparatrixError: linear_attention: the normaliser of query position 0 vanishes: \
its terms sum to 0, their magnitudes to 2.
    """
    _check(query, key, value, is_causal)
    dtype = _ACCUMULATES_IN[query.dtype]
    with no_autocast(query.device.type):
        phi_q, phi_k = mapped(feature_map, query.to(dtype), key.to(dtype))
        V = value.to(dtype)
        numerator = _numerator(phi_q, phi_k, V, is_causal)
        if key.shape[-2] == 0:
            return numerator.to(query.dtype)
        alpha = _normaliser(phi_q, phi_k, is_causal)
        return (numerator / alpha.to(dtype).unsqueeze(-1)).to(query.dtype)


def _numerator(phi_q: Tensor, phi_k: Tensor, V: Tensor, is_causal: bool) -> Tensor:
    """The sums over j, or over j <= i, of (phi_q[i] . phi_k[j]) V[j]; with V = 1 they are the normalisers.

    Causal sums are computed chunk by chunk: earlier tokens contribute through the state, the sum of phi_k[j] V[j]^T,
    and the tokens of the chunk through its lower triangle.
    """
    if not is_causal:
        return phi_q @ (phi_k.mT @ V)
    L = phi_q.shape[-2]
    size = _chunk_size(L, phi_q.shape[-1], V.shape[-1])
    extra = -L % size
    chunks = (L + extra) // size
    q, k, v = (pad(x, (0, 0, 0, extra)).reshape(*x.shape[:-2], chunks, size, x.shape[-1]) for x in (phi_q, phi_k, V))
    states = (k.mT @ v).cumsum(-3)
    before = pad(states[..., :-1, :, :], (0, 0, 0, 0, 1, 0))
    out = (q @ k.mT).tril() @ v + q @ before
    return out.flatten(-3, -2)[..., :L, :]


def _chunk_size(length: int, features: int, value_dim: int) -> int:
    """The chunk size at which both parts of a causal sum cost the same: the power of two at or above the harmonic mean
    of r and d_v.

    Per token, the triangle takes size * (r + d_v) products, the states 2 r d_v.

    >>> _chunk_size(10_000, 64, 64), _chunk_size(10_000, 2145, 64), _chunk_size(10, 64, 64)
    (64, 128, 16)
    """
    balanced = 2 * features * value_dim / max(features + value_dim, 1)
    size = 16
    while size < min(balanced, length):
        size *= 2
    return size


def _normaliser(phi_q: Tensor, phi_k: Tensor, is_causal: bool) -> Tensor:
    """alpha, summed in float64 if the device supports it; an error if it vanishes."""
    wide = torch.float32 if phi_q.device.type == "mps" else torch.float64
    ones = phi_k.new_ones(phi_k.shape[-2], 1)
    alpha = _numerator(phi_q.to(wide), phi_k.to(wide), ones.to(wide), is_causal).squeeze(-1)
    magnitude = _numerator(phi_q.detach().abs(), phi_k.detach().abs(), ones, is_causal).squeeze(-1).to(wide)
    n = phi_k.shape[-2] + phi_k.shape[-1]
    growth = n * torch.finfo(wide).eps / 2
    relative = torch.finfo(phi_q.dtype).eps / 2 + growth / (1 - growth)
    # The operator raises an error if a normaliser vanishes, so `masked_fill` changes nothing; using the operator's
    # result keeps it in compiled graphs.
    lost = refuse_vanishing(alpha.detach(), magnitude, relative, n * torch.finfo(phi_q.dtype).tiny)
    return alpha.masked_fill(lost, torch.nan)


# A custom operator, because the check reads entries: compilers keep it in the graph, and vmap passes it the whole
# batch.
def _refuse_vanishing(alpha: Tensor, magnitude: Tensor, relative: float, absolute: float) -> Tensor:
    # If the magnitudes overflow, only an exact zero is known to vanish; inf and nan are returned.
    bound = torch.where(magnitude.isfinite(), relative * magnitude + absolute, 0.0)
    lost = alpha.abs() <= bound
    where = lost.nonzero()
    if len(where):
        *batch, position = where[0].tolist()
        at = f" at batch index {tuple(batch)}" if batch else ""
        more = f" It vanishes for {len(where)} queries in all." if len(where) > 1 else ""
        raise SeparatrixError(
            f"linear_attention: the normaliser of query position {position}{at} vanishes: its terms sum to "
            f"{alpha[lost][0].item():.3g}, their magnitudes to {magnitude[lost][0].item():.3g}.{more}"
        )
    return lost


def _refused(alpha: Tensor, magnitude: Tensor, relative: float, absolute: float) -> Tensor:
    return torch.empty_like(alpha, dtype=torch.bool)


refuse_vanishing = operator(_refuse_vanishing, fake=_refused)


def _vmap(
    info: Any, in_dims: tuple[int, ...], alpha: Tensor, magnitude: Tensor, relative: float, absolute: float
) -> tuple[Tensor, int]:
    # Both come from the same features, so `vmap` maps over both or neither.
    alpha, magnitude = (x.movedim(dim, 0) for x, dim in zip((alpha, magnitude), in_dims[:2], strict=True))
    return refuse_vanishing(alpha, magnitude, relative, absolute), 0


torch.library.register_vmap(refuse_vanishing, _vmap)


def _check(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> None:
    check_tensor("query", query)
    for name, x in (("key", key), ("value", value)):
        check_tensor(name, x, dtype=query.dtype, device=query.device)
    flag("is_causal", is_causal)
    if key.shape[-1] != query.shape[-1]:
        raise ArgumentError("key", expected=f"the query's width {query.shape[-1]}", got=_shape(key))
    if value.shape[-2] != key.shape[-2]:
        raise ArgumentError("value", expected=f"the key's length {key.shape[-2]}", got=_shape(value))
    if is_causal and key.shape[-2] != query.shape[-2]:
        raise ArgumentError("key", expected=f"the query's length {query.shape[-2]} (is_causal)", got=_shape(key))
    batch = query.shape[:-2]
    for name, x in (("key", key), ("value", value)):
        try:
            batch = batch if x.shape[:-2] == batch else torch.broadcast_shapes(batch, x.shape[:-2])
        except RuntimeError as error:
            raise ArgumentError(
                name, expected=f"leading dimensions that broadcast with {tuple(batch)}", got=_shape(x)
            ) from error


def _shape(x: Tensor) -> str:
    return f"shape {tuple(x.shape)}"
