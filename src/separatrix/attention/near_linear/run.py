"""Near-linear attention that has been computed, as a differentiable function of the tensors of its call."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from separatrix.attention.arithmetic.precision import no_autocast
from separatrix.attention.call import Call
from separatrix.attention.dispatch.second_derivatives import only_first_derivatives
from separatrix.attention.near_linear.analysis import Analysis, Deviation, deviation, deviation_call
from separatrix.attention.near_linear.approximation.monomials import total_degree
from separatrix.attention.near_linear.approximation.remainder import power_of_scores
from separatrix.attention.near_linear.backend import backend_of
from separatrix.attention.near_linear.causal import attend_causal, backward_causal
from separatrix.attention.near_linear.expansion import Expansion, Sums
from separatrix.attention.near_linear.plan import Recipe, Weighting
from separatrix.attention.near_linear.sums import attend, backward, states


@dataclass(frozen=True)
class PolynomialRun:
    """The results of near-linear attention by a recipe, with what the certificate and the backward pass need.

    `weighted` are sums that lower the certificate, and are computed where it would miss the tolerance without them.
    """

    call: Call
    recipe: Recipe
    expansion: Expansion
    states: list[Tensor]
    sums: Sums
    weighted: WeightedDeviations | None = None


@dataclass(frozen=True)
class WeightedDeviations:
    """Squared deviations of the values, weighted by an even power of the scores and summed, query by query.

    Attributes:
        deviation: The centre and the scales of the values.
        analysis: The analysis of the call with squared deviations in place of its values.
        run: Near-linear attention of that call by the power of the scores, the degree of its index set.
    """

    deviation: Deviation
    analysis: Analysis
    run: PolynomialRun


def run_polynomial(analysis: Analysis, recipe: Recipe) -> PolynomialRun:
    """Attend by the polynomial of a recipe, in the coordinates of an analysis."""
    call, expansion = analysis.call, expand(analysis, recipe)
    if call.positions.is_causal:
        return PolynomialRun(call, recipe, expansion, [], attend_causal(call, expansion))
    key_states = states(call, expansion)
    return PolynomialRun(call, recipe, expansion, key_states, attend(call, expansion, key_states))


def expand(analysis: Analysis, recipe: Recipe) -> Expansion:
    """The polynomial of a recipe as a sum of monomials in the coordinates of an analysis."""
    index_set, polynomial = recipe.index_set, recipe.polynomial
    if polynomial is None:
        series = torch.tensor([1 / math.factorial(p) for p in range(index_set.degree + 1)], dtype=torch.float64)
    else:
        series = torch.tensor(polynomial.coefficients, dtype=torch.float64)
    weights, degrees = torch.from_numpy(index_set.multinomials), torch.from_numpy(index_set.degrees)
    coefficients = (series[degrees] * weights).to(analysis.call.query.device)
    moment = None if polynomial is None else polynomial.moment
    return Expansion(replace(analysis.frame, dtype=recipe.dtype), index_set, coefficients, moment)


def weigh_deviations(analysis: Analysis, run: PolynomialRun, weighting: Weighting) -> PolynomialRun:
    """The run with the sums that bound its error by deviations of the values in place of their range."""
    away = deviation(analysis.call, analysis.values)
    call = deviation_call(analysis.call, away, weighting.columns)
    shape = replace(analysis.shape, d_v=weighting.columns)
    of_squares = replace(analysis, call=call, shape=shape, backend=backend_of(call))
    index_set = total_degree(analysis.frame.width, weighting.level)
    recipe = Recipe(index_set, power_of_scores(weighting.level), run.recipe.dtype)
    return replace(run, weighted=WeightedDeviations(away, of_squares, run_polynomial(of_squares, recipe)))


class _Polynomial(torch.autograd.Function):
    """Returns the output and the log-sum-exp of a run, and differentiates them."""

    @staticmethod
    def forward(ctx: Any, run: PolynomialRun, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        ctx.run = replace(run, states=[], sums=replace(run.sums, output=run.sums.output[:0]))
        lse = torch.log(run.sums.denominator)
        ctx.save_for_backward(*inputs, run.sums.output, *run.states)
        return run.sums.output, lse

    @staticmethod
    @only_first_derivatives
    def backward(ctx: Any, grad_out: Tensor, grad_lse: Tensor) -> tuple[Any, ...]:
        run: PolynomialRun = ctx.run
        sets = len(run.call.keys)
        query, *rest = ctx.saved_tensors
        call = replace(run.call, query=query, keys=tuple(rest[:sets]), values=tuple(rest[sets : 2 * sets]))
        out, *states = rest[2 * sets :]
        sums = replace(run.sums, output=out)
        grad_lse = grad_lse.masked_fill(sums.denominator == 0, 0.0)
        with no_autocast(query.device.type):
            if not call.positions.is_causal:
                grads = backward(call, run.expansion, states, sums, grad_out, grad_lse)
            else:
                grads = backward_causal(call, run.expansion, sums, grad_out, grad_lse)
        return None, grads[0], *grads[1], *grads[2]


differentiable: Callable[..., tuple[Tensor, Tensor]] = _Polynomial.apply
"""Returns the output and the log-sum-exp of a run; call it with the run and the tensors of its call."""
