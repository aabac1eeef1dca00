"""Runs the cheapest plan that satisfies a tolerance, and certifies the output for the given input."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

import torch
from torch import Tensor

from separatrix.attention.arguments import CallOptions
from separatrix.attention.arithmetic.assumptions import LOG
from separatrix.attention.arithmetic.device_reads import largest_number, number, truth
from separatrix.attention.arithmetic.precision import no_autocast, require_ieee_arithmetic
from separatrix.attention.bounds import check_readable, largest_bound
from separatrix.attention.call import Call
from separatrix.attention.duration import warn_if_long
from separatrix.attention.exact.operators import exact_attention
from separatrix.attention.near_linear.analysis import Analysis
from separatrix.attention.near_linear.approximation.coordinates import key_mean
from separatrix.attention.near_linear.certificate import Certificate, certify
from separatrix.attention.near_linear.cost import AFFORDABLE, recipe_cost
from separatrix.attention.near_linear.exact_rounding import ExactRounding, exact_type
from separatrix.attention.near_linear.gradient_certificate import GradientCertificate
from separatrix.attention.near_linear.plan import Plan, Recipe
from separatrix.attention.near_linear.planner import (
    NOTHING_TO_ATTEND,
    Candidate,
    PlannedCall,
    cheapest_recipe,
    exact_plan,
    out_of_reach,
    plan_call,
    polynomial_plan,
)
from separatrix.attention.near_linear.run import PolynomialRun, differentiable, run_polynomial
from separatrix.errors import SeparatrixError

Sets = Tensor | Sequence[Tensor]


@dataclass(frozen=True)
class Certified:
    """The output and the log-sum-exp, the certificate of their errors, the plan that was run, and the tolerance."""

    output: Tensor
    lse: Tensor
    certificate: Certificate
    plan: Plan
    tolerance: float

    @property
    def keeps(self) -> tuple[str, ...]:
        """The results that are certified to satisfy the tolerance: ("output",), or ("output", "gradient").

        For gradients, the `total` of ``certificate.gradient`` is compared with the tolerance.
        """
        gradient = self.certificate.gradient
        return ("output", "gradient") if gradient is not None and gradient.total <= self.tolerance else ("output",)

    def save(self, path: str | Path, query: Tensor, keys: Sets, values: Sets, **options: Unpack[CallOptions]) -> None:
        """Write the call and its results to a file that `separatrix verify` checks.

        Args:
            path: The file, which is written in the format of safetensors.
            query: The queries of the call.
            keys: The key sets of the call.
            values: The value sets of the call.
            **options: The other arguments of the call that were given: `is_causal`, `query_offset`, `key_masks`,
                `windows`, `scale`, `enable_gqa`.
        """
        from separatrix.attention.checker.saved import save_call

        save_call(path, self, query, keys, values, **options)


def certify_call(call: Call, tolerance: float, method: str, with_lse: bool = False) -> Certified:
    """Compute `certified_attention` of a checked call; if `with_lse`, the log-sum-exp satisfies the tolerance as well.

    The algorithm depends on the tensor entries, so a compiled graph breaks here. A decorator could break the graph too,
    but would import the compiler, which takes seconds, also for users who compile nothing.
    """
    compute: Callable[[Call, float, str, bool], Certified] = _certify_call
    if torch.compiler.is_compiling():
        # With fullgraph=True, the error has this message.
        torch._dynamo.graph_break("attention with a certificate reads the tensors' entries to choose an algorithm")
        compute = torch.compiler.disable(_certify_call)
    with no_autocast(call.query.device.type):
        return compute(call, tolerance, method, with_lse)


def _certify_call(call: Call, tolerance: float, method: str, with_lse: bool) -> Certified:
    check_readable(call)
    require_ieee_arithmetic()
    if call.is_empty:
        return _empty(call, tolerance)
    wants_gradient = call.wants_gradient
    planned = plan_call(call, tolerance, method)
    plan = planned.plan
    if plan.method == "polynomial":
        with torch.no_grad():
            certified_run, missed = _run(planned, tolerance, method, with_lse)
        if certified_run is not None:
            return _near_linear(*certified_run, tolerance)
        plan = exact_plan(call, planned.exact, missed)
    with torch.no_grad():
        rounding = exact_type(call, tolerance, with_lse, wants_gradient)
    return _exact(call, rounding, plan, tolerance)


def _empty(call: Call, tolerance: float) -> Certified:
    """The output of a call without keys to attend to: zeros, which have no error."""
    out, lse = exact_attention(call)
    per_query, none = torch.zeros_like(lse, dtype=torch.float64), (0.0,) * len(call.keys)
    gradient = GradientCertificate(per_query, none, none) if call.wants_gradient else None
    return Certified(out, lse, Certificate(0.0, 0.0, 0.0, 0.0, per_query, gradient), NOTHING_TO_ATTEND, tolerance)


def _near_linear(run: PolynomialRun, certificate: Certificate, plan: Plan, tolerance: float) -> Certified:
    """The result of the polynomial method, with the log-sum-exp of the scores before the keys were centred."""
    call, gradient = run.call, certificate.gradient
    query = call.query
    out, lse = differentiable(run, *call.tensors)
    moved = 0.0
    if run.expansion.frame.shift is not None:
        terms = call.scale * (query.to(torch.float64) * key_mean(call).unsqueeze(1))
        lse = lse + terms.sum(-1)
        moved = (query.shape[2] + 4) * 2.0**-52 * number(terms.detach().abs().sum(-1).max())
    lse = lse.to(torch.float64 if query.dtype == torch.float64 else torch.float32)
    certificate = replace(
        certificate,
        lse=certificate.lse + moved + lse_rounding(lse),
        per_query=call.shaped(certificate.per_query),
        gradient=None if gradient is None else replace(gradient, query=call.shaped(gradient.query)),
    )
    return Certified(call.shaped(out), call.shaped(lse), certificate, plan, tolerance)


def lse_rounding(lse: Tensor) -> float:
    """A bound on the rounding of the logarithm, and of the conversion of a log-sum-exp to its dtype."""
    if not lse.numel():
        return 0.0
    largest = number(lse.detach().abs().max())
    if largest == math.inf:  # a query without keys to attend has the log-sum-exp -inf, which is exact
        if truth(torch.isposinf(lse).any()):
            return math.inf  # the log-sum-exp exceeds the range of the dtype
        largest = number(lse.detach().masked_fill(torch.isinf(lse), 0.0).abs().max())
    return (LOG + 4) * (torch.finfo(lse.dtype).eps / 2) * (1 + largest)


def _exact(call: Call, rounding: ExactRounding, plan: Plan, tolerance: float) -> Certified:
    """Exact attention in the dtype that satisfies the tolerance, with the bounds on its rounding errors."""
    warn_if_long(call)
    out, lse = exact_attention(call.to(rounding.dtype))
    reached, most = number(out.detach().abs().max()), torch.finfo(call.query.dtype).max
    if reached > most:
        raise SeparatrixError(
            f"values: outputs reach {reached:.3g}, which overflows {call.query.dtype} (largest number {most:.3g}). Use"
            " a wider dtype, or multiply the values by a power of two."
        )
    per_query, gradient = rounding.per_query, rounding.gradient
    worst = largest_number(per_query)
    computed, lse = lse, lse if call.query.dtype == torch.float64 else lse.float()
    of_logarithm = lse_rounding(computed)
    lse_error = rounding.lse_error + of_logarithm
    lse_error += of_logarithm if lse is computed else lse_rounding(lse)
    if gradient is not None:
        gradient = replace(gradient, query=gradient.query.reshape(lse.shape))
    certificate = Certificate(0.0, worst, worst, lse_error, per_query.reshape(lse.shape), gradient)
    return Certified(out.to(call.query.dtype), lse, certificate, plan, tolerance)


def _takes_squares(analysis: Analysis, recipe: Recipe) -> bool:
    """Whether squared deviations of the values may lower the certificate of a recipe without them.

    Index sets that are not of total degree and errors that are relative to exp have no moments, and the bounds on
    gradients do not use deviations of the values.
    """
    polynomial = recipe.polynomial
    return not (recipe.squares or analysis.differentiable or polynomial is None or polynomial.relative is not None)


CertifiedRun = tuple[PolynomialRun, Certificate, Plan]


def _run(planned: PlannedCall, tolerance: float, method: str, with_lse: bool) -> tuple[CertifiedRun | None, str]:
    """Compute by a polynomial and certify; raise the degree while the certificate of the output or gradient is too
    large.

    Returns:
        The run with its certificate and plan, and an empty string; or None, and why exact attention must be computed.
        If `method` requests a polynomial and none satisfies the tolerance for gradients, the best run that satisfies it
        for the output is returned.
    """
    forecast, plan, exact, limit = planned.forecast, planned.plan, planned.exact, planned.limit
    assert forecast is not None, "a polynomial is planned by a forecast"
    analysis, recipe = forecast.analysis, plan.recipe
    kept: CertifiedRun | None = None
    least_gradient, missed = math.inf, ""
    while recipe is not None:
        run = run_polynomial(analysis, recipe)
        certificate = certify(analysis, run)
        if recipe is not plan.recipe:
            plan = polynomial_plan(forecast, Candidate(recipe, recipe_cost(analysis.shape, recipe)), tolerance, exact)
        certified_run = (run, certificate, plan)
        error = largest_bound(certificate.total, certificate.lse if with_lse else 0.0)
        gradient = 0.0 if certificate.gradient is None else certificate.gradient.total
        worst = largest_bound(error, gradient)
        if worst <= tolerance:
            return certified_run, ""
        what = "gradients" if error <= tolerance else "the output"
        missed = (
            f"the certificate of a polynomial of rank {recipe.index_set.rank} for {what}, {worst:.3g}, "
            f"exceeds {tolerance:.3g}"
        )
        if error <= tolerance and (kept is None or gradient < least_gradient):
            kept, least_gradient = certified_run, math.inf if math.isnan(gradient) else gradient
        if error > tolerance >= certificate.rounding and _takes_squares(analysis, recipe):
            recipe = replace(recipe, squares=1)
        elif recipe.dtype == torch.float32:
            recipe = replace(recipe, dtype=torch.float64)
        elif certificate.rounding > 0.9 * tolerance:
            break
        else:
            least = 1 if recipe.polynomial is None else recipe.index_set.degree + 1
            candidate = cheapest_recipe(forecast, tolerance, least, limit)
            if candidate is None and kept is None and analysis.differentiable and limit == math.inf:
                candidate = cheapest_recipe(forecast, tolerance, least, limit, output_only=True)
            recipe = None if candidate is None else candidate.recipe
        if method == "auto" and recipe is not None and recipe_cost(analysis.shape, recipe).time > exact.time:
            break
    if kept is not None and (method == "polynomial" or exact.flops > AFFORDABLE):
        return kept, ""
    if method == "polynomial" or exact.flops > AFFORDABLE:
        raise out_of_reach(analysis, tolerance)
    return None, missed
