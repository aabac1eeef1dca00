r"""A bound on the rounding of exact attention's gradients: the weights are recomputed as exp(s_t - lse) and rounded.

With u the unit of the type, R a bound on the sums of magnitudes of the scores' terms and l on |lse|, a shifted score
errs by (d + k + 8) u (R + l) and by the error of the log-sum-exp, and its exponential by 4 u more. Weights are then off
by a relative tau, and in sum by no more, because they sum to 1; scores that are raised to where exp is normal add the
smallest weight of each tuple. The rest follows by the identity of `near_linear/gradient_certificate.py`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from separatrix.attention.arithmetic.rounding import EXPONENTIAL
from separatrix.attention.bounds import largest_magnitudes
from separatrix.attention.exact.backend import exact_backend
from separatrix.attention.exact.torch.passes import lowest
from separatrix.attention.near_linear.analysis import Analysis
from separatrix.attention.near_linear.gradient_certificate import GradientCertificate, Weights, certify_gradient


def exact_gradient(
    analysis: Analysis, dtype: torch.dtype, radii: Tensor, per_query: Tensor, lse_error: float
) -> GradientCertificate:
    """The certificate of gradients through exact attention in `dtype`, from bounds on its outputs and log-sum-exps."""
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
