"""Whether the factors of a call may be multiplied as they are on a GPU, read from the device in one look.

Half types are multiplied by matrix units that take operands of the same type. bfloat16 has the range of float32.
float16 has not: a product of query, scale and prefix key becomes an operand, and so does a weight times what a value
differs from the output by. A call in which these could leave its range is widened to float32 as a whole.
"""

from __future__ import annotations

import math

import torch

from separatrix.attention.call import Call
from separatrix.attention.exact.balance import Magnitudes, Size
from separatrix.attention.exact.gpu.launch import LOG2_E, prefix_of

_MOST = 15.0
"""The logarithm to base 2 of the largest operand of float16."""
_LEAST = 14.0
"""The logarithm to base 2 of the largest sum of inner keys that may meet a row whose entries are off by 2^-25."""


def size_of(call: Call) -> Size:
    """Whether the factors of a call are of a size that needs no balancing, and operands of float16 stay in range."""
    found: Size | None = call.kept.get("size")
    if found is None:
        magnitudes = Magnitudes.of(call)
        found = magnitudes.size() if call.query.dtype != torch.float16 else _size_of_half(call, magnitudes)
        call.kept["size"] = found
    return found


def spare(call: Call) -> int:
    """The power of two that the weights of a backward pass are multiplied by, so that few of float16 underflow."""
    if call.query.dtype != torch.float16:
        return 0
    return max(0, math.floor(_MOST - _log_difference(call, size_of(call).log_output)))


def _log_difference(call: Call, log_output: float) -> float:
    """The logarithm to base 2 of what an incoming gradient near 1 may give, against a value less the output."""
    return max(log_output, 0.0) + 1 + math.log2(call.values[0].shape[2])


def _size_of_half(call: Call, magnitudes: Magnitudes) -> Size:
    prefix = prefix_of(call)
    log = magnitudes.scores.log2()
    rows = (log[0] + log[1 + prefix]).amax() + math.log2(max(abs(call.scale) * LOG2_E, 2.0**-1000))
    inner = log[2 - prefix].amax() + math.log2(call.query.shape[2])
    size, (highest, lowest) = magnitudes.size_and((rows, inner))
    fits = size.moderate and highest <= _MOST and lowest <= _LEAST
    near_one = size.near_one and fits and _log_difference(call, size.log_output) <= _MOST
    return Size(fits, near_one, size.log_output)
