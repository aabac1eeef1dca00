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
from separatrix.attention.exact.gpu.launch import LOG2_E, inner_of, prefixes_of

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
    prefixes, log = list(prefixes_of(call)), magnitudes.scores.log2()
    rows = (log[0] + log[1:][prefixes].sum(0)).amax() + math.log2(max(abs(call.scale) * LOG2_E, 2.0**-1000))
    inner = log[1 + inner_of(call)].amax() + math.log2(call.query.shape[2])
    # An incoming gradient near 1 is multiplied by the values of a prefix: one value is in range, a product need not be.
    values = magnitudes.values.log2()[prefixes].clamp(min=0.0).sum(0).amax()
    size, (highest, lowest, most) = magnitudes.size_and((rows, inner, values))
    fits = size.moderate and highest <= _MOST and lowest <= _LEAST
    near_one = size.near_one and fits and _log_difference(call, size.log_output) <= _MOST
    near_one = near_one and (len(prefixes) == 1 or most <= _MOST)
    return Size(fits, near_one, size.log_output)
