"""Whether the factors of a call can be multiplied on a GPU without scaling: two kernels and one transfer.

Magnitudes are known up to a factor of two, by their exponents, so that some factors are balanced without need.

Half types are multiplied by matrix units that take operands of the same type. float16 has a smaller range than float32:
a product of query, scale and prefix key becomes an operand, and so does a weight times the difference of a value and
the output. A call in which these could leave its range is widened to float32 as a whole.

bfloat16 has the range of float32. For it no number is read on the host, so that the host never waits for the GPU and
CUDA graphs can capture a call, and no factor is balanced. In a head of keys with a factor that is not finite, or with
products beyond the limits of this module, the queries are replaced by NaN, and every output and gradient that depends
on them is NaN.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import numbers
from separatrix.attention.call import Call
from separatrix.attention.exact.balance import NEAR, Size, log2_abs, room
from separatrix.attention.exact.triton.configurations import BOUNDS, ORIGIN, rows_around, width_of
from separatrix.attention.exact.triton.description import (
    FARTHEST,
    LOG2_E,
    contiguous,
    inner_of,
    mask_heads,
    numbers_of,
    scales_of,
    wide_masks,
)
from separatrix.attention.exact.triton.launch import run_around
from separatrix.attention.exact.triton.sequences import PackedCall, Programs, of_rows

_MOST = 15.0
"""The logarithm to base 2 of the largest operand of float16."""
_LEAST = 14.0
"""The base-2 logarithm of the largest sum of inner keys that may be multiplied by a row whose entries have an error of
2^-25."""
NEAR_BFLOAT16 = 50
"""The base-2 logarithm of the largest products in the gradients of bfloat16: the product of two of them and a weight of
2^-26 is in the range of float32."""
VALUES_BFLOAT16 = 90
"""The base-2 logarithm of the largest products of values in the outputs of bfloat16: sums of 2^37 of them, and weights
of 2^-36, are in the range of float32."""
ANY = 1 << 20
"""A limit that every head satisfies."""


class Bounds(NamedTuple):
    """Logarithms to base 2 of products of factors, as the kernel `check_range` lists them."""

    scores: int
    values: int
    least_values: int
    output: int
    least_others: int
    rows: int
    inner: int
    prefix_values: int

    @classmethod
    def of(cls, written: list[int]) -> Bounds:
        """The bounds from the numbers that the kernel writes; lower bounds are written as `ORIGIN` minus the bound."""
        bounds = [x - ORIGIN for x in written]
        bounds[2], bounds[4] = -bounds[2], -bounds[4]
        return cls(*bounds)


def size_of(call: Call) -> Size:
    """Whether the factors of a call need no balancing, and operands of float16 stay in range.

    For bfloat16 nothing is read, and the result is True: `left_of` handles factors out of range.
    """
    if call.query.dtype == torch.bfloat16:
        return Size(True, True, 0.0)
    size: Size | None = call.kept.get("size")
    if size is None:
        written, _ = _check_range(call, (ANY, ANY, -ANY, ANY, -ANY), writes=False)
        size = call.kept["size"] = _size(call, Bounds.of(numbers(written[:BOUNDS])))
    return size


def left_of(call: Call, *, backward: bool) -> Tensor:
    """The queries in the form that the kernels read: in the dtype of the arithmetic, times the scale and log2(e).

    In bfloat16 the queries of a head whose factors are out of range for this pass are NaN.
    """
    key = "left of gradients" if backward and call.query.dtype == torch.bfloat16 else "left"
    left: Tensor | None = call.kept.get(key)
    if left is None:
        query, factor = contiguous(call)[0], scales_of(call)[:1]
        if call.query.dtype == torch.bfloat16:
            factor = _check_range(call, _limits(call, backward), writes=True)[1]
            if isinstance(call, PackedCall):
                factor = of_rows(call, factor)
            query = query.view(factor.shape[0], -1, query.shape[2])
        # If a factor is not a zero-dimensional tensor, the product has its dtype and takes one kernel.
        left = call.kept[key] = (query * factor).view(call.query.shape)
    return left


def spare(call: Call) -> int:
    """The power of two by which the weights of a backward pass are multiplied, so that few weights underflow in
    float16."""
    if call.query.dtype != torch.float16:
        return 0
    return max(0, math.floor(_MOST - _log_difference(call, size_of(call).log_output)))


def _check_range(call: Call, limits: tuple[int, int, int, int, int], *, writes: bool) -> tuple[Tensor, Tensor]:
    """The bounds of a call as `check_range` writes them, and the factors of the queries (heads, 1, 1).

    Packed sequences have a factor for each head of each sequence.

    Args:
        call: The call.
        limits: The limits of the kernel's signature.
        writes: Whether to write the factors of the queries.
    """
    tensors, device = contiguous(call), call.query.device
    heads, sets = call.keys[0].shape[0], len(call.keys)
    columns, count = width_of(call), call.shared * call.query.shape[1]
    blocks = -(-max(count, *call.key_lengths) // rows_around(columns))
    sequences = len(call.offsets) if isinstance(call, PackedCall) else 1
    # A second pass over the call raises the bounds and exponents to the values that they already have, because its
    # tensors are the same.
    table, _, found, _ = numbers_of(call)
    exponents = found[BOUNDS:].view(sequences, -1)
    shape = (sequences * heads if writes else sequences, 1, 1)
    factors = torch.empty(shape, dtype=torch.float32, device=device)
    masks = wide_masks(call) or (table,) * sets
    run_around(
        "largest",
        call,
        Programs(len(tensors) * heads, "blocks", blocks),
        *(tensors, masks, table, exponents, heads, blocks, max(mask_heads(call) // heads, 1)),
        MASKED=bool(call.masks),
        SETS=sets,
        ROWS=rows_around(columns),
        COLUMNS=columns,
    )
    run_around(
        "check_range",
        call,
        Programs(heads, "queries", 1, 1, 2 * FARTHEST),
        *(exponents, found, scales_of(call), factors.view(sequences, -1), heads, inner_of(call), *limits),
        WRITES=writes,
        SETS=sets,
        COLUMNS=columns,
    )
    return found, factors


def _most_scores(call: Call) -> float:
    """The largest allowed logarithm to base 2 of magnitudes above 1 in queries and keys; see `exact.balance`."""
    multiplications = math.log2(2 * call.order * call.query.shape[2])
    return room(call.computed_in) - multiplications - max(log2_abs(call.scale), 0.0)


def _limits(call: Call, backward: bool) -> tuple[int, int, int, int, int]:
    """The limits of the heads of a call in bfloat16, as `check_range` takes them."""
    near = NEAR_BFLOAT16 if backward else ANY
    if call.scale != 0 and abs(log2_abs(call.scale)) > near:
        near = -ANY
    return math.floor(_most_scores(call)), VALUES_BFLOAT16, -VALUES_BFLOAT16, near, -near


def _size(call: Call, bounds: Bounds) -> Size:
    limit, near = room(call.computed_in), NEAR[call.computed_in]
    moderate = bounds.scores <= _most_scores(call) and max(bounds.values, -bounds.least_values) <= limit / 2
    near_one = max(bounds.scores, bounds.values, -bounds.least_others) <= near
    near_one = near_one and (call.scale == 0 or abs(log2_abs(call.scale)) <= near)
    output = float(bounds.output) if bounds.output > -ORIGIN // 1024 else -math.inf
    if call.query.dtype == torch.float16:
        highest = bounds.rows + math.log2(max(abs(call.scale) * LOG2_E, 2.0**-1000))
        moderate = moderate and highest <= _MOST and bounds.inner + math.log2(call.query.shape[2]) <= _LEAST
        near_one = near_one and _log_difference(call, output) <= _MOST
        # An incoming gradient near 1 is multiplied by the values of a prefix: a single value is in range, but a product
        # need not be.
        near_one = near_one and (len(call.keys) == 2 or bounds.prefix_values <= _MOST)
    return Size(moderate, moderate and near_one, output)


def _log_difference(call: Call, log_output: float) -> float:
    """The logarithm to base 2 of the largest product of an incoming gradient near 1 and a value minus the output."""
    return max(log_output, 0.0) + 1 + math.log2(call.values[0].shape[2])
