r"""The polynomial method where query i attends j_m <= i + offset only: prefix states, chunk by chunk.

The states of the keys up to a position are prefix sums, and the Hadamard product of prefix states is the state of
all tuples up to there. At order >= 3 it is not linear in any one of them, so a query needs the product of *its own*
prefixes: within a chunk of c tokens they are c running sums (c, rank, d_v + 1) a key set, which is the memory the
chunk takes; between chunks one state a set is carried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from separatrix.attention.arithmetic.rounding import Summing
from separatrix.attention.call import Call
from separatrix.attention.near_linear import native_scan as native_scan
from separatrix.attention.near_linear.approximation.monomials import monomials, monomials_backward
from separatrix.attention.near_linear.chunks import causal_chunk, chunk_tokens, scan_chunk
from separatrix.attention.near_linear.scan_choice import scans_natively
from separatrix.attention.near_linear.sums import (
    Expansion,
    IncomingGradient,
    Sums,
    key_state,
    state_backward,
    with_ones,
)
from separatrix.attention.near_linear.triton import scan as gpu_scan

Rows = tuple[Tensor, list[Tensor], list[Tensor]]


def scanner(query: Tensor, values: Sequence[Tensor]) -> ModuleType | None:
    """Whose kernels scan queries and values like these: those in Triton, those in C++, or None for plain PyTorch."""
    if gpu_scan.scans_on_gpu(query, values[0].shape[2] + 1):
        return gpu_scan
    return native_scan if scans_natively(query.device.type, len(values)) else None


def chunk_size(call: Call, rank: int) -> int:
    """The number of tokens in a chunk."""
    heads, columns, engine = call.query.shape[0], call.values[0].shape[2] + 1, scanner(call.query, call.values)
    if engine is gpu_scan:
        return gpu_scan.stretch_tokens(heads, rank, columns, len(call.keys))
    return (scan_chunk if engine is native_scan else causal_chunk)(heads, rank, columns)


def causal_summing(call: Call, rank: int) -> Summing:
    """How a causal call adds up its tokens, all of it in float64.

    The keys before the first query's position are added up in chunks, as those of a call that is not causal. From there
    on the scan in C++ adds one token after the other, plain PyTorch adds up chunks, and one chunk after the other, and
    the kernels in Triton do the same with pieces.
    """
    chunk, engine = chunk_tokens(call.query.shape[0], rank, True), scanner(call.query, call.values)
    if engine is native_scan:
        return Summing(max(chunk, *call.key_lengths), chunk)
    local = gpu_scan.piece_tokens(call.values[0].shape[2] + 1) if engine is gpu_scan else chunk_size(call, rank)
    return Summing(max(chunk, local), min(chunk, local))


def _local(x: Tensor, start: int, stop: int) -> Tensor:
    """Rows [start, stop) of (H, L, ...), with zeros where they fall outside."""
    inside = x[:, max(start, 0) : max(stop, 0)]
    before, after = max(0, min(stop, 0) - start), (stop - start) - inside.shape[1] - max(0, min(stop, 0) - start)
    if not before and not after:
        return inside
    rest = x.shape[2:]
    return torch.cat([x.new_zeros(x.shape[0], before, *rest), inside, x.new_zeros(x.shape[0], after, *rest)], 1)


class _Running(NamedTuple):
    """A chunk of a key set: coordinates, monomials (H, rank, c), [V, 1]^T, and the states up to each token."""

    x: Tensor
    features: Tensor
    W: Tensor
    states: Tensor


def _running(expansion: Expansion, m: int, key: Tensor, value: Tensor, mask: Tensor, before: Tensor) -> _Running:
    x = expansion.frame.coordinates(key, m + 1, mask).to(torch.float64)
    features, W = monomials(x, expansion.index_set), with_ones(value, mask, torch.float64)
    added = features.mT.unsqueeze(-1) * W.mT.unsqueeze(2)
    return _Running(x, features, W, before.unsqueeze(1) + added.cumsum(1))


def _laid_out(
    expansion: Expansion, keys: list[Tensor], values: list[Tensor], masks: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """The coordinates (H, d', c) of keys, and their values and ones (H, d_v + 1, c), in float64."""
    x = [expansion.frame.coordinates(key, m + 1, masks[m]).to(torch.float64) for m, key in enumerate(keys)]
    return x, [with_ones(value, mask, torch.float64) for value, mask in zip(values, masks, strict=True)]


def _chunk(
    expansion: Expansion, rows: Rows, masks: list[Tensor], Z: list[Tensor]
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """A chunk's sums (H, c, d_v + 1), its moments (H, c), and the states after it."""
    query, keys, values = rows
    if (engine := scanner(query, values)) is not None:
        x = expansion.frame.coordinates(query, 0).to(torch.float64)
        found: tuple[Tensor, Tensor, list[Tensor]] = engine.scan(
            expansion, x, *_laid_out(expansion, keys, values, masks), Z
        )
        return found
    index_set, dtype = expansion.index_set, torch.float64
    product, after = None, []
    for m, (key, value) in enumerate(zip(keys, values, strict=True)):
        running = _running(expansion, m, key, value, masks[m], Z[m]).states
        after.append(running[:, -1])
        product = running if product is None else product * running
    assert product is not None
    x = expansion.frame.coordinates(query, 0).to(dtype)
    features = monomials(x, index_set).mT
    sums = torch.einsum("hcr,hcrv->hcv", features * expansion.coefficients, product)
    moment = features.new_zeros(features.shape[:2])
    if expansion.moment is not None:
        level = slice(*index_set.levels[expansion.moment])
        weights = torch.from_numpy(index_set.multinomials[level]).to(features)
        moment = torch.einsum("hcr,hcr->hc", features[..., level] * weights, product[:, :, level, -1])
    return sums, moment, after


def _chunk_backward(
    expansion: Expansion, rows: Rows, masks: list[Tensor], Z: list[Tensor], grad: Tensor, grad_Z: list[Tensor]
) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
    """The gradients of a chunk's query, keys and values and of the states before it.

    `grad` is that of its sums, `grad_Z` that of the states after it. A token's term is part of the states of every
    later token, and of those after the chunk: hence the sum from the last token to the first.
    """
    query, keys, values = rows
    if (engine := scanner(query, values)) is not None:
        return _scanned_back(engine, expansion, rows, masks, Z, grad, grad_Z)
    frame, steps = expansion.frame, expansion.index_set.steps
    coefficients = expansion.coefficients
    sets = [_running(expansion, m, *one) for m, one in enumerate(zip(keys, values, masks, Z, strict=True))]
    product = sets[0].states
    for running in sets[1:]:
        product = product * running.states
    x = frame.coordinates(query, 0).to(torch.float64)
    features = monomials(x, expansion.index_set)
    grad_features = torch.einsum("hcv,hcrv->hrc", grad, product) * coefficients.unsqueeze(-1)
    grad_query = frame.pull_back(monomials_backward(x, steps, features, grad_features), 0)
    grad_product = (features.mT * coefficients).unsqueeze(-1) * grad.unsqueeze(2)
    grad_keys, grad_values, grad_before = [], [], []
    for m, running in enumerate(sets):
        grad_states = grad_product
        for other, beside in enumerate(sets):
            if other != m:
                grad_states = grad_states * beside.states
        grad_added = grad_states.flip(1).cumsum(1).flip(1) + grad_Z[m].unsqueeze(1)
        grad_features = torch.einsum("hcrv,hvc->hrc", grad_added, running.W)
        grad_W = torch.einsum("hcrv,hrc->hcv", grad_added, running.features)
        grad_x = monomials_backward(running.x, steps, running.features, grad_features)
        hidden = ~masks[m].unsqueeze(-1)
        grad_keys.append(frame.pull_back(grad_x, m + 1).masked_fill(hidden, 0.0))
        grad_values.append(grad_W[..., :-1].masked_fill(hidden, 0.0))
        grad_before.append(grad_added[:, 0])
    return grad_query, grad_keys, grad_values, grad_before


def _scanned_back(
    engine: ModuleType,
    expansion: Expansion,
    rows: Rows,
    masks: list[Tensor],
    Z: list[Tensor],
    grad: Tensor,
    grad_Z: list[Tensor],
) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
    """The results of `_chunk_backward`, computed by the kernels in C++ or in Triton."""
    query, keys, values = rows
    frame = expansion.frame
    laid_out = _laid_out(expansion, keys, values, masks)
    x = frame.coordinates(query, 0).to(torch.float64)
    grad_query, grad_x, grad_W, before = engine.scan_backward(expansion, x, *laid_out, Z, grad, grad_Z)
    hidden = [~mask.unsqueeze(-1) for mask in masks]
    grad_keys = [frame.pull_back(one, m + 1).masked_fill(hidden[m], 0.0) for m, one in enumerate(grad_x)]
    grad_values = [one[:, :-1].mT.masked_fill(hidden[m], 0.0) for m, one in enumerate(grad_W)]
    return frame.pull_back(grad_query, 0), grad_keys, grad_values, before


def _rows(call: Call, start: int, stop: int) -> tuple[Rows, list[Tensor]]:
    """Queries [start, stop), the keys and values at their positions, and which of these exist and may be attended."""
    offset = call.positions.offset
    keys = [_local(key, start + offset, stop + offset) for key in call.keys]
    values = [_local(value, start + offset, stop + offset) for value in call.values]
    masks = []
    for m, key in enumerate(call.keys):
        seen = call.masks[m] if call.masks else torch.ones(key.shape[:2], dtype=torch.bool, device=key.device)
        masks.append(_local(seen, start + offset, stop + offset))
    return (call.query[:, start:stop], keys, values), masks


def _first_states(call: Call, expansion: Expansion, before: Sequence[Tensor] | None = None) -> list[Tensor]:
    """The states of the keys before the first query's own position, those of `before` among them."""
    first = max(call.positions.offset, 0)
    own = [key_state(call, expansion, m, 0, min(first, key.shape[1])) for m, key in enumerate(call.keys)]
    return own if before is None else [z + earlier for z, earlier in zip(own, before, strict=True)]


def attend_causal(call: Call, expansion: Expansion, before: Sequence[Tensor] | None = None) -> Sums:
    """Every query against the states of its prefix; `before` are the states of tokens before all of these."""
    heads, length, _ = call.query.shape
    d_v = call.values[0].shape[2]
    out = call.query.new_empty(heads, length, d_v)
    denominator, moments = (call.query.new_empty(heads, length, dtype=torch.float64) for _ in range(2))
    Z = _first_states(call, expansion, before)
    size = chunk_size(call, expansion.index_set.rank)
    for start in range(0, length, size):
        stop = min(start + size, length)
        sums, moment, Z = _chunk(expansion, *_rows(call, start, stop), Z)
        D = denominator[:, start:stop] = sums[..., d_v]
        moments[:, start:stop] = moment
        out[:, start:stop] = sums[..., :d_v] / D.masked_fill(D == 0, math.inf).unsqueeze(-1)
    return Sums(out, denominator, moments)


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

    A chunk needs the states before it. They are kept at the start of every section of about sqrt(chunks) chunks, and
    within the section at hand: about 2 sqrt(chunks) states in place of all of them.
    """
    incoming = IncomingGradient(sums, grad_out, grad_lse)
    offset, power = call.positions.offset, incoming.power
    length, size = call.query.shape[1], chunk_size(call, expansion.index_set.rank)
    starts = list(range(0, length, size))
    per_section = max(1, math.isqrt(len(starts)))
    sections = [starts[i : i + per_section] for i in range(0, len(starts), per_section)]
    grad_query = torch.zeros_like(call.query)
    grad_keys = [torch.zeros_like(key) for key in call.keys]
    grad_values = [torch.zeros_like(value) for value in call.values]

    def advance(Z: list[Tensor], start: int, stop: int) -> list[Tensor]:
        if (engine := scanner(call.query, call.values)) is not None:
            (_, keys, values), masks = _rows(call, start, stop)
            scanned: list[Tensor] = engine.scan_keys(expansion, *_laid_out(expansion, keys, values, masks), Z)
            return scanned
        moved = []
        for m, (z, key) in enumerate(zip(Z, call.keys, strict=True)):
            first, last = (min(max(position + offset, 0), key.shape[1]) for position in (start, stop))
            moved.append(z + key_state(call, expansion, m, first, last))
        return moved

    first_states = _first_states(call, expansion, before)
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
            into, (rows, masks) = incoming.of_sums(here), _rows(call, start, stop)
            by_query, by_key, by_value, grad_Z = _chunk_backward(expansion, rows, masks, states, into, grad_Z)
            grad_query[:, here] = power.multiply(by_query)
            for m in range(len(call.keys)):
                _put(grad_keys[m], start + offset, power.multiply(by_key[m]))
                _put(grad_values[m], start + offset, power.multiply(by_value[m]))
    for m, key in enumerate(call.keys):
        stop = min(max(offset, 0), key.shape[1])
        state_backward(call, expansion, m, stop, grad_Z[m], power, grad_keys[m], grad_values[m])
    return grad_query, grad_keys, grad_values, [power.multiply(z) for z in grad_Z]


def _put(into: Tensor, start: int, rows: Tensor) -> None:
    """Write rows at [start, start + c) of (H, L, ...), as far as they fall inside."""
    first, last = max(start, 0), min(start + rows.shape[1], into.shape[1])
    if first < last:
        into[:, first:last] = rows[:, first - start : last - start]
