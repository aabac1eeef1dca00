r"""The causal polynomial method, where query i attends only keys j_m <= i + offset: prefix states, chunk by chunk.

The states of the keys up to a position are prefix sums, and the Hadamard product of prefix states is the state of all
tuples up to that position. At order >= 3 this product is not a sum over single tokens, so each query needs the product
of *its own* prefix states. Within a chunk of c tokens these are c running sums (c, rank, d_v + 1) per key set, which
determine the memory of the chunk; between chunks one state per key set is passed on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from separatrix.attention.call import Call
from separatrix.attention.near_linear.backend import NearLinearBackend, backend_of
from separatrix.attention.near_linear.sums import (
    Expansion,
    IncomingGradient,
    Sums,
    key_state,
    state_backward,
    with_ones,
)


def chunk_size(backend: NearLinearBackend, call: Call, rank: int, is_backward: bool) -> int:
    """The number of tokens in a chunk.

    The number does not depend on columns of squares: `scan_summing` counts roundings for chunks of this size.
    """
    columns = call.values[0].shape[2] + 1
    return backend.scan_tokens(call.query.shape[0], rank, columns, len(call.keys), is_backward)


def _local(x: Tensor, start: int, stop: int) -> Tensor:
    """Rows [start, stop) of (H, L, ...), with zeros outside the tensor."""
    inside = x[:, max(start, 0) : max(stop, 0)]
    before, after = max(0, min(stop, 0) - start), (stop - start) - inside.shape[1] - max(0, min(stop, 0) - start)
    if not before and not after:
        return inside
    rest = x.shape[2:]
    return torch.cat([x.new_zeros(x.shape[0], before, *rest), inside, x.new_zeros(x.shape[0], after, *rest)], 1)


@dataclass(frozen=True)
class _Chunk:
    """A chunk of c tokens: the coordinates of its queries and keys, and their values and ones, in float64."""

    query: Tensor
    x: list[Tensor]
    W: list[Tensor]
    masks: list[Tensor]


def _chunk(call: Call, expansion: Expansion, start: int, stop: int) -> _Chunk:
    """Queries [start, stop), and the keys and values at their positions; zeros where there is no key to attend."""
    query, keys, values, masks = _rows(call, start, stop)
    offset, squares = call.positions.offset, expansion.squares or (None,) * len(keys)
    here = [None if u is None else _local(u, start + offset, stop + offset) for u in squares]
    of = expansion.frame.coordinates
    x = [of(key, m + 1, masks[m]).to(torch.float64) for m, key in enumerate(keys)]
    W = [with_ones(value, mask, torch.float64, u) for value, mask, u in zip(values, masks, here, strict=True)]
    return _Chunk(of(query, 0).to(torch.float64), x, W, masks)


def _rows(call: Call, start: int, stop: int) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
    """Queries [start, stop), keys and values at their positions, and masks of keys that exist and may be attended."""
    offset = call.positions.offset
    keys = [_local(key, start + offset, stop + offset) for key in call.keys]
    values = [_local(value, start + offset, stop + offset) for value in call.values]
    masks = []
    for m, key in enumerate(call.keys):
        seen = call.masks[m] if call.masks else torch.ones(key.shape[:2], dtype=torch.bool, device=key.device)
        masks.append(_local(seen, start + offset, stop + offset))
    return call.query[:, start:stop], keys, values, masks


def _first_states(
    call: Call, expansion: Expansion, backend: NearLinearBackend, before: Sequence[Tensor] | None
) -> list[Tensor]:
    """The states of the keys before the first query's own position, including those of `before`."""
    first = max(call.positions.offset, 0)
    own = [key_state(call, expansion, backend, m, 0, min(first, key.shape[1])) for m, key in enumerate(call.keys)]
    return own if before is None else [z + earlier for z, earlier in zip(own, before, strict=True)]


def attend_causal(call: Call, expansion: Expansion, before: Sequence[Tensor] | None = None) -> Sums:
    """Attend with each query to the states of its prefix; `before` are the states of all earlier tokens."""
    heads, length, _ = call.query.shape
    d_v = call.values[0].shape[2]
    out = call.query.new_empty(heads, length, d_v)
    denominator, moment, weighted = (call.query.new_empty(heads, length, dtype=torch.float64) for _ in range(3))
    backend = backend_of(call, expansion.weighted)
    Z = _first_states(call, expansion, backend, before)
    size = chunk_size(backend, call, expansion.index_set.rank, False)
    for start in range(0, length, size):
        stop = min(start + size, length)
        chunk = _chunk(call, expansion, start, stop)
        sums, moments, Z = backend.scan(expansion, chunk.query, chunk.x, chunk.W, Z)
        D = denominator[:, start:stop] = sums[..., d_v]
        moment[:, start:stop] = moments[..., 0]
        if expansion.squares:
            weighted[:, start:stop] = moments[..., 1:].amax(-1)
        out[:, start:stop] = sums[..., :d_v] / D.masked_fill(D == 0, math.inf).unsqueeze(-1)
    return Sums(out, denominator, moment, weighted if expansion.squares else None)


def backward_causal(
    call: Call, expansion: Expansion, sums: Sums, grad_out: Tensor, grad_lse: Tensor
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """The gradients of query, keys and values."""
    return backward_causal_after(call, expansion, sums, None, grad_out, grad_lse)[:3]


def backward_causal_after(
    call: Call,
    expansion: Expansion,
    sums: Sums,
    before: Sequence[Tensor] | None,
    grad_out: Tensor,
    grad_lse: Tensor,
) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
    """The gradients of query, keys, values and the states `before`, from the last chunk to the first.

    A chunk needs the states before it. States are stored at the start of every section of about sqrt(chunks) chunks,
    and within the current section: about 2 sqrt(chunks) states instead of all states.
    """
    incoming = IncomingGradient(sums, grad_out, grad_lse)
    backend, frame = backend_of(call), expansion.frame
    offset, power = call.positions.offset, incoming.power
    length, size = call.query.shape[1], chunk_size(backend, call, expansion.index_set.rank, True)
    starts = list(range(0, length, size))
    per_section = max(1, math.isqrt(len(starts)))
    sections = [starts[i : i + per_section] for i in range(0, len(starts), per_section)]
    grad_query = torch.zeros_like(call.query)
    grad_keys = [torch.zeros_like(key) for key in call.keys]
    grad_values = [torch.zeros_like(value) for value in call.values]

    def advance(Z: list[Tensor], start: int, stop: int) -> list[Tensor]:
        chunk = _chunk(call, expansion, start, stop)
        return backend.scan_keys(expansion, chunk.x, chunk.W, Z)

    first_states = _first_states(call, expansion, backend, before)
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
            chunk, d_sums = _chunk(call, expansion, start, stop), incoming.of_sums(here)
            grad_chunk, grad_x, grad_W, grad_Z = backend.scan_backward(
                expansion, chunk.query, chunk.x, chunk.W, states, d_sums, grad_Z
            )
            grad_query[:, here] = power.multiply(frame.pull_back(grad_chunk, 0))
            for m, mask in enumerate(chunk.masks):
                hidden = ~mask.unsqueeze(-1)
                grad_K = frame.pull_back(grad_x[m], m + 1).masked_fill(hidden, 0.0)
                grad_V = grad_W[m][:, :-1].mT.masked_fill(hidden, 0.0)
                _put(grad_keys[m], start + offset, power.multiply(grad_K))
                _put(grad_values[m], start + offset, power.multiply(grad_V))
    for m, key in enumerate(call.keys):
        stop = min(max(offset, 0), key.shape[1])
        state_backward(call, expansion, m, stop, grad_Z[m], power, grad_keys[m], grad_values[m])
    return grad_query, grad_keys, grad_values, [power.multiply(z) for z in grad_Z]


def _put(into: Tensor, start: int, rows: Tensor) -> None:
    """Write rows at [start, start + c) of (H, L, ...), ignoring those outside the tensor."""
    first, last = max(start, 0), min(start + rows.shape[1], into.shape[1])
    if first < last:
        into[:, first:last] = rows[:, first - start : last - start]
