r"""The polynomial method where query i attends j_m <= i + offset only: prefix states, chunk by chunk.

The states of the keys up to a position are prefix sums, and the Hadamard product of prefix states is the state of
all tuples up to there. At order >= 3 it is not linear in any one of them, so a query needs the product of *its own*
prefixes: within a chunk of c tokens they are c running sums (c, rank, d_v + 1) a key set, which is the memory the
chunk takes; between chunks one state a set is carried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from separatrix.attention import cost
from separatrix.attention.frame import Tokens
from separatrix.attention.monomials import IndexSet, monomials, monomials_backward
from separatrix.attention.polynomial import (
    Expansion,
    Sums,
    grad_sums,
    incoming_power,
    key_state,
    state_backward,
    with_ones,
)

Rows = tuple[Tensor, list[Tensor], list[Tensor]]


class _Monomials(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, index_set: IndexSet) -> Tensor:
        features = monomials(x, index_set)
        ctx.index_set = index_set
        ctx.save_for_backward(x, features)
        return features

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, features = ctx.saved_tensors
        return monomials_backward(x, ctx.index_set.steps, features, grad.clone()), None


_monomials: Callable[[Tensor, IndexSet], Tensor] = _Monomials.apply


def chunk_size(tokens: Tokens, expansion: Expansion) -> int:
    """Tokens of a chunk."""
    return cost.causal_chunk(tokens.query.shape[0], expansion.index_set.rank, tokens.values[0].shape[2] + 1)


def _local(x: Tensor, start: int, stop: int) -> Tensor:
    """Rows [start, stop) of (H, L, ...), with zeros where they fall outside."""
    inside = x[:, max(start, 0) : max(stop, 0)]
    before, after = max(0, min(stop, 0) - start), (stop - start) - inside.shape[1] - max(0, min(stop, 0) - start)
    if not before and not after:
        return inside
    rest = x.shape[2:]
    return torch.cat([x.new_zeros(x.shape[0], before, *rest), inside, x.new_zeros(x.shape[0], after, *rest)], 1)


def _chunk(
    tokens: Tokens, expansion: Expansion, rows: Rows, masks: list[Tensor], Z: list[Tensor]
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """A chunk's sums (H, c, d_v + 1), its moments (H, c), and the states after it."""
    query, keys, values = rows
    index_set, dtype = expansion.index_set, torch.float64
    product, after = None, []
    for m, (key, value) in enumerate(zip(keys, values, strict=True)):
        x = expansion.frame.coordinates(key, m + 1, masks[m]).to(dtype)
        added = _monomials(x, index_set).mT.unsqueeze(-1) * with_ones(value, masks[m], dtype).mT.unsqueeze(2)
        running = Z[m].unsqueeze(1) + added.cumsum(1)
        after.append(running[:, -1])
        product = running if product is None else product * running
    assert product is not None
    x = expansion.frame.coordinates(query, 0).to(dtype)
    features = _monomials(x, index_set).mT
    sums = torch.einsum("hcr,hcrv->hcv", features * expansion.coefficients.to(dtype), product)
    moment = features.new_zeros(features.shape[:2])
    if expansion.moment is not None:
        level = slice(*index_set.levels[expansion.moment])
        weights = torch.from_numpy(index_set.multinomials()[level]).to(features)
        moment = torch.einsum("hcr,hcr->hc", features[..., level] * weights, product[:, :, level, -1])
    return sums, moment, after


def _rows(tokens: Tokens, offset: int, start: int, stop: int) -> tuple[Rows, list[Tensor]]:
    """Queries [start, stop), the keys and values at their positions, and which of these there are and may be seen."""
    keys = [_local(key, start + offset, stop + offset) for key in tokens.keys]
    values = [_local(value, start + offset, stop + offset) for value in tokens.values]
    masks = []
    for m, key in enumerate(tokens.keys):
        seen = tokens.masks[m] if tokens.masks else torch.ones(key.shape[:2], dtype=torch.bool, device=key.device)
        masks.append(_local(seen, start + offset, stop + offset))
    return (tokens.query[:, start:stop], keys, values), masks


def _first_states(
    tokens: Tokens, expansion: Expansion, offset: int, before: Sequence[Tensor] | None = None
) -> list[Tensor]:
    """The states of the keys before the first query's own position, those of `before` among them."""
    own = [key_state(tokens, expansion, m, 0, min(max(offset, 0), key.shape[1])) for m, key in enumerate(tokens.keys)]
    return own if before is None else [z + earlier for z, earlier in zip(own, before, strict=True)]


def attend_causal(tokens: Tokens, expansion: Expansion, offset: int, before: Sequence[Tensor] | None = None) -> Sums:
    """Every query against the states of its prefix; `before` are the states of tokens before all of these."""
    heads, length, _ = tokens.query.shape
    d_v = tokens.values[0].shape[2]
    out = tokens.query.new_empty(heads, length, d_v)
    denominator, moments = (tokens.query.new_empty(heads, length, dtype=torch.float64) for _ in range(2))
    Z = _first_states(tokens, expansion, offset, before)
    size = chunk_size(tokens, expansion)
    for start in range(0, length, size):
        stop = min(start + size, length)
        sums, moment, Z = _chunk(tokens, expansion, *_rows(tokens, offset, start, stop), Z)
        D = denominator[:, start:stop] = sums[..., d_v]
        moments[:, start:stop] = moment
        out[:, start:stop] = sums[..., :d_v] / D.masked_fill(D == 0, math.inf).unsqueeze(-1)
    return Sums(out, denominator, moments)


def backward_causal(
    tokens: Tokens, expansion: Expansion, sums: Sums, offset: int, grad_out: Tensor, grad_lse: Tensor
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """The gradients of query, keys and values."""
    return backward_causal_after(tokens, expansion, sums, offset, None, grad_out, grad_lse)[:3]


def backward_causal_after(
    tokens: Tokens,
    expansion: Expansion,
    sums: Sums,
    offset: int,
    before: Sequence[Tensor] | None,
    grad_out: Tensor,
    grad_lse: Tensor,
) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
    """The gradients of query, keys, values and the states `before`, from the last chunk to the first.

    A chunk needs the states before it. They are kept at the start of every section of about sqrt(chunks) chunks, and
    within the section at hand: two square roots in place of all of them.
    """
    power = incoming_power(sums, grad_out, grad_lse)
    length, size = tokens.query.shape[1], chunk_size(tokens, expansion)
    starts = list(range(0, length, size))
    per_section = max(1, math.isqrt(len(starts)))
    sections = [starts[i : i + per_section] for i in range(0, len(starts), per_section)]
    grad_query = torch.zeros_like(tokens.query)
    grad_keys = [torch.zeros_like(key) for key in tokens.keys]
    grad_values = [torch.zeros_like(value) for value in tokens.values]

    def advance(Z: list[Tensor], start: int, stop: int) -> list[Tensor]:
        moved = []
        for m, (z, key) in enumerate(zip(Z, tokens.keys, strict=True)):
            first, last = (min(max(position + offset, 0), key.shape[1]) for position in (start, stop))
            moved.append(z + key_state(tokens, expansion, m, first, last))
        return moved

    first_states = _first_states(tokens, expansion, offset, before)
    at_section = [first_states][: len(sections)]
    for section, after in pairwise(sections):
        at_section.append(advance(at_section[-1], section[0], after[0]))
    grad_Z = [torch.zeros_like(z) for z in first_states]
    for section, Z in zip(reversed(sections), reversed(at_section), strict=True):
        at_chunk = [Z]
        for start, stop in pairwise(section):
            at_chunk.append(advance(at_chunk[-1], start, stop))
        for start, states in zip(reversed(section), reversed(at_chunk), strict=True):
            stop = min(start + size, length)
            here = slice(start, stop)
            (query, keys, values), masks = _rows(tokens, offset, start, stop)
            leaves = [x.detach().to(torch.float64).requires_grad_() for x in (query, *keys, *values, *states)]
            count = len(keys)
            rows = (leaves[0], leaves[1 : 1 + count], leaves[1 + count : 1 + 2 * count])
            with torch.enable_grad():
                found, _, after_states = _chunk(tokens, expansion, rows, masks, leaves[1 + 2 * count :])
            into = power.divide(grad_sums(sums, here, grad_out[:, here], grad_lse[:, here]))
            grads = torch.autograd.grad([found, *after_states], leaves, [into, *grad_Z])
            grad_query[:, here] = power.multiply(grads[0])
            for m in range(count):
                _put(grad_keys[m], start + offset, power.multiply(grads[1 + m]))
                _put(grad_values[m], start + offset, power.multiply(grads[1 + count + m]))
            grad_Z = list(grads[1 + 2 * count :])
    grad_Z = [power.multiply(z) for z in grad_Z]
    for m, key in enumerate(tokens.keys):
        stop = min(max(offset, 0), key.shape[1])
        state_backward(tokens, expansion, m, stop, grad_Z[m], grad_keys[m], grad_values[m])
    return grad_query, grad_keys, grad_values, grad_Z


def _put(into: Tensor, start: int, rows: Tensor) -> None:
    """Write rows at [start, start + c) of (H, L, ...), as far as they fall inside."""
    first, last = max(start, 0), min(start + rows.shape[1], into.shape[1])
    if first < last:
        into[:, first:last] = rows[:, first - start : last - start]
