"""The dtype in which exact attention satisfies a tolerance, with the error bound that proves it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import largest_number, numbers
from separatrix.attention.arithmetic.precision import float32_products_are_float32
from separatrix.attention.arithmetic.rounding import EXPONENTIAL
from separatrix.attention.bounds import SLACK, InputBounds, in_range, input_bounds, largest_bound, product_of
from separatrix.attention.call import Call
from separatrix.attention.exact.backend import exact_backend
from separatrix.attention.exact.balance import room
from separatrix.attention.exact.error_bound import Ends, backend_bounds
from separatrix.attention.exact.native import entry_bounds
from separatrix.attention.exact.torch import lowest
from separatrix.attention.near_linear.analysis import key_norms, query_radii, sizes_of
from separatrix.attention.near_linear.approximation.coordinates import Frame
from separatrix.attention.near_linear.gradient_certificate import GradientCertificate, Weights, certify_gradient
from separatrix.errors import SeparatrixError


class ExactRounding(NamedTuple):
    """A dtype for exact attention, and bounds on the errors of its results in that dtype.

    Attributes:
        dtype: The dtype in which exact attention is computed.
        per_query: Bounds (H, L_q) on the error of every entry of each query's output.
        lse_error: A bound on the error of every log-sum-exp.
        gradient: The certificate of the gradients; None if no gradient will be computed.
    """

    dtype: torch.dtype
    per_query: Tensor
    lse_error: float
    gradient: GradientCertificate | None


class Entries(NamedTuple):
    """The numbers from which the error bound of exact attention is computed, from the entries of a call.

    Attributes:
        radii: Bounds (H, L_q) on the sums of the magnitudes of the terms of each query's scores.
        ends: The range of the products of values.
        values: The base-2 logarithms of the range of products of values and their sums: see `ValueRange`.
        scores: A bound on the logarithm to base 2 of a product of entries above 1 of the query and of every key set.
    """

    radii: Tensor
    ends: Ends
    values: tuple[float, float]
    scores: float


def entries_of(call: Call) -> Entries:
    """Read the entries of a call, once; an error for NaN or infinity."""
    entries: Entries | None = call.kept.get("entries")
    if entries is None:
        with torch.no_grad():
            entries = call.kept["entries"] = _read_by_kernels(call) or _read(call)
    return entries


def _read_by_kernels(call: Call) -> Entries | None:
    """The entries as the kernels read them; None if the kernels cannot read them, or if an entry is not finite."""
    read = entry_bounds(call)
    if read is None or not read[0].is_finite:
        return None
    bounds, width, largest, radii = read
    tuples = sum(math.log2(length) for length in call.key_lengths)
    return Entries(radii, Ends(width, largest), (bounds.log_least, bounds.log_most + tuples), bounds.log_scores)


def _read(call: Call) -> Entries:
    """The bounds on the entries of a call, computed in plain PyTorch."""
    bounds = input_bounds(call)
    values, largest = bounds.values, bounds.largest
    scores = sum(math.log2(max(most, 1.0)) for most in numbers(largest.amax((1, 2))))
    return Entries(given_radii(call, largest), Ends(values.widest, values.largest), (values.low, values.high), scores)


def exact_type(call: Call, tolerance: float, with_lse: bool, differentiable: bool) -> ExactRounding:
    """The narrowest dtype in which exact attention satisfies the tolerance, with the bounds on the errors in that
    dtype.

    If gradients will be computed, it is the narrowest dtype that satisfies the tolerance for them too, if there is one.
    """
    radii, ends, (low, high), log_scores = entries_of(call)
    kept: ExactRounding | None = None
    for dtype in dict.fromkeys((call.computed_in, torch.float64)):
        if not in_range(low, high, dtype):
            if dtype == torch.float64:
                raise SeparatrixError(
                    "values: products of their magnitudes, and sums of these, reach from "
                    f"2^{low:.4g} to 2^{high:.4g}: float64 underflows or overflows, "
                    "and no bound on the error can be given. Multiply value sets by powers of two."
                )
            continue
        if dtype == torch.float32 and not float32_products_are_float32(call.query.device.type):
            continue
        if log_scores > largest_log_scores(call, dtype):
            if dtype == torch.float64:
                raise SeparatrixError(
                    "query and keys: products of their entries overflow or underflow float64 before a score is formed, "
                    "so that no bound on the error can be given. Multiply one of them by a power of two and divide "
                    "another by it."
                )
            continue
        per_query, lse = backend_bounds(call, radii, ends, dtype)
        lse_error = largest_number(lse)
        worst = largest_bound(largest_number(per_query), lse_error if with_lse else 0.0)
        if worst <= tolerance:
            gradient = None
            if differentiable:
                gradient = exact_gradient(call, input_bounds(call), dtype, radii, per_query, lse_error)
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


def largest_log_scores(call: Call, dtype: torch.dtype) -> float:
    """The largest `Entries.scores` for which underflow in the products of a score is negligible, for every order
    in which its factors are multiplied.

    Each of about 2 k d products has an underflow error of at most the smallest normal number, times the later factors
    above 1.
    """
    scale = max(0.0, math.log2(abs(call.scale))) if call.scale else 0.0
    return room(dtype) - scale - math.log2(2 * call.order * max(call.query.shape[2], 1))


def given_radii(call: Call, largest: Tensor) -> Tensor:
    """Bounds (H, L_q) on the sums of magnitudes of the scores' terms, of the given queries and keys.

    `largest` are the largest magnitudes of the query and of each key set, (order, H, d); their products are in the
    range of float64.
    """
    d = call.query.shape[2]
    factors = torch.ones_like(largest[0])
    kept = torch.arange(d, device=largest.device)
    frame = Frame(kept, (factors,) * call.order, None, largest.unbind(0), call.scale, d, torch.float64)
    return query_radii(call, frame, key_norms(call, frame))


def exact_gradient(
    call: Call, bounds: InputBounds, dtype: torch.dtype, radii: Tensor, per_query: Tensor, lse_error: float
) -> GradientCertificate:
    r"""The certificate of gradients through exact attention in `dtype`, from bounds on its outputs and log-sum-exps.

    The backward pass recomputes weights as exp(s_t - lse). With u the unit roundoff, R a bound on the sum of the
    magnitudes of a score's terms and l a bound on |lse|, the error of a shifted score is at most (d + k + 8) u (R + l)
    plus the error of the log-sum-exp, and its exponential adds 4 u. Weights then have a relative error tau, and their
    errors sum to at most tau, because the weights sum to 1; if scores are raised to a value at which exp does not
    underflow, the smallest weight of each tuple is added. The rest follows by the identity of
    `near_linear/gradient_certificate.py`.
    """
    shape, values = sizes_of(call), bounds.values
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
    nothing = torch.zeros_like(values.widest)
    return certify_gradient(
        weights,
        _reaches(call, bounds.largest),
        [nothing] * shape.order,
        values.widest,
        values.largest,
        values.others,
        call.query.dtype,
        call.copies,
    )


def _reaches(call: Call, largest: Tensor) -> list[Tensor]:
    """The largest derivative of a score by an entry of the given query and of each given key set, (H,) each."""
    scale = torch.full_like(largest[0], abs(call.scale))
    factors = [(scale, *largest[:m], *largest[m + 1 :]) for m in range(call.order)]
    return [product_of(terms).amax(-1) * SLACK for terms in factors]
