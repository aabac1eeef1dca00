"""Certified calls by polynomials with an error relative to exp: the bound holds, is tight, and saves rank."""

from __future__ import annotations

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.near_linear import planner
from separatrix.attention.near_linear.approximation.remainder import Polynomial, relative_minimax


@pytest.fixture(autouse=True)
def _always_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "SMALLEST_SAVING", 0.0)


def extreme(n, d, order, radius, seed=0):
    """Inputs whose scores are all +-radius, and whose values are +-1."""
    generator = torch.Generator().manual_seed(seed)

    def signs(width):
        return torch.sign(torch.randn(n, width, generator=generator, dtype=torch.float64))

    query, *keys = (signs(1).repeat(1, d) for _ in range(order))
    return radius * query, keys, [signs(3) for _ in keys]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("order", "d"), [(2, 3), (3, 2), (4, 3)])
@pytest.mark.parametrize(("radius", "tolerance"), [(0.3, 1e-4), (1.0, 1e-2), (2.0, 1e-8), (4.0, 1e-2)])
def test_the_certificate_holds_at_extreme_scores(order, d, radius, tolerance, is_causal):
    inputs = extreme(40, d, order, radius)
    result = sx.certified_attention(*inputs, tolerance=tolerance, is_causal=is_causal, method="polynomial")
    exact, lse = reference.tensor_attention(*inputs, is_causal=is_causal)
    assert (result.output - exact).abs().max() <= result.certificate.total <= tolerance
    assert (result.lse - lse).abs().max() <= result.certificate.lse


def test_the_bound_is_near_the_error(monkeypatch):
    """With a third of the total variation the certificate would be violated."""
    inputs = extreme(40, 3, 2, 1.0)
    exact, _ = reference.tensor_attention(*inputs, is_causal=True)
    result = sx.certified_attention(*inputs, tolerance=0.1, is_causal=True, method="polynomial")
    assert result.plan.index_set == "total degree 2 (minimax, relative to exp)"
    error = (result.output - exact).abs().max()
    assert error <= result.certificate.total
    honest = Polynomial.variation.fget
    monkeypatch.setattr(Polynomial, "variation", property(lambda p: None if p.relative is None else honest(p) / 3))
    assert error > sx.certified_attention(*inputs, tolerance=0.1, is_causal=True, method="polynomial").certificate.total


def test_a_larger_error_than_is_stated_breaks_the_certificate(monkeypatch):
    """A polynomial with one coefficient changed after its error was proved."""

    def wrong(degree, radius, largest_error):
        right = relative_minimax(degree, radius, largest_error)
        if right is None:
            return None
        return Polynomial((*right.coefficients[:-1], 0.9 * right.coefficients[-1]), 0, right.radius, None, None, 1e-6)

    inputs = extreme(40, 3, 2, 1.0)
    monkeypatch.setattr(planner, "relative_minimax", wrong)
    result = sx.certified_attention(*inputs, tolerance=0.1, is_causal=True, method="polynomial")
    exact, _ = reference.tensor_attention(*inputs, is_causal=True)
    assert "relative" in result.plan.index_set
    assert (result.output - exact).abs().max() > result.certificate.total


def test_extreme_scores_take_lower_degrees_than_chebyshevs(monkeypatch):
    inputs = extreme(40, 3, 3, 4.0)
    degrees = []
    for saving in (0.0, float("inf")):
        monkeypatch.setattr(planner, "SMALLEST_SAVING", saving)
        degrees.append(sx.plan_attention(*inputs, tolerance=1e-2, is_causal=True, method="polynomial").degree)
    assert degrees[0] < degrees[1]


@pytest.mark.parametrize("tolerance", [0.9, 2.0, 1e6])
def test_any_tolerance_has_a_certificate(tolerance):
    """For every tolerance the relative error stays below 1, so that weights are positive."""
    inputs = extreme(40, 3, 2, 4.0)
    result = sx.certified_attention(*inputs, tolerance=tolerance, is_causal=True, method="polynomial")
    exact, _ = reference.tensor_attention(*inputs, is_causal=True)
    assert (result.output - exact).abs().max() <= result.certificate.total <= tolerance


def test_gradients_do_not_use_relative_errors():
    query, keys, values = extreme(40, 3, 2, 1.0)
    result = sx.certified_attention(query.requires_grad_(), keys, values, tolerance=0.1, method="polynomial")
    assert "relative" not in result.plan.index_set


def test_shapes_that_were_out_of_reach():
    plan = sx.plan_shapes(100_000, 64, 1.0, 3, 1e-2)
    assert (plan.method, plan.degree, plan.rank) == ("polynomial", 3, 47905)
    assert sx.plan_shapes(100_000, 64, 1.0, 3, 1e-3).method == "none"
    assert sx.plan_shapes(100_000, 32, 1.0, 3, 1e-2).rank == 6545


@pytest.mark.parametrize("tolerance", [5.5e-3, 1.5e-4, 2.1e-2, 0.11, 0.5])
def test_shapes_promise_no_lower_rank_than_calls_with_the_largest_entries_take(tolerance):
    """The call is causal, so that its basis is not balanced: a balanced basis would need one coordinate only."""
    shapes = sx.plan_shapes(10**7, 4, 1.0, 2, tolerance)
    call = sx.plan_attention(*extreme(40, 4, 2, 1.0), tolerance=tolerance, is_causal=True, method="polynomial")
    assert call.rank <= shapes.rank


@pytest.mark.parametrize("tolerance", [0.5, 0.8, 1.2, 1.5])
@pytest.mark.parametrize("radius", [2.0, 3.0])
def test_large_tolerances_are_certified_at_the_rank_that_is_planned(tolerance, radius):
    """An error of half of exp or more leaves no positive lower bound on the sum of the weights."""
    inputs = extreme(40, 3, 2, radius)
    result = sx.certified_attention(*inputs, tolerance=tolerance, method="polynomial")
    assert result.certificate.total <= tolerance
    assert result.plan == sx.plan_attention(*inputs, tolerance=tolerance, method="polynomial")
