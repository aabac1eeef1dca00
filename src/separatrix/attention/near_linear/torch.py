"""Near-linear attention in plain PyTorch: the backend for devices without kernels and where no compiler is installed.

This backend is correct and short, but not fast: it stores all monomials of a chunk and, in the causal scan, the states
after each token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from separatrix.attention.arithmetic.rounding import Summing
from separatrix.attention.bounds import product_of
from separatrix.attention.call import Call
from separatrix.attention.near_linear.approximation.monomials import IndexSet, monomials, monomials_backward
from separatrix.attention.near_linear.cost import CHUNK_TOKENS, causal_chunk, chunk_tokens

if TYPE_CHECKING:
    from separatrix.attention.near_linear.backend import StreamPlan
    from separatrix.attention.near_linear.sums import Expansion

NAME = "torch"
TOKENS_OF_A_LANE = CHUNK_TOKENS


def takes(tensors: Sequence[Tensor], sets: int, columns: int) -> bool:
    return True


def add(index_set: IndexSet, state: Tensor, x: Tensor, W: Tensor) -> None:
    features = monomials(x, index_set)
    if features.dtype == state.dtype:
        torch.baddbmm(state, features, W.mT, out=state)  # an in-place product would not be counted among the flops
    else:
        state += torch.bmm(features, W.mT)


def sums(index_set: IndexSet, x: Tensor, M: Tensor) -> Tensor:
    return torch.bmm(M.mT, monomials(x, index_set))


def gradient(index_set: IndexSet, x: Tensor, M: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    features = monomials(x, index_set)
    return monomials_backward(x, index_set, features, torch.bmm(M, W)), torch.bmm(M.mT, features)


def one_pass(expansion: Expansion, x: Tensor, m: int, values: Tensor) -> None:
    return None


def scan_tokens(heads: int, rank: int, columns: int, sets: int, is_backward: bool) -> int:
    return causal_chunk(heads, rank, columns)


def scan_summing(call: Call, rank: int) -> Summing:
    """Tokens are summed in the chunks of the scan, and the keys before the first query in the chunks of a call that is
    not causal."""
    heads, columns = call.query.shape[0], call.values[0].shape[2] + 1
    chunk, scanned = chunk_tokens(heads, rank, True), causal_chunk(heads, rank, columns)
    return Summing(max(chunk, scanned), min(chunk, scanned))


class _Running(NamedTuple):
    """The monomials (H, rank, c) of a key set's chunk, and the states (H, c, rank, d_v + 1) after each token."""

    features: Tensor
    states: Tensor


def _running(index_set: IndexSet, x: Tensor, W: Tensor, before: Tensor) -> _Running:
    features = monomials(x, index_set)
    added = features.mT.unsqueeze(-1) * W.mT.unsqueeze(2)
    return _Running(features, before.unsqueeze(1) + added.cumsum(1))


def scan(
    expansion: Expansion, query: Tensor, x: list[Tensor], W: list[Tensor], Z: list[Tensor]
) -> tuple[Tensor, Tensor, list[Tensor]]:
    index_set = expansion.index_set
    states = [_running(index_set, *key_set).states for key_set in zip(x, W, Z, strict=True)]
    product, terms, level = product_of(states), slice(expansion.terms), slice(*expansion.level)
    features, columns = monomials(query, index_set).mT, product.shape[-1] - expansion.weighted
    totals = torch.einsum(
        "hcr,hcrv->hcv", features[..., terms] * expansion.coefficients, product[:, :, terms, :columns]
    )
    moments = features.new_zeros(*features.shape[:2], 1)
    if expansion.moment is not None:
        weights = features[..., level] * expansion.moment_weights()[level]
        moments = torch.einsum("hcr,hcrv->hcv", weights, product[:, :, level, columns - 1 :])
    return totals, moments, [running[:, -1] for running in states]


def scan_keys(expansion: Expansion, x: list[Tensor], W: list[Tensor], Z: list[Tensor]) -> list[Tensor]:
    states = [z.clone() for z in Z]
    heads, columns, length = W[0].shape
    size = causal_chunk(heads, expansion.index_set.rank, columns)
    for state, coordinates, values in zip(states, x, W, strict=True):
        for start in range(0, length, size):
            here = slice(start, start + size)
            add(expansion.index_set, state, coordinates[..., here], values[..., here])
    return states


def scan_backward(
    expansion: Expansion,
    query: Tensor,
    x: list[Tensor],
    W: list[Tensor],
    Z: list[Tensor],
    grad: Tensor,
    grad_Z: list[Tensor],
) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
    """The term of a token is part of the states of all later tokens, so its gradient is the sum of the gradients of
    these states, computed from the last token on.
    """
    index_set, coefficients = expansion.index_set, expansion.coefficients
    sets = [_running(index_set, *key_set) for key_set in zip(x, W, Z, strict=True)]
    product = product_of([running.states for running in sets])
    features = monomials(query, index_set)
    grad_features = torch.einsum("hcv,hcrv->hrc", grad, product) * coefficients.unsqueeze(-1)
    grad_query = monomials_backward(query, index_set, features, grad_features)
    grad_product = (features.mT * coefficients).unsqueeze(-1) * grad.unsqueeze(2)
    grad_x, grad_W, before = [], [], []
    for m, running in enumerate(sets):
        other_states = [other.states for n, other in enumerate(sets) if n != m]
        grad_states = product_of([grad_product, *other_states])
        grad_added = grad_states.flip(1).cumsum(1).flip(1) + grad_Z[m].unsqueeze(1)
        grad_features = torch.einsum("hcrv,hvc->hrc", grad_added, W[m])
        grad_x.append(monomials_backward(x[m], index_set, running.features, grad_features))
        grad_W.append(torch.einsum("hcrv,hrc->hvc", grad_added, running.features))
        before.append(grad_added[:, 0])
    return grad_query, grad_x, grad_W, before


def stream_kernels(plan: StreamPlan) -> None:
    return None
