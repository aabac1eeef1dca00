"""The cheapest plan that keeps a tolerance, run, and certified on the input at hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.arithmetic.assumptions import LOG
from separatrix.attention.arithmetic.precision import no_autocast, require_ieee_arithmetic
from separatrix.attention.arithmetic.summation import Summing
from separatrix.attention.call import Call
from separatrix.attention.certificate.gradient import GradientCertificate
from separatrix.attention.certificate.output import Certificate, certify
from separatrix.attention.dispatch.readable import check_readable
from separatrix.attention.dispatch.second_derivatives import only_first_derivatives
from separatrix.attention.exact.operators import exact_attention
from separatrix.attention.planning.cost import AFFORDABLE, basis_time, certified_cost, exact_cost, planning_time
from separatrix.attention.planning.exact_type import exact_type
from separatrix.attention.planning.forecast import Analysis, analyse, gamma, gradient_gamma, outside, turned
from separatrix.attention.planning.plan import (
    Plan,
    Recipe,
    choose,
    exact_plan,
    out_of_reach,
    polynomial_plan,
    recipes,
    time_limit,
)
from separatrix.attention.polynomial import causal
from separatrix.attention.polynomial import sums as polynomial
from separatrix.attention.polynomial.frame import key_mean
from separatrix.attention.polynomial.products import expanded
from separatrix.attention.polynomial.sums import Expansion, Sums
from separatrix.errors import ArgumentError, SeparatrixError

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
        """What is certified to keep the tolerance: ("output",), or ("output", "gradient") where gradients do too.

        For gradients it is the `total` of ``certificate.gradient`` that is at most the tolerance.
        """
        gradient = self.certificate.gradient
        return ("output", "gradient") if gradient is not None and gradient.total <= self.tolerance else ("output",)

    def save(self, path: str | Path, query: Tensor, keys: Sets, values: Sets, **options: Any) -> None:
        """Write the call and its results to a file that `separatrix verify` checks.

        Args:
            path: The file to write, by safetensors.
            query: The tensor of the call, and so on.
            keys: As in the call.
            values: As in the call.
            **options: The other arguments of the call that were given: `is_causal`, `query_offset`, `key_masks`,
                `windows`, `scale`, `enable_gqa`.
        """
        from separatrix.attention.checker.saved import save_call

        save_call(path, self, query, keys, values, **options)


@dataclass(frozen=True)
class Run:
    """A computed polynomial attention: what its backward pass needs."""

    call: Call
    expansion: Expansion
    states: list[Tensor]
    sums: Sums


def _certify_call(call: Call, tolerance: float, method: str, with_lse: bool) -> Certified:
    check_readable(call)
    require_ieee_arithmetic()
    if call.is_empty:
        out, lse = exact_attention(call)
        nothing = Plan("exact", None, None, None, 0.0, 0.0, 0.0, "there is nothing to attend")
        per_query = torch.zeros_like(lse, dtype=torch.float64)
        nothing_wrong = None
        if wants_gradient(call):
            none = (0.0,) * len(call.keys)
            nothing_wrong = GradientCertificate(per_query, none, none)
        return Certified(out, lse, Certificate(0.0, 0.0, 0.0, 0.0, per_query, nothing_wrong), nothing, tolerance)
    analysis, plan = plan_call(call, tolerance, method)
    found = None
    if plan.method == "polynomial":
        with torch.no_grad():
            found, missed = _run(analysis, plan, tolerance, method, with_lse)
        if found is None:
            plan = exact_plan(analysis, missed)
    if found is None:
        return _exact(analysis, tolerance, plan, with_lse)
    run, certificate, plan = found
    gradient = certificate.gradient
    query = call.query
    out, lse = differentiable(run, *call.tensors)
    moved = 0.0
    if run.expansion.frame.shift is not None:
        terms = call.scale * (query.to(torch.float64) * key_mean(call).unsqueeze(1))
        lse = lse + terms.sum(-1)
        moved = (query.shape[2] + 4) * 2.0**-52 * float(terms.detach().abs().sum(-1).max())
    lse = lse.to(torch.float64 if query.dtype == torch.float64 else torch.float32)
    certificate = replace(
        certificate,
        lse=certificate.lse + moved + _lse_rounding(lse),
        per_query=call.shaped(certificate.per_query),
        gradient=None if gradient is None else replace(gradient, query=call.shaped(gradient.query)),
    )
    return Certified(call.shaped(out), call.shaped(lse), certificate, plan, tolerance)


def wants_gradient(call: Call) -> bool:
    """Whether autograd will record the call."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in call.tensors)


def certify_call(call: Call, tolerance: float, method: str, with_lse: bool = False) -> Certified:
    """`certified_attention` of a checked call; `with_lse` the log-sum-exp keeps the tolerance as well.

    What runs depends on the numbers, so that a compiled graph is left here. Not by decoration: that would import the
    compiler, seconds of it, for those who compile nothing.
    """
    certify: Callable[[Call, float, str, bool], Certified] = _certify_call
    if torch.compiler.is_compiling():
        # With fullgraph=True this is the error, and these are its words.
        torch._dynamo.graph_break("attention with a certificate reads the numbers to choose what to run")
        certify = torch.compiler.disable(_certify_call)
    with no_autocast(call.query.device.type):
        return certify(call, tolerance, method, with_lse)


def plan_call(call: Call, tolerance: float, method: str) -> tuple[Analysis, Plan]:
    """What is known of a checked call, and the plan it leads to."""
    check_readable(call)
    windows = call.positions.windows
    windowed = any(window is not None for window in windows)
    differentiable = wants_gradient(call)
    if windowed and method == "polynomial":
        raise ArgumentError("windows", expected="None for method 'polynomial'", got=windows)
    with torch.no_grad():
        analysis = analyse(call, differentiable)
        if windowed or method == "exact":
            return analysis, choose(analysis, None, tolerance, "exact")
        most = time_limit(analysis, method)
        if most < planning_time(analysis.shape):
            return analysis, choose(analysis, None, tolerance, method)
        other = turned(analysis, tolerance) if basis_time(analysis.shape) < most else None
        analyses = [analysis] if other is None else [analysis, other]
        # Where no polynomial keeps the tolerance for gradients too, one that keeps it for the output may have to do.
        for output_only in (False, True) if differentiable and most == math.inf else (False,):
            found = [(x, recipes(x, tolerance, time_limit=most, output_only=output_only)) for x in analyses]
            made = [(x, recipe) for x, recipe in found if recipe is not None]
            if made:
                analysis, recipe = min(made, key=lambda pair: pair[1].index_set.rank)
                return analysis, choose(analysis, recipe, tolerance, method)
        return analysis, choose(analysis, None, tolerance, method)


Found = tuple[Run, Certificate, Plan]


def _run(analysis: Analysis, plan: Plan, tolerance: float, method: str, with_lse: bool) -> tuple[Found | None, str]:
    """Compute and certify, at a higher degree while the certificate misses the tolerance, the gradient's too.

    Returns:
        What was found, and an empty sentence; or None, and why exact attention has to do it. Where no polynomial keeps
        the tolerance for gradients and `method` asks for one, the best that keeps it for the output.
    """
    recipe = plan.recipe
    exact = exact_cost(analysis.shape, analysis.call.query.dtype == torch.float64)
    kept: Found | None = None
    missed = ""
    while recipe is not None:
        run = _compute(analysis, recipe)
        certificate = _certify(analysis, recipe, run)
        found = (
            run,
            certificate,
            plan if recipe is plan.recipe else polynomial_plan(analysis, recipe, tolerance, exact),
        )
        error = max(certificate.total, certificate.lse if with_lse else 0.0)
        gradient = 0.0 if certificate.gradient is None else certificate.gradient.total
        if max(error, gradient) <= tolerance:
            return found, ""
        what = "the output" if error > tolerance else "gradients"
        missed = (
            f"a polynomial of rank {recipe.index_set.rank} was tried, and its certificate for {what}, "
            f"{max(error, gradient):.3g}, is above {tolerance:.3g}"
        )
        if error <= tolerance and (kept is None or kept[1].gradient.total > gradient):  # type: ignore[union-attr]
            kept = found
        if recipe.dtype == torch.float32:
            recipe = replace(recipe, dtype=torch.float64)
        elif certificate.rounding > 0.9 * tolerance:
            break
        else:
            least = 1 if recipe.polynomial is None else recipe.index_set.degree + 1
            most = time_limit(analysis, method)
            recipe = recipes(analysis, tolerance, least, most)
            if recipe is None and kept is None and analysis.differentiable and most == math.inf:
                recipe = recipes(analysis, tolerance, least, most, output_only=True)
        if method == "auto" and recipe is not None:
            cost = certified_cost(analysis.shape, expanded(recipe.index_set), recipe.dtype == torch.float64)
            if cost.time > exact.time:
                break
    if kept is not None and (method == "polynomial" or exact.flops > AFFORDABLE):
        return kept, ""
    if method == "polynomial" or exact.flops > AFFORDABLE:
        raise out_of_reach(analysis, tolerance)
    return None, missed


def _compute(analysis: Analysis, recipe: Recipe) -> Run:
    index_set = recipe.index_set
    weights = torch.from_numpy(index_set.multinomials())
    degrees = torch.from_numpy(index_set.alphas.sum(1))
    if recipe.polynomial is None:
        series = torch.tensor([1 / math.factorial(p) for p in range(index_set.degree + 1)], dtype=torch.float64)
    else:
        series = torch.tensor(recipe.polynomial.coefficients, dtype=torch.float64)
    coefficients = (series[degrees] * weights).to(analysis.call.query.device)
    moment = None if recipe.polynomial is None else recipe.polynomial.moment
    expansion = Expansion(replace(analysis.frame, dtype=recipe.dtype), index_set, coefficients, moment)
    if analysis.call.positions.is_causal:
        return Run(analysis.call, expansion, [], causal.attend_causal(analysis.call, expansion))
    states = polynomial.states(analysis.call, expansion)
    return Run(analysis.call, expansion, states, polynomial.attend(analysis.call, expansion, states))


def _certify(analysis: Analysis, recipe: Recipe, run: Run) -> Certificate:
    call = analysis.call
    if not call.positions.is_causal:
        chunk = run.expansion.chunk(call.query.shape[0])
        tuples = torch.ones(call.query.shape[0], dtype=torch.float64, device=call.query.device)
        for count in call.counts():
            tuples = tuples * count
        tuples = tuples.unsqueeze(1).expand(call.query.shape[:2])
        summing = Summing(chunk, chunk)
    else:
        tuples = _causal_tuples(call)
        summing = causal.causal_summing(call, recipe.index_set.rank)
    index_set = recipe.index_set
    sizes = (index_set.degree, index_set.rank, summing, run.expansion.dtype)
    left_out = outside(analysis, recipe.index_set.alphas, call.query) if recipe.polynomial is None else None
    return certify(
        call,
        run.expansion,
        recipe.polynomial,
        run.sums,
        analysis.values,
        analysis.radii,
        tuples,
        gamma(analysis, *sizes),
        left_out,
        analysis.drift,
        gradient_gamma(analysis, *sizes) if analysis.differentiable else None,
        call.copies,
    )


def _causal_tuples(call: Call) -> Tensor:
    """How many tuples each query attends, (H, L_q)."""
    heads, length, _ = call.query.shape
    total = torch.ones(heads, length, dtype=torch.float64, device=call.query.device)
    here = torch.arange(length, device=call.query.device) + call.positions.offset + 1
    for m, key in enumerate(call.keys):
        seen = call.masks[m] if call.masks else torch.ones(key.shape[:2], dtype=torch.bool, device=key.device)
        counts = torch.nn.functional.pad(seen.cumsum(1), (1, 0))
        total = total * counts[:, here.clamp(0, key.shape[1])]
    return total


class _Polynomial(torch.autograd.Function):
    """Hands out what was computed, and differentiates it."""

    @staticmethod
    def forward(ctx: Any, run: Run, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        ctx.run = replace(run, states=[], sums=replace(run.sums, output=run.sums.output[:0]))
        lse = torch.log(run.sums.denominator)
        ctx.save_for_backward(*inputs, run.sums.output, *run.states)
        return run.sums.output, lse

    @staticmethod
    @only_first_derivatives
    def backward(ctx: Any, grad_out: Tensor, grad_lse: Tensor) -> tuple[Any, ...]:
        run: Run = ctx.run
        sets = len(run.call.keys)
        query, *rest = ctx.saved_tensors
        call = replace(run.call, query=query, keys=tuple(rest[:sets]), values=tuple(rest[sets : 2 * sets]))
        out, *states = rest[2 * sets :]
        sums = replace(run.sums, output=out)
        grad_lse = grad_lse.masked_fill(sums.denominator == 0, 0.0)
        with no_autocast(query.device.type):
            if not call.positions.is_causal:
                grads = polynomial.backward(call, run.expansion, states, sums, grad_out, grad_lse)
            else:
                grads = causal.backward_causal(call, run.expansion, sums, grad_out, grad_lse)
        return None, grads[0], *grads[1], *grads[2]


differentiable: Callable[..., tuple[Tensor, Tensor]] = _Polynomial.apply


def _lse_rounding(lse: Tensor) -> float:
    """The rounding of the logarithm, and of the type in which a finite log-sum-exp is handed out."""
    if torch.isposinf(lse).any():
        return math.inf  # beyond the type
    finite = lse.detach().masked_fill(torch.isinf(lse), 0.0)
    return (LOG + 4) * (torch.finfo(lse.dtype).eps / 2) * (1 + float(finite.abs().max())) if lse.numel() else 0.0


def _exact(analysis: Analysis, tolerance: float, plan: Plan, with_lse: bool) -> Certified:
    """Exact attention with a bound on its rounding, in float64 where the call's own type would miss the tolerance."""
    with torch.no_grad():
        dtype, per_query, lse_error, gradient = exact_type(analysis, tolerance, with_lse)
    call = analysis.call
    out, lse = exact_attention(call.to(dtype))
    reached, most = float(out.detach().abs().max()), torch.finfo(call.query.dtype).max
    if reached > most:
        raise SeparatrixError(
            f"values: outputs reach {reached:.3g}, and {call.query.dtype} ends at {most:.3g}. Give a wider type, or "
            "multiply the values by a power of two."
        )
    worst = float(per_query.max()) if per_query.numel() else 0.0
    lse_error += _lse_rounding(lse)
    lse = lse if call.query.dtype == torch.float64 else lse.float()
    if gradient is not None:
        gradient = replace(gradient, query=gradient.query.reshape(lse.shape))
    per_query, lse_error = per_query.reshape(lse.shape), lse_error + _lse_rounding(lse)
    certificate = Certificate(0.0, worst, worst, lse_error, per_query, gradient)
    return Certified(out.to(call.query.dtype), lse, certificate, plan, tolerance)
