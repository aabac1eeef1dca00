r"""Exact attention by `blocks` with its two guards: against leaving the range, and against what is not finite.

- Factors that are too large or too small for their products are balanced by powers of two, or refused: see `balance`.
  An output that its type cannot hold is refused.
- A NaN or an infinity in a key or a value reaches the queries that may attend it and no others. In the blocks it would:
  what causality or a window hides has weight zero, and zero times NaN is NaN. So the queries that cannot see it are
  computed once more, with every token that is not finite put to zero.

The gradient is guarded in the same way. A query that sees something not finite has no finite gradient, and neither has
what it attends; where no gradient comes in for such a query, it does not take part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from separatrix.attention.exact.balance import Balance, Magnitudes
from separatrix.attention.exact.blocks import passes as blocks
from separatrix.attention.exact.blocks import tangents as forward_mode
from separatrix.attention.exact.blocks.passes import Gradients
from separatrix.attention.exact.blocks.tangents import Changes
from separatrix.attention.exact.blocks.tiling import Problem
from separatrix.errors import SeparatrixError


def forward(problem: Problem, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The output (H, L_q, d_v) in `dtype`, and the log-sum-exp (H, L_q) in the problem's own type."""
    if _is_empty(problem):
        out, lse = blocks.forward(problem)
        return out.to(dtype), lse
    magnitudes = Magnitudes.of(problem)
    if magnitudes.moderate():
        out, lse = blocks.forward(problem)
    elif magnitudes.finite():
        balance = Balance.of(problem, magnitudes)
        out, lse = blocks.forward(balance.problem)
        out = balance.output(out)
    else:
        return _forward_not_finite(problem, dtype)
    return _representable(out.to(dtype), magnitudes), lse


def backward(problem: Problem, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> Gradients:
    """The gradients of query, keys and values, given those of the output and of the log-sum-exp."""
    magnitudes = None if _is_empty(problem) else Magnitudes.of(problem)
    if magnitudes is None or magnitudes.moderate():
        return blocks.backward(problem, out, lse, grad_out, grad_lse)
    if not magnitudes.finite():
        return _backward_not_finite(problem, out, lse, grad_out, grad_lse)
    balance = Balance.of(problem, magnitudes)
    query, keys, values = blocks.backward(
        balance.problem, balance.balanced_output(out), lse, balance.balanced_gradient(grad_out), grad_lse
    )
    query, *sets = balance.rescaled([query, *keys, *values])
    return query, sets[: len(keys)], sets[len(keys) :]


def tangents(problem: Problem, out: Tensor, lse: Tensor, changes: Changes) -> tuple[Tensor, Tensor]:
    """The changes of output and log-sum-exp, given those of query, keys and values; see `tangents`.

    Where something is not finite, the change of any query may be NaN: forward mode has no second guard.
    """
    magnitudes = None if _is_empty(problem) else Magnitudes.of(problem)
    if magnitudes is None or magnitudes.moderate() or not magnitudes.finite():
        return forward_mode.tangents(problem, out, lse, changes)
    balance = Balance.of(problem, magnitudes)
    query, *sets = balance.rescaled([changes[0], *changes[1], *changes[2]])
    count = len(problem.keys)
    balanced = (query, tuple(sets[:count]), tuple(sets[count:]))
    out_dot, lse_dot = forward_mode.tangents(balance.problem, balance.balanced_output(out), lse, balanced)
    return balance.output(out_dot), lse_dot


def _is_empty(problem: Problem) -> bool:
    return 0 in (*problem.query.shape, *(key.shape[1] for key in problem.keys))


def _representable(out: Tensor, magnitudes: Magnitudes) -> Tensor:
    """The output, unless its type cannot hold it; there is nothing to look at where no average can get that far."""
    most, reach = torch.finfo(out.dtype).max, magnitudes.log_output()
    if reach > math.log2(most) - 0.5 and not bool(torch.isfinite(out).all()):
        raise SeparatrixError(
            f"values: their products reach 2^{reach:.1f}, and an output is beyond {most:.3g}, where {out.dtype} ends. "
            "Divide a value set by a power of two, or pass a wider type."
        )
    return out


def _forward_not_finite(problem: Problem, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    touched, clean = _cleaned(problem)
    if not bool(touched.any()):
        return forward(clean, dtype)
    out, lse = blocks.forward(problem)
    out = out.to(dtype)
    if not bool(touched.all()):
        clean_out, clean_lse = forward(clean, dtype)
        out, lse = torch.where(touched.unsqueeze(-1), out, clean_out), torch.where(touched, lse, clean_lse)
    return out, lse


def _backward_not_finite(problem: Problem, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> Gradients:
    touched, clean = _cleaned(problem)
    rows = touched.unsqueeze(-1)
    # A log-sum-exp of -inf is that of a query with nothing to attend, which has no gradient.
    query, keys, values = backward(
        clean,
        out.masked_fill(rows, 0.0),
        lse.masked_fill(touched, -math.inf),
        grad_out.masked_fill(rows, 0.0),
        grad_lse.masked_fill(touched, 0.0),
    )
    wanted = touched & ((grad_out != 0).any(-1) | (grad_lse != 0))
    if bool(wanted.any()):
        others = ~wanted
        found = blocks.backward(
            problem,
            out,
            lse,
            grad_out.masked_fill(others.unsqueeze(-1), 0.0),
            grad_lse.masked_fill(others, 0.0),
        )
        query = torch.where(wanted.unsqueeze(-1), found[0], query)
        keys, values = ([x + y for x, y in zip(*sets, strict=True)] for sets in ((keys, found[1]), (values, found[2])))
    return query, keys, values


def _cleaned(problem: Problem) -> tuple[Tensor, Problem]:
    """The queries (H, L_q) that something not finite takes part in, and the problem with zeros in its place.

    It takes part in a query of which an entry is not finite, and in one that may attend a tuple with such a token.
    """
    bad_query = _not_finite(problem.query)
    bad = [_not_finite(key) | _not_finite(value) for key, value in zip(problem.keys, problem.values, strict=True)]
    shown = problem.masks or [torch.ones_like(x) for x in bad]
    visible = [_visible(problem, m, x) for m, x in enumerate(shown)]
    attends = torch.stack(visible).all(0)
    touched = bad_query | (torch.stack([_visible(problem, m, x) for m, x in enumerate(bad)]).any(0) & attends)
    clean = replace(
        problem,
        query=problem.query.masked_fill(bad_query.unsqueeze(-1), 0.0),
        keys=_zeroed(problem.keys, bad),
        values=_zeroed(problem.values, bad),
    )
    return touched, clean


def _not_finite(x: Tensor) -> Tensor:
    return ~torch.isfinite(x).all(-1)


def _zeroed(sets: Sequence[Tensor], where: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(x.masked_fill(rows.unsqueeze(-1), 0.0) for x, rows in zip(sets, where, strict=True))


def _visible(problem: Problem, m: int, tokens: Tensor) -> Tensor:
    """Which queries (H, L_q) may, by their position, attend one of these tokens (H, L_m) of set m."""
    length = tokens.shape[1]
    ranges = [problem.positions.visible(m, i, length) for i in range(problem.query.shape[1])]
    start, stop = torch.tensor(ranges, device=tokens.device).unbind(1)
    counts = torch.nn.functional.pad(tokens.cumsum(1), (1, 0))
    return counts[:, stop] > counts[:, start]
