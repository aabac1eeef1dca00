"""The type in which exact attention keeps a tolerance, and the bound on its rounding that shows it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import number
from separatrix.attention.arithmetic.precision import float32_products_are_float32
from separatrix.attention.bounds import largest_magnitudes
from separatrix.attention.exact.error_bound import Ends, backend_bounds
from separatrix.attention.near_linear.analysis import Analysis
from separatrix.attention.near_linear.exact_gradient import exact_gradient
from separatrix.attention.near_linear.gradient_certificate import GradientCertificate
from separatrix.errors import SeparatrixError


class ExactRounding(NamedTuple):
    """A dtype for exact attention, and bounds on the errors of its results in that dtype.

    Attributes:
        dtype: The dtype that exact attention computes in.
        per_query: Bounds (H, L_q) on the error of every entry of each query's output.
        lse_error: A bound on the error of every log-sum-exp.
        gradient: The certificate of the gradients; None if no gradient will be taken.
    """

    dtype: torch.dtype
    per_query: Tensor
    lse_error: float
    gradient: GradientCertificate | None


def exact_type(analysis: Analysis, tolerance: float, with_lse: bool) -> ExactRounding:
    """The narrowest dtype in which exact attention keeps the tolerance, with the bounds on the errors in that dtype.

    If gradients will be taken, it is the narrowest dtype that keeps the tolerance for them too, if there is one.
    """
    call = analysis.call
    narrow = torch.float64 if call.query.dtype == torch.float64 else torch.float32
    kept: ExactRounding | None = None
    for dtype in dict.fromkeys((narrow, torch.float64)):
        if not analysis.values.in_range(dtype):
            if dtype == torch.float64:
                raise SeparatrixError(
                    "values: products of their magnitudes, and sums of these, reach from "
                    f"2^{analysis.values.low:.4g} to 2^{analysis.values.high:.4g}: float64 underflows or overflows, "
                    "and no bound on the error can be given. Multiply value sets by powers of two."
                )
            continue
        if dtype == torch.float32 and not float32_products_are_float32(call.query.device.type):
            continue
        if not _products_in_range(analysis, dtype):
            if dtype == torch.float64:
                raise SeparatrixError(
                    "query and keys: what is huge in one of them and tiny in another leaves the range of float64 on "
                    "the way to a score, so that no bound on the error can be given. Move powers of two between them."
                )
            continue
        radii = _radii(analysis)
        ends = Ends(*(x.amax(1, keepdim=True) for x in (analysis.values.width, analysis.values.magnitude)))
        per_query, lse = backend_bounds(call, radii, ends, dtype)
        lse_error = number(lse.max()) if lse.numel() else 0.0
        worst = max(number(per_query.max()) if per_query.numel() else 0.0, lse_error if with_lse else 0.0)
        if worst <= tolerance:
            gradient = None
            if analysis.differentiable:
                gradient = exact_gradient(analysis, dtype, radii, per_query, lse_error)
            rounding = ExactRounding(dtype, per_query, lse_error, gradient)
            if gradient is None or gradient.total <= tolerance:
                return rounding
            kept = kept or rounding
    if kept is not None:
        return kept
    raise SeparatrixError(
        f"tolerance: exact attention in float64, with an output in {call.query.dtype}, is certain to {worst:.3g} only, "
        f"and {tolerance:.3g} was asked for."
    )


def _products_in_range(analysis: Analysis, dtype: torch.dtype) -> bool:
    """Whether underflow on the way to a score is negligible, in whatever order its factors are multiplied.

    Each of some 2 k d products loses at most the smallest normal number, times what is still to come: factors above 1.
    """
    call = analysis.call
    log = torch.log2(largest_magnitudes("query", call.query, None)).clamp(min=0.0)
    for m, (key, mask) in enumerate(zip(call.keys, call.mask_of_each, strict=True)):
        log = log + torch.log2(largest_magnitudes(f"keys[{m}]", key, mask)).clamp(min=0.0)
    most = number(log.max()) if log.numel() else 0.0
    most += max(0.0, math.log2(abs(call.scale))) if call.scale else 0.0
    lost = math.log2(torch.finfo(dtype).tiny) + most + math.log2(2 * call.order * max(call.query.shape[2], 1))
    return lost <= math.log2(torch.finfo(dtype).eps) - 10


def _radii(analysis: Analysis) -> Tensor:
    """Bounds (H, L_q) on the sums of magnitudes of the scores' terms, of keys as they are given."""
    if analysis.frame.shift is None:
        return analysis.radii
    # The bounds of the analysis are for centred keys, and exact attention does not centre.
    call = analysis.call
    key = call.keys[0].to(torch.float64)
    if call.masks:
        key = key.masked_fill(~call.masks[0].unsqueeze(-1), 0.0)
    longest = _lengths(key).amax(-1, keepdim=True)
    return abs(call.scale) * (_lengths(call.query.to(torch.float64)) * longest)


def _lengths(x: Tensor) -> Tensor:
    """Euclidean norms of rows (H, L, d), relative to the largest entry on the way: squares would leave the range."""
    largest = x.abs().amax((1, 2), keepdim=True)
    lengths: Tensor = torch.linalg.vector_norm(x / largest.masked_fill(largest == 0, 1.0), dim=-1)
    return lengths * largest.squeeze(-1)
