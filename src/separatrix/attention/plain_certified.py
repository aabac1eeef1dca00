"""Certified exact attention by our kernels on plain tensors of the CPU, where no polynomial is searched for.

Whether one is searched for depends on sizes alone, and so does the error bound apart from a few extremes, which the
kernels read. For a short call the checks, the plan and the bound in PyTorch's operations take many times as long as
attention. Calls that may need any of them are left to `certified`, which returns the same results.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch

from separatrix.attention.arithmetic.precision import float32_products_are_float32, require_ieee_arithmetic
from separatrix.attention.bounds import in_range
from separatrix.attention.call import Call, Positions
from separatrix.attention.certified import Certified, lse_rounding
from separatrix.attention.exact.error_bound import ErrorTerms, error_terms
from separatrix.attention.exact.native import has_kernels
from separatrix.attention.exact.plain_tuples import plain_call, wants_gradient
from separatrix.attention.near_linear.analysis import sizes_of
from separatrix.attention.near_linear.certificate import Certificate
from separatrix.attention.near_linear.cost import Cost
from separatrix.attention.near_linear.exact_rounding import largest_log_scores
from separatrix.attention.near_linear.planner import exact_plan_for, search_limit
from separatrix.native import ExactBounds
from separatrix.native_tensors import TYPES


def plain_certified(
    *arguments: object, tolerance: object, method: str, with_lse: bool = False, **options: object
) -> Certified | None:
    """The result of `certify_call` without gradients if the arguments, those of `plain_call`, need no further check.

    Otherwise None, and also if a polynomial is searched for, or if float64 is needed for inputs in float32.
    """
    if type(tolerance) is not float or not 0.0 < tolerance < math.inf:
        return None
    plain = plain_call(*arguments, **options)
    if plain is None or plain.shared > 1 or wants_gradient(plain):
        return None
    query, dtype = plain.tensors[0], plain.tensors[0].dtype
    sets = len(plain.masks)
    if dtype not in TYPES or not has_kernels(sets):
        return None
    sizes = (math.prod(query.shape[:-2]), *query.shape[-2:], plain.tensors[-1].shape[-1])
    lengths = tuple([key.shape[-2] for key in plain.tensors[1 : sets + 1]])
    known = _known_of_sizes(dtype, sizes, lengths, plain.positions, plain.scale, method)
    if known is None or (dtype == torch.float32 and not float32_products_are_float32()):
        return None
    require_ieee_arithmetic()
    terms = known.terms

    def accept(bounds: ExactBounds) -> bool:
        worst = max(bounds.most_error, terms.of_lse(bounds.most_radius) if with_lse else 0.0)
        return (
            worst <= tolerance
            and bounds.log_scores <= known.log_scores
            and in_range(bounds.log_least, bounds.log_most + known.log_tuples, dtype)
        )

    results = plain.forward_within(terms[:5], accept)
    if results is None:
        return None
    out, lse, errors, bounds = results
    # As in `certified`: a log-sum-exp is rounded once by the logarithm and once by its conversion.
    lse_error = terms.of_lse(bounds.most_radius) + 2 * lse_rounding(lse)
    certificate = Certificate(0.0, bounds.most_error, bounds.most_error, lse_error, errors)
    plan = exact_plan_for(bounds.most_value, dtype, known.cost, known.why)
    return Certified(out, lse, certificate, plan, tolerance)


class _Known(NamedTuple):
    """What the sizes of a call determine: its cost, why no polynomial is searched for, and its error bound.

    `log_scores` is the largest `Entries.scores`, and `log_tuples` the base-2 logarithm of the number of key tuples.
    """

    cost: Cost
    why: str
    terms: ErrorTerms
    log_scores: float
    log_tuples: float


@lru_cache(maxsize=256)
def _known_of_sizes(
    dtype: torch.dtype,
    sizes: tuple[int, int, int, int],
    lengths: tuple[int, ...],
    positions: Positions,
    scale: float,
    method: str,
) -> _Known | None:
    """What the numbers of heads, queries and columns of a call determine; None if a polynomial is searched for."""
    heads, length, d, d_v = sizes
    entry = torch.zeros((), dtype=dtype)
    keys, values = (tuple(entry.expand(heads, n, columns) for n in lengths) for columns in (d, d_v))
    call = Call(entry.expand(heads, length, d), keys, values, (), positions, scale)
    cost, _, why = search_limit(sizes_of(call), dtype == torch.float64, positions.has_window, method)
    if not why or (positions.has_window and method == "polynomial"):
        return None
    log_tuples = sum(math.log2(n) for n in lengths)
    return _Known(cost, why, error_terms(call, dtype), largest_log_scores(call, dtype), log_tuples)
