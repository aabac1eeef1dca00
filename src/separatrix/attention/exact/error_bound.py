r"""A bound on the error of exact attention that is known before attention is computed.

Let the computed weights be e^(s_t + eta_t) with |eta_t| <= delta, and let each have a further relative error of at most
gamma in a sum. With w = max v - min v

    |out - exact| <= tanh(delta / 2) w + 2 gamma |v|_max / (1 - gamma) + rounding of the quotient,

and a log-sum-exp changes by at most delta (docs/derivations/exact-attention.md has the proofs).

- *delta*: a score is a sum of d products of k + 1 factors. Its error is at most (d + k + 2) u R, where R bounds the sum
  of the magnitudes of its terms. Subtracting the maximum, now and whenever it changes, adds 4 u R; the error of the
  exponential and the smaller error of underflow (see `balance`) are added as well.
- *gamma* = n u / (1 - n u) for n roundings, which the `summation` of an `ExactBackend` counts.

Half types are widened to float32, which is exact, and the output is rounded to its dtype once, so u is 2^-24 for them
too. GPUs whose matrix units compute products of half types have no bound (see `require_proved`). The kernels in C++
that multiply bfloat16 (vdpbf16ps, or AMX) round weights, and products of query and prefix keys for scores that are
certainly below `_LARGEST_NARROW`, with the unit u' = 2^-8; both errors belong to delta, because numerator and
denominator have the same rounded weights. PyTorch's fused attention has other errors: see `_fused_bound`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, Unpack, overload

import torch
from torch import Tensor

from separatrix.attention.arguments import CallOptions, check_arguments
from separatrix.attention.arithmetic.assumptions import EXP
from separatrix.attention.arithmetic.precision import float32_products_are_float32, require_ieee_arithmetic
from separatrix.attention.bounds import finite_extremes, largest_magnitudes
from separatrix.attention.call import Call, flattened
from separatrix.attention.exact.backend import exact_backend, require_proved
from separatrix.attention.exact.balance import log2_abs, times_power
from separatrix.attention.exact.fused import is_fused
from separatrix.errors import SeparatrixError

Sets = Tensor | Sequence[Tensor]


@overload
def exact_error_bound(
    query: Tensor,
    keys: Sets,
    values: Sets,
    *,
    return_lse: Literal[False] = ...,
    **options: Unpack[CallOptions],
) -> Tensor: ...


@overload
def exact_error_bound(
    query: Tensor,
    keys: Sets,
    values: Sets,
    *,
    return_lse: Literal[True],
    **options: Unpack[CallOptions],
) -> tuple[Tensor, Tensor]: ...


def exact_error_bound(
    query: Tensor,
    keys: Sets,
    values: Sets,
    *,
    return_lse: bool = False,
    **options: Unpack[CallOptions],
) -> Tensor | tuple[Tensor, Tensor]:
    """A bound on the error of ``tensor_attention`` without a tolerance, for the same arguments.

    Exact attention is computed in floating point, so that its output has a rounding error, which grows with the scores.
    The bound holds for every input for which `tensor_attention` returns an output, and takes time linear in the
    lengths. The bound is a worst case over all possible roundings, so the actual error is usually much smaller.

    Args:
        query: As in `tensor_attention`.
        keys: As in `tensor_attention`.
        values: As in `tensor_attention`.
        return_lse: Whether to return a bound on the error of the log-sum-exp as well. At order 2 this changes the first
            bound too, because PyTorch's fused attention, which returns no log-sum-exp, is then not used.
        **options: `is_causal`, `query_offset`, `key_masks`, `windows`, `scale` and `enable_gqa`, as in
            `tensor_attention`.

    Returns:
        A float64 tensor of shape (..., L_q) that bounds the error of every entry of a query's output. With
        ``return_lse``, a pair of two such tensors.

    Raises:
        SeparatrixError: If an entry is NaN or infinite; if a thread does not round to nearest or flushes subnormal
            numbers to zero; if PyTorch is set to compute float32 products with fewer digits; for a fused kernel without
            a known bound, on devices other than the CPU; or for half types on a GPU whose matrix units compute them,
            because no vendor documents their order of summation.

    Example:
        >>> import torch
        >>> q, k1, k2, v1, v2 = torch.randn(5, 2, 7, 4, generator=torch.Generator().manual_seed(0))
        >>> bound = exact_error_bound(q, [k1, k2], [v1, v2])
        >>> bound.shape, bool((bound < 1e-4).all())
        (torch.Size([2, 7]), True)
    """
    given = check_arguments(query, keys, values, **options)
    require_ieee_arithmetic()
    with torch.no_grad():
        out, lse = _bounds(flattened(given), fused=is_fused(given) and not return_lse)
    return (out, lse) if return_lse else out


def _bounds(call: Call, fused: bool) -> tuple[Tensor, Tensor]:
    dtype = torch.float64 if call.query.dtype == torch.float64 else torch.float32
    if fused and call.query.device.type != "cpu":
        raise SeparatrixError(
            f"query: on a device of type {call.query.device.type} order 2 is computed by a fused kernel for which no "
            "bound on the error is known. With return_lse=True another algorithm computes it, which has a known bound."
        )
    if dtype == torch.float32 and not float32_products_are_float32(call.query.device.type):
        raise SeparatrixError(
            "torch.set_float32_matmul_precision: products of float32 may be computed with fewer digits, and no bound "
            'on the error is known then. Set it to "highest", or pass float64.'
        )
    require_proved(call, call.query.dtype)
    if call.is_empty:
        nothing = call.shaped(call.query.new_zeros(call.query.shape[:2], dtype=torch.float64))
        return nothing, nothing
    radii, ends = score_radii(call), value_ends(call)
    out, lse = backend_bounds(call, radii, ends, call.query.dtype)
    if fused:
        out = torch.maximum(out, _fused_bound(call, radii, ends, dtype))
    return call.shaped(out), call.shaped(lse)


def score_radii(call: Call) -> Tensor:
    """R_i (H, L_q), an upper bound on the sum of the magnitudes of the terms of a query's scores; an error if the input
    is not finite.

    R_i is the smaller of |scale| sum_l |q_l| prod_m max_j |k_m,jl| and |scale| ||q||_k prod_m max_j ||k_m,j||_k. The
    bound is computed from logarithms, because a product of some of the factors may leave the range of float64 although
    the bound does not.
    """
    largest_magnitudes("query", call.query, None)
    query = call.query.to(torch.float64).abs()
    scale = log2_abs(call.scale)
    amplitudes, norms = query.log2() + scale, _log_norms(query, call.order) + scale
    for m, (key, mask) in enumerate(zip(call.keys, call.mask_of_each, strict=True)):
        amplitudes = amplitudes + largest_magnitudes(f"keys[{m}]", key, mask).log2().unsqueeze(1)
        key = key if mask is None else key.masked_fill(~mask.unsqueeze(-1), 0.0)
        norms = norms + _log_norms(key.to(torch.float64).abs(), call.order).amax(1, keepdim=True)
    return 1.01 * torch.minimum(amplitudes.exp2().sum(-1), norms.exp2())


def _log_norms(x: Tensor, k: int) -> Tensor:
    """log2 ||x||_k of rows (H, L, d) of nonnegative numbers, computed relative to the largest number."""
    largest = x.amax(-1, keepdim=True)
    x = x / largest.masked_fill(largest == 0, 1.0)
    return torch.log2((x**k).sum(-1)) / k + largest.squeeze(-1).log2()


class Ends(NamedTuple):
    """The width max v - min v and the largest |v| of the products of values, (H, 1), maxima over the columns."""

    width: Tensor
    largest: Tensor


def value_ends(call: Call) -> Ends:
    """The extremes of a product are products of the extremes of each set. Powers of two are tracked separately."""
    low = high = torch.ones_like(call.values[0][:, 0], dtype=torch.float64)
    exponents = torch.zeros_like(low, dtype=torch.int32)
    names = [f"values[{m}]" for m in range(len(call.values))]
    for least, most in finite_extremes(names, call.values, call.mask_of_each).unbind(1):
        by = torch.frexp(torch.maximum(least.abs(), most.abs())).exponent
        least, most, exponents = times_power(least, -by), times_power(most, -by), exponents + by
        ends = torch.stack([low * least, low * most, high * least, high * most])
        low, high = ends.amin(0), ends.amax(0)
    width, largest = (times_power(x, exponents) for x in (high - low, torch.maximum(low.abs(), high.abs())))
    return Ends(1.01 * width.amax(1, keepdim=True), 1.01 * largest.amax(1, keepdim=True))


class ErrorTerms(NamedTuple):
    """The bound on the error of exact attention as a function of the bound R on the scores of a query.

    The error of a score and of its exponential is delta = `score` R + `weight`. The error of an output is `average`
    tanh(delta / 2) times the width of the values, plus `relative` times the largest value, plus `least`; the error of a
    log-sum-exp is 1.01 delta + `lse_score` R + `lse_least`. `narrow` is the unit roundoff of operands that are rounded.
    """

    score: float
    weight: float
    average: float
    relative: float
    least: float
    lse_score: float
    lse_least: float
    narrow: float

    def of_lse(self, radius: float) -> float:
        """The bound on the error of a log-sum-exp, for scores up to `radius` and operands that are not rounded."""
        return 1.01 * (self.score * radius + self.weight) + self.lse_score * radius + self.lse_least


def error_terms(call: Call, dtype: torch.dtype) -> ErrorTerms:
    """The terms of `backend_bounds`, which depend on the sizes of a call, and not on its entries."""
    require_proved(call, dtype)
    sums, u, narrow = _rounding(call, dtype)
    tuples = sum(math.log(max(key.shape[1], 1)) for key in call.keys)
    average = _average_terms(2 * sums + 4 * u, call.query.dtype)
    return ErrorTerms(*_score_terms(call, u), *average, 8 * u, 1.01 * sums + 8 * u * (1 + tuples), narrow)


def backend_bounds(call: Call, radii: Tensor, ends: Ends, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Bounds (H, L_q) on the errors of the output and the log-sum-exp of exact attention that is computed in `dtype`.

    The tensors are first converted to `dtype`; for a half type the arithmetic is float32. The output is rounded to the
    dtype of the call. `radii` (H, L_q) bound the scores, and `ends` the products of values.
    """
    terms = error_terms(call, dtype)
    delta = terms.score * radii + terms.weight
    if terms.narrow:
        delta += terms.narrow * (radii.clamp(max=_LARGEST_NARROW) + 1.01)
    lse = (1.01 * delta).add_(radii, alpha=terms.lse_score).add_(terms.lse_least)
    return _of_average(delta, terms.average, terms.relative, terms.least, ends), lse


def relative_bound(call: Call, radius: float, dtype: torch.dtype) -> float:
    """A bound on the error of exact attention in `dtype`, divided by |v|_max, for all data with scores up to `radius`.

    The bound is for an output before it is rounded to its own dtype; values then differ by at most 2 |v|_max.
    """
    require_proved(call, dtype)
    sums, u, narrow = _rounding(call, dtype)
    score, weight = _score_terms(call, u)
    delta = score * radius + weight + narrow * (min(radius, _LARGEST_NARROW) + 1.01)
    return 1.01 * (2 * math.tanh(delta / 2) + 2 * sums + 4 * u)


_LARGEST_NARROW = 90.0
"""The limit beyond which scores are computed in float32, as in csrc/exact_forward.hpp, but in natural units."""


def _rounding(call: Call, dtype: torch.dtype) -> tuple[float, float, float]:
    """The relative error of the sums for tensors of a dtype, and the unit roundoffs of the arithmetic and of the
    operands."""
    backend, computed_in = exact_backend(call, dtype), torch.float64 if dtype == torch.float64 else torch.float32
    summation = backend.summation(call, dtype if backend.TAKES_AS_GIVEN else computed_in)
    u = torch.finfo(computed_in).eps / 2
    return _relative(summation.count(), u), u, summation.operand_unit


def _score_terms(call: Call, u: float) -> tuple[float, float]:
    """(a, b) of delta = a R + b, the error of a score and of its exponential, if the magnitudes of the terms of a score
    sum to at most R."""
    return 1.01 * (call.query.shape[2] + call.order + 8) * u, (EXP + 4) * u


def _fused_bound(call: Call, radii: Tensor, ends: Ends, dtype: torch.dtype) -> Tensor:
    """The bound (H, L_q) for PyTorch's fused attention, which computes in `dtype`.

    Its exponential in float32 is a polynomial with an error of up to 20 units in the last place; for half types it is a
    polynomial of degree 3 with an error of 1.2 10^-4, counted here as 2^-12. The kernel rounds weights to a half type
    before it multiplies them by the values, but not before it sums them: this adds a relative error of u', and in
    float16, whose smallest positive number is 2^-24, up to 2^-25 of the largest weight for each key.
    """
    out, u = torch.finfo(call.query.dtype), torch.finfo(dtype).eps / 2
    length, d = call.keys[0].shape[1], call.query.shape[2]
    half = out.bits == 16
    exponential = (2.0**-12 if half else 0.0) + (8 if dtype == torch.float64 else 48) * u
    delta = 1.01 * (d + 16) * u * radii + exponential
    sums = 2 * _relative(length + 6 * -(-length // 512) + 16, u) + 4 * u
    weights = out.eps / 2 + length * out.smallest_normal * out.eps / 2 if half else 0.0
    underflow = 4 * length * torch.finfo(dtype).tiny
    return _of_average(delta, *_average_terms(sums + 1.01 * weights, call.query.dtype), ends) + underflow


def _relative(count: int, u: float) -> float:
    """gamma / (1 - gamma) for a number of roundings; infinite if no digit may be correct."""
    gamma = count * u / (1 - count * u) if count * u < 0.25 else math.inf
    return gamma / (1 - gamma) if gamma < math.inf else math.inf


def _average_terms(relative: float, dtype: torch.dtype) -> tuple[float, float, float]:
    """`average`, `relative` and `least` of `ErrorTerms` for an average in `dtype` whose sums have the relative error
    `relative`."""
    out = torch.finfo(dtype)
    factor = 1.01 * (1 + out.eps / 2)
    return factor, factor * relative + 1.01 * out.eps / 2, out.smallest_normal * out.eps


def _of_average(delta: Tensor, average: float, relative: float, least: float, ends: Ends) -> Tensor:
    """The error of an average whose scores have an error of delta, by its terms; infinite if beyond float64."""
    base = (relative * ends.largest).masked_fill_(ends.largest == 0, 0.0) + least
    error = torch.addcmul(base, torch.tanh(delta / 2), ends.width * average)
    return error.masked_fill_(torch.isnan(error), math.inf)
