"""The warning before a call of exact attention that will take more than a minute."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import torch

from separatrix.attention.call import Call
from separatrix.attention.exact.guarded import check_countable
from separatrix.attention.exact.operators import needs_numbers_alone
from separatrix.attention.near_linear.cost import Shape, exact_cost
from separatrix.errors import LongCallWarning

MINUTE = 60.0


def shape_of(call: Call) -> Shape:
    """The sizes of a call, where the length of a key set is the number of keys that a query may attend."""
    heads, length, d = call.query.shape
    reaches = tuple(call.positions.reaches(call.key_lengths))
    return Shape(heads, length, reaches, d, call.values[0].shape[2], call.positions.is_causal)


def estimated_seconds(call: Call) -> float:
    """The estimated time of the forward pass in seconds, on two cores with AVX-512, from constants in the source.

    >>> x = torch.empty(1, 20_000, 64, device="meta")
    >>> from separatrix.attention.call import Positions
    >>> call = Call(x, (x, x), (x, x), (), Positions(False, 0, (None, None)), 1 / 64)
    >>> 6_000 < estimated_seconds(call) < 15_000
    True
    """
    return exact_cost(shape_of(call), call.query.dtype == torch.float64).time * 1e-9


def warn_if_long(call: Call, estimate: Callable[[Call], float] = estimated_seconds) -> None:
    """Emit a `LongCallWarning` if exact attention of a call will take more than a minute, unless a graph is traced.

    Raises:
        SeparatrixError: If the call has more tuples than a 64-bit integer can count, which no backend supports.
    """
    if not needs_numbers_alone(call.tensors) or not call.query.is_cpu or (seconds := estimate(call)) <= MINUTE:
        return
    check_countable(call)
    positions, faster = call.positions, []
    if None in positions.windows:
        faster.append("`windows`, which restrict each query to its last keys")
    if not positions.is_causal:
        faster.append("`is_causal=True`")
    faster.append("a `tolerance`, which allows near-linear attention where entries are bounded")
    warnings.warn(
        f"Exact attention of order {call.order} over {call.query.shape[1]} queries and {list(call.key_lengths)} keys "
        f"will take about {_duration(seconds)} on two cores with AVX-512, more on fewer. Faster alternatives: "
        f"{'; '.join(faster)}. Ctrl-C interrupts the call.",
        LongCallWarning,
        stacklevel=_caller(),
    )


def _duration(seconds: float) -> str:
    """A duration in the largest unit in which it is at least 1.

    >>> [_duration(seconds) for seconds in (90, 5400, 2e5, 1e9)]
    ['1.5 minutes', '1.5 hours', '2.3 days', '31.7 years']
    """
    units = (("years", 31_557_600.0), ("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0))
    name, length = next((unit for unit in units if seconds >= unit[1]), units[-1])
    return f"{seconds / length:.1f} {name}"


def _caller() -> int:
    """The `stacklevel` of the nearest frame outside this package, to which the warning belongs."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("separatrix."):
        level, frame = level + 1, frame.f_back
    return level
