"""Plans of calls: the cheapest algorithm, its cost, and the error message if there is none."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import separatrix as sx
from separatrix.attention.arithmetic.precision import float32_products_are_float32
from separatrix.attention.call import check_call
from separatrix.attention.near_linear import backend, cost, worst_case
from separatrix.attention.near_linear import forecast as forecasting
from separatrix.attention.near_linear import planner as planning
from separatrix.attention.near_linear import torch as in_pytorch
from separatrix.attention.near_linear.analysis import analyse
from separatrix.attention.near_linear.approximation import minimax
from separatrix.attention.near_linear.approximation.monomials import total_degree
from separatrix.attention.near_linear.approximation.remainder import chebyshev, taylor
from separatrix.attention.near_linear.certificate import certify
from separatrix.attention.near_linear.forecast import Forecast
from separatrix.attention.near_linear.live_bytes import LiveBytes
from separatrix.attention.near_linear.plan import Recipe
from separatrix.attention.near_linear.run import run_polynomial
from separatrix.attention.near_linear.worst_case import worst_case_rank
from separatrix.native import native
from tests.contracts.attention_contract import inputs


def uniform(n, d, order=3, scale=1.0):
    x = scale * (torch.rand(2 * order - 1, n, d, generator=torch.Generator().manual_seed(0)) * 2 - 1)
    return x[0], list(x[1:order]), list(x[order:])


def test_long_sequences_are_near_linear_and_short_ones_exact():
    short = sx.plan_attention(*uniform(64, 8), tolerance=1e-5)
    long = sx.plan_attention(*uniform(4000, 8), tolerance=1e-5)
    assert short.method == "exact"
    assert short.rank is None
    assert "cheaper" in short.why
    assert long.method == "polynomial"
    assert long.rank == 495
    assert long.degree == 4
    assert "rank 495" in long.why
    assert "times fewer flops than exact" in long.why
    forced = sx.plan_attention(*uniform(16, 8), tolerance=1e-5, method="polynomial")
    assert "times more flops than exact" in forced.why


def test_unprofitable_plans_are_not_computed(monkeypatch):
    monkeypatch.setattr(forecasting, "draw_parts", lambda *_: pytest.fail("a sample was drawn"))
    many = torch.randn(3, 512, 32, 64, generator=torch.Generator().manual_seed(0))
    assert sx.plan_attention(many[0], many[1], many[2], tolerance=1e-3).method == "exact"
    few = torch.rand(5, 5, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert sx.plan_attention(few[0], [few[1], few[2]], [few[3], few[4]], tolerance=1e-12, scale=20.0).method == "exact"


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("limit", [1e6, 3e6, 1e8, 1e15, math.inf])
def test_the_affordable_rank_is_the_largest_within_the_limit(limit, is_causal):
    shape = cost.Shape(2, 300, (300, 400), 4, 3, is_causal)
    rank = cost.affordable_rank(shape, limit)
    below, above = (cost.certified_cost(shape, max(math.floor(rank) + step, 1), False).time for step in (0, 1))
    assert rank < 1 or below <= limit
    assert above > limit or rank == cost.LARGEST_RANK


def test_plans_are_deterministic():
    first, second = (sx.plan_attention(*uniform(3000, 6), tolerance=1e-4) for _ in range(2))
    assert first == second


def test_auto_runs_the_plan():
    arguments = uniform(2000, 4)
    result = sx.certified_attention(*arguments, tolerance=1e-3)
    planned = sx.plan_attention(*arguments, tolerance=1e-3)
    assert (result.plan.method, result.plan.rank) == (planned.method, planned.rank)
    assert torch.equal(sx.tensor_attention(*arguments, tolerance=1e-3), result.output)


@pytest.mark.parametrize("output_only", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    ("scale", "order", "lengths"), [(1e-3, 3, 60), (0.3, 3, 60), (1.6, 3, 60), (2.2, 3, 6), (4.0, 2, 6)]
)
def test_polynomials_out_of_reach_have_forecasts_above_the_target(scale, order, lengths, is_causal, output_only):
    """Candidates that are skipped without a forecast could not have been chosen, and most of the others are skipped."""
    query, keys, values = uniform(lengths, 3, order, scale)
    query, keys, values = query.double(), [x.double() for x in keys], [x.double() for x in values]
    call = check_call(query, keys, values, is_causal=is_causal, scale=1 / 3)
    forecast = Forecast(analyse(call, differentiable=True))
    missed = passed_over = 0
    for degree in range(1, 40, 3):
        even = range(0, degree, 2) if forecast.analysis.radius >= 0.25 else ()
        forecasts = [
            forecast.error(polynomial, torch.float64, output_only)
            for polynomial in (chebyshev(degree, m, forecast.analysis.radius) for m in even)
        ]
        for target in (1e-2, 1e-6, 1e-9, 1e-12):
            moments = planning.moments_in_reach(forecast, degree, target, output_only)
            for moment, error in zip(even, forecasts, strict=True):
                assert moment in moments or error > target
                missed, passed_over = missed + (error > target), passed_over + (moment not in moments)
    assert passed_over >= 0.7 * missed
    assert missed or forecast.analysis.radius < 0.25


@pytest.mark.parametrize("differentiable", [False, True])
@pytest.mark.parametrize(
    ("order", "d", "size", "tolerance"),
    [
        (2, 1, 1.0, 1e-13),
        (2, 1, 3.0, 1e-13),
        (2, 2, 3.0, 1e-8),
        (2, 4, 3.0, 1e-13),
        (3, 1, 1.0, 1e-13),
        (3, 4, 1.0, 1e-13),
    ],
)
def test_a_refusal_makes_few_polynomials(order, d, size, tolerance, differentiable, monkeypatch):
    """Up to 3,700 polynomials could be tried for six tokens: few are constructed, for the plan and for the message."""
    generator = torch.Generator().manual_seed(0)
    query, *sets = (size * torch.randn(6, d, generator=generator, dtype=torch.float64) for _ in range(2 * order - 1))
    seen = []

    def counted(function):
        return lambda *given: (seen.append(given), function(*given))[1]

    minimax.minimax.cache_clear()
    for module, name in ((planning, "chebyshev"), (worst_case, "chebyshev"), (minimax, "_levelled")):
        monkeypatch.setattr(module, name, counted(getattr(module, name)))
    keys, values = sets[: order - 1], sets[order - 1 :]
    with pytest.raises(sx.SeparatrixError, match="out of reach"):
        sx.certified_attention(
            query.requires_grad_(differentiable), keys, values, tolerance=tolerance, method="polynomial"
        )
    assert len(seen) <= 40


@pytest.mark.parametrize("order", [2, 3, 4])
def test_the_planned_flops_are_the_counted_ones(order):
    """The plan's flops are those of the run's matrix products, counted by PyTorch; planning adds a few."""
    arguments = uniform(700, 4, order)
    assert float32_products_are_float32()  # measured once per process, by products that would be counted
    with FlopCounterMode(display=False) as planning:
        sx.plan_attention(*arguments, tolerance=1e-3, method="polynomial")
    with FlopCounterMode(display=False) as counter:
        result = sx.certified_attention(*arguments, tolerance=1e-3, method="polynomial")
    assert counter.get_total_flops() - planning.get_total_flops() == result.plan.flops
    sampled = 2 * 64 * 1024 * 4  # the scores of 64 queries with 1024 tuples, and as many for each sum of deviations
    basis = 4 * 700 * 4**2 + 2 * 2 * 4**3 if order == 2 else 0
    assert sampled + basis <= planning.get_total_flops() <= 20 * sampled + basis
    planned = sx.plan_attention(*arguments, tolerance=1e-3, method="exact") if order == 3 else None
    if planned:
        assert planned.flops == 2 * 700**3 * (4 + 4)


def test_a_certificate_that_misses_raises_the_degree(monkeypatch):
    """If a forecast is 1,000 times too small, the first degree is too low and is raised."""
    honest = Forecast.output_error
    monkeypatch.setattr(Forecast, "output_error", lambda *a: honest(*a) / 1000)
    monkeypatch.setattr(Forecast, "_least_error", lambda *a: 0.0)
    monkeypatch.setattr(planning, "moments_in_reach", lambda *a: list(range(0, a[1], 2)))
    query, keys, values = uniform(300, 8)
    low = sx.plan_attention(query, keys, values, tolerance=1e-5, method="polynomial")
    result = sx.certified_attention(query, keys, values, tolerance=1e-5, method="polynomial")
    assert low.degree < result.plan.degree
    assert result.certificate.total <= 1e-5


def test_the_error_out_of_reach_suggests_alternatives():
    query, keys, values = uniform(100_000, 16, scale=6.0)
    with pytest.raises(sx.SeparatrixError) as caught:
        sx.certified_attention(query, keys, values, tolerance=1e-6)
    message = str(caught.value)
    for part in (
        "order 3",
        "n = 100000",
        "B = 6",
        "tolerance 1e-06",
        "no degree up to",
        "(ln n)^(1/k) = 2.26",
        "B <= ",
        "Theorems 1.3",
    ):
        assert part in message


def test_the_bound_that_would_work_does():
    """Entries up to the bound in the error message have a worst-case rank within the limit."""
    query, keys, values = uniform(100_000, 16, scale=6.0)
    with pytest.raises(sx.SeparatrixError) as caught:
        sx.certified_attention(query, keys, values, tolerance=1e-6)
    bound = float(str(caught.value).split("B <= ")[1].split(" ")[0])
    assert worst_case_rank(16, (0.99 * bound) ** 3, 1e-6) <= planning.LARGEST_RANK
    assert worst_case_rank(16, (1.1 * bound) ** 3, 1e-6) > planning.LARGEST_RANK


def test_polynomial_on_demand_refuses_where_auto_is_exact():
    query, keys, values = inputs(3, 6, [6, 6], d=12)
    query = query * 1000
    assert sx.certified_attention(query, keys, values, tolerance=1e-6).plan.method == "exact"
    with pytest.raises(sx.SeparatrixError, match="out of reach"):
        sx.certified_attention(query, keys, values, tolerance=1e-6, method="polynomial")


def test_windows_are_exact():
    query, keys, values = inputs(3, 9, [9, 9])
    result = sx.certified_attention(query, keys, values, tolerance=1e-6, windows=[2, None], is_causal=True)
    assert result.plan.method == "exact"
    with pytest.raises(sx.ArgumentError, match="windows: expected None for method 'polynomial'"):
        sx.certified_attention(query, keys, values, tolerance=1e-6, windows=[2, None], method="polynomial")


def test_polynomial_needs_a_tolerance():
    with pytest.raises(sx.ArgumentError, match="tolerance: expected a positive finite number for method 'polynomial'"):
        sx.tensor_attention(*inputs(3, 4, [4, 4]), method="polynomial")


def test_the_plan_names_the_algorithm_that_ran(monkeypatch):
    """If the certificate of a polynomial exceeds the tolerance, exact attention is used, and the plan says so."""
    monkeypatch.setattr(Forecast, "error", lambda *arguments, **options: 0.0)
    monkeypatch.setattr(Forecast, "_least_error", lambda *arguments: 0.0)
    monkeypatch.setattr(planning, "moments_in_reach", lambda *arguments: [])
    query, keys, values = uniform(300, 8)
    query, keys, values = query.double(), [x.double() for x in keys], [x.double() for x in values]
    result = sx.certified_attention(query, keys, values, tolerance=1e-12)
    assert sx.plan_attention(query, keys, values, tolerance=1e-12).method == "polynomial"
    assert (result.plan.method, result.plan.rank) == ("exact", None)
    assert "the certificate of a polynomial of rank" in result.plan.why


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    ("n", "d", "order", "heads", "tolerance"),
    [
        (100, 2, 2, 1, 1e-3),
        (500, 6, 3, 1, 3e-4),
        (3000, 6, 3, 1, 3e-4),
        (1500, 4, 2, 4, 1e-4),
        (600, 4, 4, 1, 1e-4),
        (60, 6, 3, 64, 1e-2),
    ],
)
@pytest.mark.parametrize("installed", [True, False])
def test_the_planned_bytes_bound_the_counted_ones(n, d, order, heads, tolerance, is_causal, installed, monkeypatch):
    """The peak memory in addition to inputs and output, counted by dispatch, is within the plan's bytes."""
    if not installed:
        monkeypatch.setattr(backend, "BACKENDS", (in_pytorch,))
        monkeypatch.setattr(cost, "native", lambda: replace(native(), library=None))
    generator = torch.Generator().manual_seed(0)
    query, *sets = (2 * torch.rand(heads, n, d, generator=generator) - 1 for _ in range(2 * order - 1))
    with torch.no_grad(), LiveBytes([query, *sets]) as live:
        result = sx.certified_attention(
            query, sets[: order - 1], sets[order - 1 :], tolerance=tolerance, method="polynomial", is_causal=is_causal
        )
    counted = live.peak - result.output.nbytes
    assert 0.1 * result.plan.bytes < counted <= result.plan.bytes


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("installed", [True, False])
def test_the_bytes_of_a_recipe_with_squares_bound_the_counted_ones(installed, is_causal, monkeypatch):
    """With a column of squares for each of many values, states are twice as wide."""
    if not installed:
        monkeypatch.setattr(backend, "BACKENDS", (in_pytorch,))
        monkeypatch.setattr(cost, "native", lambda: replace(native(), library=None))
    d, d_v, n = (16, 32, 300) if is_causal else (64, 64, 600)
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.rand(1, n, d, generator=generator) for _ in range(2))
    value = torch.rand(1, n, d_v, generator=generator)
    call = check_call(query, key, value, is_causal=is_causal)
    analysis = analyse(call)
    dtype = torch.float64 if is_causal else torch.float32
    recipe = Recipe(total_degree(d, 2), taylor(2), dtype, squares=d_v)
    with torch.no_grad(), LiveBytes([query, key, value]) as live:
        run = run_polynomial(analysis, recipe)
        certify(analysis, run)
    planned = cost.recipe_cost(analysis.shape, recipe).bytes
    assert live.peak - run.sums.output.nbytes <= planned


@pytest.mark.parametrize(("d", "tolerance", "pays"), [(16, 1e-3, True), (8, 1e-2, False)])
def test_squared_deviations_are_planned_where_they_save_time(d, tolerance, pays):
    generator = torch.Generator().manual_seed(0)
    query, *sets = 2 * torch.rand(5, 8192, d, generator=generator) - 1
    plan = sx.plan_attention(query, sets[:2], sets[2:], tolerance=tolerance, method="polynomial")
    assert bool(plan.recipe.squares) == pays
