"""The type in which exact attention keeps a tolerance, and the bound on its rounding that shows it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import number
from separatrix.attention.arithmetic.precision import float32_products_are_float32
from separatrix.attention.arithmetic.rounding import EXPONENTIAL
from separatrix.attention.bounds import largest_magnitudes
from separatrix.attention.exact.backend import exact_backend
from separatrix.attention.exact.error_bound import Ends, backend_bounds
from separatrix.attention.exact.torch.passes import lowest
from separatrix.attention.near_linear.analysis import Analysis
from separatrix.attention.near_linear.gradient_certificate import GradientCertificate, Weights, certify_gradient
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
        f"tolerance: the error bound {worst:.3g} of exact attention in float64, with an output in {call.query.dtype}, "
        f"exceeds the tolerance {tolerance:.3g}. Use a tolerance above the bound."
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


def exact_gradient(
    analysis: Analysis, dtype: torch.dtype, radii: Tensor, per_query: Tensor, lse_error: float
) -> GradientCertificate:
    r"""The certificate of gradients through exact attention in `dtype`, from bounds on its outputs and log-sum-exps.

    The backward pass recomputes weights as exp(s_t - lse). With u the unit roundoff, R a bound on the sums of
    magnitudes of the scores' terms and l on |lse|, the error of a shifted score is at most (d + k + 8) u (R + l) plus
    that of the log-sum-exp, and its exponential adds 4 u. Weights then have a relative error tau, and so has their sum,
    because they sum to 1; scores that are raised to where exp is normal add the smallest weight of each tuple. The rest
    follows by the identity of `near_linear/gradient_certificate.py`.
    """
    call, shape = analysis.call, analysis.shape
    u = torch.finfo(dtype).eps / 2
    tuples = math.prod(float(length) for length in shape.key_lengths)
    largest_lse = radii + math.log(max(tuples, 1.0)) + lse_error
    moved = (shape.d + shape.order + 8) * u * (radii + largest_lse) + lse_error + 4 * u * largest_lse
    raised = tuples * math.exp(lowest(dtype) + 1)
    tau = torch.expm1(1.01 * moved) + 2 * EXPONENTIAL * u + raised
    gamma = exact_backend(call, dtype).gradient_summation(call, dtype).gamma(dtype) * (1 + tau)
    # |g . (v_t - o~)| is a sum of d_v + 1 products of magnitude at most 2 |v|_max |g|_1.
    against = (shape.d_v + shape.order + 6) * u * (1 + tau)
    weights = Weights(tau, tau, per_query, gamma + against, gamma)
    width, magnitude = analysis.values.widest, analysis.values.largest
    nothing = torch.zeros_like(width)
    return certify_gradient(
        weights,
        _reaches(analysis),
        [nothing] * shape.order,
        width,
        magnitude,
        analysis.values.others,
        call.query.dtype,
        call.copies,
    )


def _reaches(analysis: Analysis) -> list[Tensor]:
    """The largest derivative of a score by an entry of the query and of each key set, as they are given, (H,) each."""
    call = analysis.call
    largest = [largest_magnitudes("query", call.query, None)]
    for m, (key, mask) in enumerate(zip(call.keys, call.mask_of_each, strict=True)):
        largest.append(largest_magnitudes(f"keys[{m}]", key, mask))
    bounds = []
    for m in range(len(largest)):
        product = torch.full_like(largest[0], abs(call.scale))
        for other, x in enumerate(largest):
            if other != m:
                product = product * x
        bounds.append(product.amax(-1) * (1 + 2.0**-30))
    return bounds
