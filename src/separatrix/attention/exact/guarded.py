r"""Exact attention by a `backend`, with guards against overflow and underflow, NaN and infinity.

- Factors that are too large or too small for their products are balanced by powers of two, or raise an error: see
  `balance`. An output that its dtype cannot represent raises an error.
- A call whose tuples cannot be counted in 64 bits raises an error.
- A NaN or an infinity in a key or a value changes the outputs of the queries that may attend this token, and no other
  output. A backend alone would change the results of other queries: it multiplies tokens hidden by the causal mask or a
  window by a weight of zero, and zero times NaN is NaN. So the other queries are recomputed with zeros in place of such
  tokens.

The gradient is guarded in the same way. A query that attends an entry that is not finite has no finite gradient, and
neither have the keys and values it attends; if the incoming gradient of such a query is zero, the query is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import truth
from separatrix.attention.call import Call, Changes, Gradients
from separatrix.attention.exact.backend import exact_backend
from separatrix.attention.exact.balance import Balance, Magnitudes, Size
from separatrix.errors import SeparatrixError

_MOST_TUPLES = 2**62


def forward(call: Call) -> tuple[Tensor, Tensor]:
    """The output (H, L_q, d_v) in a call's dtype, and the log-sum-exp (H, L_q) in the dtype of its arithmetic.

    If a backend supports half types or shared key heads directly, the call is widened only if its factors must be
    balanced or an entry is not finite.
    """
    check_countable(call)
    backend = exact_backend(call)
    if backend.TAKES_AS_GIVEN and (size := backend.size_of(call)).moderate:
        out, lse = backend.forward(call)
        return _representable(out, size), lse
    return _forward_widened(call.widened(), call.query.dtype)


def _forward_widened(call: Call, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The output of a widened call, in `dtype`, and the log-sum-exp in the call's own type."""
    backend = exact_backend(call)
    if call.is_empty:
        out, lse = backend.forward(call)
        return out.to(dtype), lse
    size = backend.size_of(call)
    if size.moderate:
        out, lse = backend.forward(call)
    elif (magnitudes := Magnitudes.of(call)).finite():
        balance = Balance.of(call, magnitudes)
        out, lse = exact_backend(balance.call).forward(balance.call)
        out = balance.output(out)
    else:
        return _forward_not_finite(call, dtype)
    return _representable(out.to(dtype), size), lse


def backward(call: Call, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> Gradients:
    """The gradients of query, keys and values in the dtype of a call, given the gradients of the output and the
    log-sum-exp.

    The gradients are rounded to a half type once. Before that, the gradients of heads that share keys are summed: by
    the backend if it supports the call directly, and by PyTorch if the call is widened.
    """
    check_countable(call)
    backend = exact_backend(call)
    if backend.TAKES_AS_GIVEN and backend.size_of(call).near_one:
        return backend.backward(call, out, lse, grad_out, grad_lse)
    wide = call.widened()
    out, grad_out = out.to(wide.query.dtype), grad_out.to(wide.query.dtype)
    query, keys, values = _backward_widened(wide, out, lse, grad_out, grad_lse)

    def gathered(sets: Sequence[Tensor]) -> list[Tensor]:
        if wide.masks:
            sets = [x.masked_fill(~mask.unsqueeze(-1), 0.0) for x, mask in zip(sets, wide.masks, strict=True)]
        if call.shared > 1:
            sets = [x.unflatten(0, (-1, call.shared)).sum(1) for x in sets]
        return [fresh(x) for x in sets]

    def fresh(x: Tensor) -> Tensor:
        return x.to(call.query.dtype, memory_format=torch.contiguous_format, copy=True)

    return fresh(query), gathered(keys), gathered(values)


def _backward_widened(call: Call, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> Gradients:
    """The gradients of a widened call, in its dtype."""
    if call.is_empty or exact_backend(call).size_of(call).near_one:
        return exact_backend(call).backward(call, out, lse, grad_out, grad_lse)
    magnitudes = Magnitudes.of(call)
    if not magnitudes.finite():
        return _backward_not_finite(call, out, lse, grad_out, grad_lse)
    balance = Balance.of(call, magnitudes, backward=True)
    incoming = balance.incoming(grad_out, grad_lse)
    query, keys, values = exact_backend(balance.call).backward(
        balance.call, balance.balanced_output(out), lse, incoming.output, incoming.lse
    )
    query, *sets = balance.gradients([query, *keys, *values], incoming)
    return query, sets[: len(keys)], sets[len(keys) :]


def tangents(call: Call, out: Tensor, lse: Tensor, changes: Changes) -> tuple[Tensor, Tensor]:
    """The tangents of output and log-sum-exp, given the tangents of query, keys and values; see `tangents`.

    If an entry is not finite, the tangent of any query may be NaN, because forward mode has no second guard.
    """
    if call.is_empty or exact_backend(call).size_of(call).moderate or not (magnitudes := Magnitudes.of(call)).finite():
        return exact_backend(call).tangents(call, out, lse, changes)
    balance = Balance.of(call, magnitudes)
    query, *sets = balance.balanced_tangents([changes[0], *changes[1], *changes[2]])
    count = len(call.keys)
    balanced = (query, tuple(sets[:count]), tuple(sets[count:]))
    out_dot, lse_dot = exact_backend(balance.call).tangents(balance.call, balance.balanced_output(out), lse, balanced)
    return balance.output(out_dot), lse_dot


def check_countable(call: Call) -> None:
    """Raise an error for a call with 2^62 tuples or more: backends count them in 64 bits, and no machine visits that
    many."""
    queries = call.query.shape[1]
    tuples = queries * math.prod(call.positions.reaches(call.key_lengths))
    if tuples >= _MOST_TUPLES:
        raise SeparatrixError(
            f"keys: expected fewer than 2^62 tuples over all queries of a head, got {tuples:.2g}: {queries} "
            f"queries, {list(call.key_lengths)} keys, windows {list(call.positions.windows)}. Exact attention visits "
            "every tuple: pass `windows`, shorter key sets, or a `tolerance` with bounded entries."
        )


def _representable(out: Tensor, size: Size) -> Tensor:
    """The output, or an error if its dtype cannot represent it; entries are read only if the values are large enough
    for this."""
    most, reach = torch.finfo(out.dtype).max, size.log_output
    if reach > math.log2(most) - 0.5 and not truth(torch.isfinite(out).all()):
        raise SeparatrixError(
            f"values: their products reach 2^{reach:.1f}, and an output exceeds {most:.3g}, the largest number of "
            f"{out.dtype}. Divide a value set by a power of two, or pass a wider type."
        )
    return out


def _forward_not_finite(call: Call, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    touched, clean = _cleaned(call)
    if not truth(touched.any()):
        return _forward_widened(clean, dtype)
    out, lse = exact_backend(call).forward(call)
    out = out.to(dtype)
    if not truth(touched.all()):
        clean_out, clean_lse = _forward_widened(clean, dtype)
        out, lse = torch.where(touched.unsqueeze(-1), out, clean_out), torch.where(touched, lse, clean_lse)
    return out, lse


def _backward_not_finite(call: Call, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> Gradients:
    touched, clean = _cleaned(call)
    rows = touched.unsqueeze(-1)
    # A query with nothing to attend has a log-sum-exp of -inf and no gradient.
    query, keys, values = _backward_widened(
        clean,
        out.masked_fill(rows, 0.0),
        lse.masked_fill(touched, -math.inf),
        grad_out.masked_fill(rows, 0.0),
        grad_lse.masked_fill(touched, 0.0),
    )
    wanted = touched & ((grad_out != 0).any(-1) | (grad_lse != 0))
    if truth(wanted.any()):
        unwanted = ~wanted
        of_wanted = exact_backend(call).backward(
            call,
            out,
            lse,
            grad_out.masked_fill(unwanted.unsqueeze(-1), 0.0),
            grad_lse.masked_fill(unwanted, 0.0),
        )
        query = torch.where(wanted.unsqueeze(-1), of_wanted[0], query)
        keys, values = (
            [x + y for x, y in zip(*sets, strict=True)] for sets in ((keys, of_wanted[1]), (values, of_wanted[2]))
        )
    return query, keys, values


def _cleaned(call: Call) -> tuple[Tensor, Call]:
    """The queries (H, L_q) that depend on an entry that is not finite, and the call with zeros in place of such
    entries.

    A query depends on such an entry if it is an entry of the query itself, or of a token in a tuple that the query may
    attend.
    """
    bad_query = _not_finite(call.query)
    bad = [_not_finite(key) | _not_finite(value) for key, value in zip(call.keys, call.values, strict=True)]
    unmasked = call.masks or [torch.ones_like(x) for x in bad]
    visible = [_visible(call, m, x) for m, x in enumerate(unmasked)]
    attends = torch.stack(visible).all(0)
    touched = bad_query | (torch.stack([_visible(call, m, x) for m, x in enumerate(bad)]).any(0) & attends)
    clean = replace(
        call,
        query=call.query.masked_fill(bad_query.unsqueeze(-1), 0.0),
        keys=_zeroed(call.keys, bad),
        values=_zeroed(call.values, bad),
    )
    return touched, clean


def _not_finite(x: Tensor) -> Tensor:
    return ~torch.isfinite(x).all(-1)


def _zeroed(sets: Sequence[Tensor], where: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(x.masked_fill(rows.unsqueeze(-1), 0.0) for x, rows in zip(sets, where, strict=True))


def _visible(call: Call, m: int, tokens: Tensor) -> Tensor:
    """A mask (H, L_q) of the queries that may, by their position, attend one of these tokens (H, L_m) of set m."""
    length = tokens.shape[1]
    ranges = [call.positions.visible(m, i, length) for i in range(call.query.shape[1])]
    start, stop = torch.tensor(ranges, device=tokens.device).unbind(1)
    counts = torch.nn.functional.pad(tokens.cumsum(1), (1, 0))
    return counts[:, stop] > counts[:, start]
