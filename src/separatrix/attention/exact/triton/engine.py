"""The calls that Triton kernels support, their forward and backward passes, and the bounds on their rounding.

Proofs rely on the vendor's documentation. On NVIDIA's GPUs products and sums of float32 are correctly rounded, fused or
not; the error of 2^x (``ex2.approx``) is at most two units in the last place of the correctly rounded result; the error
of CUDA's base-2 logarithm, and of both functions in float64, is at most one such unit. The summations here count all
these errors. These bounds hold for the architectures for which the kernels were compiled; on others, requesting a bound
raises an error. AMD documents its exponential of float64 only for arguments from -10 to 10, so on AMD's GPUs plain
PyTorch computes float64. No vendor documents how matrix units sum products of half types, nor AMD how its matrix units
sum float32; requesting a bound for these raises an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from separatrix.attention.arithmetic.rounding import Summation, tile_gradient_sum, tile_sum
from separatrix.attention.call import Call, Gradients
from separatrix.attention.dispatch import gpu
from separatrix.attention.exact.triton import description, launch
from separatrix.attention.exact.triton.configurations import WIDTHS, ships, ships_width, width_of
from separatrix.attention.exact.triton.size import left_of, spare

MOST_SEQUENCES = (1 << 16) - 1
"""The largest second coordinate of a grid on NVIDIA's GPUs."""
LEAST_TOKENS = 10
"""In the bound on the number of programs, heads times tokens, a sequence counts as at least this many tokens: a block
of `largest` has at least 8 tokens, and there are 5 tensors.
"""


def takes(call: Call, dtype: torch.dtype | None = None) -> bool:
    """Whether there are kernels for a call in a dtype; by default the dtype of the call.

    The kernels are for GPUs and need Triton. They take orders from 3 on, in float32 and the half types and, on NVIDIA's
    GPUs, in float64; at most 128 columns, or 256 where `ships_width` says so; offsets and strides that fit into 32
    bits; and no more programs than one launch may have.
    """
    if call.query.device.type not in gpu.DEVICES or call.is_empty or not gpu.installed():
        return False
    farthest = max(call.query.shape[1], sum(call.key_lengths), abs(call.positions.offset))
    dtype, of = dtype or call.query.dtype, gpu.blocks_of(call.query.device)
    if farthest > description.farthest_of(call) or description.steps_of(call) > description.MOST_STEPS:
        return False
    tokens = max(LEAST_TOKENS, call.query.shape[1], *call.key_lengths)
    if call.query.shape[0] * tokens > gpu.most_programs():
        return False
    width, masked = width_of(call), bool(call.masks)
    return ships(dtype, call.order) and ships_width(dtype, call.order, width, of, masked=masked)


def takes_sequences(call: Call, stops: Sequence[Sequence[int]], offsets: Sequence[int]) -> bool:
    """Whether the kernels can attend these packed sequences in one launch, if they support the call with all tokens as
    one sequence.

    The kernels support order 3, and no sequence that is empty in some sets but not in all. Every sequence has as many
    programs as the longest one, which limits the number of sequences times the length of the longest. Calls that are
    invalid for some sequence are not supported: the loop over sequences raises the error.
    """
    if call.order != 3 or not 1 < len(offsets) <= MOST_SEQUENCES:
        return False
    lengths = [[stop - start for start, stop in pairwise(ends)] for ends in stops]
    longest = max(LEAST_TOKENS, *map(max, lengths))
    if len(offsets) * call.query.shape[0] * longest > gpu.most_programs():
        return False
    for (queries, *keys), offset in zip(zip(*lengths, strict=True), offsets, strict=True):
        needs_offset = call.positions.is_causal and any(length != queries for length in keys)
        if type(offset) is not int or abs(offset) > description.farthest_of(call) or (offset == 0 and needs_offset):
            return False
        if 0 in (queries, *keys) and any((queries, *keys)):
            return False
    return True


def forward(call: Call) -> tuple[Tensor, Tensor]:
    """The output (H, L_q, d_v) in the call's dtype, and the log-sum-exp (H, L_q) in the dtype of the arithmetic."""
    return launch.forward(call, _precision(call), left_of(call, backward=False))


def backward(call: Call, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> Gradients:
    """The gradients of query, keys and values, from the gradients of the output and of the log-sum-exp."""
    up = spare(call)
    rows = launch.incoming_rows(call, out, lse, grad_out, grad_lse, up)
    left = left_of(call, backward=True)
    return launch.gradients(call, _precision(call), left, (*rows, description.scales_of(call, up)))


def summation(call: Call, dtype: torch.dtype) -> Summation:
    """The summation of the forward pass over the weights of a query, in a dtype."""
    _, inners, prefixes = _visited("attend", call, dtype)
    return tile_sum(call.order, inners, prefixes)


def gradient_summation(call: Call, dtype: torch.dtype) -> Summation:
    """The summation of the backward pass in a dtype.

    Partial sums over blocks of queries, summed at the end, take fewer roundings than one sum over all queries.
    """
    most = [_visited(kernel, call, dtype) for kernel in ("query_gradient", "inner_gradient", "prefix_gradient")]
    queries, inners, prefixes = (max(sizes) for sizes in zip(*most, strict=True))
    return tile_gradient_sum(call.order, inners, prefixes, queries, call.shared)


def unproved(call: Call, dtype: torch.dtype) -> str | None:
    """The assumption of the bounds that is not proved for tensors of a dtype on the call's device; None if all are."""
    if dtype.itemsize == 2:
        return (
            "No vendor says in which order and with which rounding the matrix units of a GPU add up products of half "
            "types. Pass float32."
        )
    if torch.version.hip is not None and call.query.device.type == "cuda":
        return "AMD does not say how its matrix units add up products of float32. Pass float64."
    return gpu.unchecked(call.query.device)


def _visited(kernel: str, call: Call, dtype: torch.dtype) -> tuple[int, int, int]:
    """Upper bounds, in whole blocks, on the queries, inner keys and prefixes visited per program."""
    block = launch.block_of(kernel, call, dtype)
    inner = description.inner_of(call)
    prefixes = math.prod(length for m, length in enumerate(call.key_lengths) if m != inner)
    return _whole(call.query.shape[1], block.queries), _whole(call.key_lengths[inner], block.keys), prefixes


def _whole(length: int, block: int) -> int:
    """The length rounded up to whole blocks, plus a block: padding adds exact zeros, which may be fused into a sum."""
    return -(-length // block) * block + block


def _precision(call: Call) -> str:
    """The precision of float32 products: IEEE float32, unless PyTorch is set to TF32 and the kernels support TF32.

    The kernels support TF32 for at most 128 columns, on NVIDIA's GPUs.
    """
    asked = torch.backends.cuda.matmul.fp32_precision == "tf32"
    takes_it = call.query.dtype == torch.float32 and torch.version.hip is None and width_of(call) <= WIDTHS[-1]
    return "tf32" if asked and takes_it else "ieee"
