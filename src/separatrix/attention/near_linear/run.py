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
from separatrix.attention.dispatch.registration import only_first_derivatives
from separatrix.attention.near_linear.analysis import Analysis, Deviation, deviation, squares_of
from separatrix.attention.near_linear.approximation.monomials import total_degree
from separatrix.attention.near_linear.causal import attend_causal, backward_causal
from separatrix.attention.near_linear.plan import Recipe
from separatrix.attention.near_linear.sums import Expansion, Sums, attend, backward, states


@dataclass(frozen=True)
class PolynomialRun:
    """The results of near-linear attention by a recipe, with the intermediate results for the certificate and the
    backward pass.

    If the recipe has columns of squared deviations, `deviation` has the centre and the scales of the values.
    """

    call: Call
    recipe: Recipe
    expansion: Expansion
    states: list[Tensor]
    sums: Sums
    deviation: Deviation | None = None


def run_polynomial(analysis: Analysis, recipe: Recipe) -> PolynomialRun:
    """Attend by the polynomial of a recipe, in the coordinates of an analysis."""
    call, expansion, away = analysis.call, expand(analysis, recipe), None
    if recipe.squares:
        away = deviation(call, analysis.values)
        expansion = replace(expansion, squares=squares_of(call, away, recipe.squares))
    if call.positions.is_causal:
        return PolynomialRun(call, recipe, expansion, [], attend_causal(call, expansion), away)
    key_states = states(call, expansion)
    return PolynomialRun(call, recipe, expansion, key_states, attend(call, expansion, key_states), away)


def expand(analysis: Analysis, recipe: Recipe) -> Expansion:
    """The polynomial of a recipe as a sum of monomials in the coordinates of an analysis."""
    index_set, polynomial = recipe.index_set, recipe.polynomial
    if polynomial is None:
        series = torch.tensor([1 / math.factorial(p) for p in range(index_set.degree + 1)], dtype=torch.float64)
    else:
        series = torch.tensor(polynomial.coefficients, dtype=torch.float64)
    weights, degrees = torch.from_numpy(index_set.multinomials), torch.from_numpy(index_set.degrees)
    coefficients = (series[degrees] * weights).to(analysis.call.query.device)
    if polynomial is None or polynomial.relative is not None:
        moment = None
    else:
        moment, degree = polynomial.moment, max(polynomial.moment, polynomial.degree)
        index_set = total_degree(index_set.dimension, degree)
    return Expansion(replace(analysis.frame, dtype=recipe.dtype), index_set, coefficients, moment)


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
