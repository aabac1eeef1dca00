"""Deviations of the values in certificates: their squares, the sums that they weigh, and the bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.call import check_call
from separatrix.attention.near_linear import backend, cost
from separatrix.attention.near_linear import torch as in_pytorch
from separatrix.attention.near_linear.analysis import LARGEST_SQUARE, analyse, deviation, squares_of
from separatrix.attention.near_linear.approximation.monomials import total_degree
from separatrix.attention.near_linear.approximation.remainder import chebyshev, taylor
from separatrix.attention.near_linear.certificate import certify
from separatrix.attention.near_linear.plan import Recipe
from separatrix.attention.near_linear.run import run_polynomial


def draw(order, n, d, d_v, seed=0, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    query, *keys = (scale * torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in range(order))
    values = [torch.randn(n, d_v, generator=generator, dtype=torch.float64) for _ in range(order - 1)]
    return [x.to(dtype) for x in (query, *keys, *values)]


def literal(call):
    """Scores (H, L_q, tuples), products of values (H, tuples, d_v) and the mask of attended tuples, by definition."""
    heads, length, d = call.query.shape
    tuples = torch.cartesian_prod(*(torch.arange(n) for n in call.key_lengths)).reshape(-1, len(call.keys))
    products, values = torch.ones(heads, len(tuples), d).double(), torch.ones(heads, len(tuples), 1).double()
    attended = torch.ones(heads, length, len(tuples), dtype=torch.bool)
    for m, (key, value) in enumerate(zip(call.keys, call.values, strict=True)):
        products, values = products * key[:, tuples[:, m]].double(), values * value[:, tuples[:, m]].double()
        if call.masks:
            attended &= call.masks[m][:, tuples[:, m]].unsqueeze(1)
        if call.positions.is_causal:
            here = torch.arange(length) + call.positions.offset
            attended &= (tuples[:, m] <= here.unsqueeze(1)).unsqueeze(0)
    return call.scale * call.query.double() @ products.mT, values, attended


@pytest.mark.parametrize("size", [1e-150, 1e-20, 1.0, 1e20])
@pytest.mark.parametrize("order", [2, 3])
def test_squares_are_never_too_small(order, size):
    """Values of very different magnitudes, far from 0 and constant: deviations are at most scale times the roots."""
    generator = torch.Generator().manual_seed(1)
    for spread in (0.0, 1e-12, 1e-6, 1.0, 1e6):
        x = torch.randn(order, 40, 3, generator=generator, dtype=torch.float64)
        values = [size * (1 + spread * y**5) for y in x[1:]]
        call = check_call(x[0], [x[0]] * (order - 1), values)
        away = deviation(call, analyse(call).values)
        for columns in (1, 3):
            squares = squares_of(call, away, columns)
            assert all(float(u.min()) > 0 and float(u.max()) <= LARGEST_SQUARE for u in squares)
            _, u, _ = literal(replace(call, values=squares))
            _, v, _ = literal(call)
            bound = away.scale.unsqueeze(-1) * u.sqrt()
            assert ((v - away.centre.unsqueeze(1)).abs() <= bound).all()


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("order", "is_causal", "masked"), [(2, False, True), (2, True, False), (3, True, True), (4, False, False)]
)
def test_the_sums_of_a_moment_are_those_of_the_definition(order, is_causal, masked, dtype, plain, monkeypatch):
    """The moments of even and odd degrees, with one column of squares and with as many as values have."""
    if plain:
        monkeypatch.setattr(backend, "BACKENDS", (in_pytorch,))
    query, *sets = draw(order, 7, 3, 2, seed=2, dtype=dtype)
    masks = [torch.arange(7) % 3 != m for m in range(order - 1)] if masked else None
    keys, values = sets[: order - 1], sets[order - 1 :]
    if masked:
        values[0][~masks[0]] = math.nan  # hidden tokens reach no sum
    call = check_call(query, keys, values, is_causal=is_causal, key_masks=masks, scale=0.3)
    analysis = analyse(call)
    out = {}
    for polynomial in (taylor(0), taylor(2), taylor(1, beyond=True), taylor(3, beyond=True), chebyshev(3, 2, 4.0)):
        plain_recipe = Recipe(total_degree(analysis.frame.width, polynomial.degree), polynomial, torch.float64)
        for columns in (0, 1, 2):
            run = run_polynomial(analysis, replace(plain_recipe, squares=columns))
            s, _, attended = literal(replace(call, values=tuple(torch.nan_to_num(x) for x in call.values)))
            if analysis.frame.shift is not None:
                s = s - call.scale * (call.query.double() * analysis.frame.shift).sum(-1, keepdim=True)
            powers = s**polynomial.moment * attended
            assert torch.allclose(run.sums.moment, powers.sum(-1), rtol=1e-9, atol=1e-12)
            denominator = sum(a * s**p for p, a in enumerate(polynomial.coefficients)) * attended
            assert torch.allclose(run.sums.denominator, denominator.sum(-1), rtol=1e-9, atol=1e-12)
            if not columns:
                assert run.sums.weighted is None
                out[polynomial] = run.sums.output
                continue
            squares = tuple(torch.nan_to_num(x) for x in squares_of(call, run.deviation, columns))
            _, u, _ = literal(replace(call, values=squares))
            assert torch.allclose(run.sums.weighted, (powers @ u).amax(-1), rtol=1e-9, atol=1e-12)
            assert torch.allclose(run.sums.output, out[polynomial], rtol=4 * torch.finfo(dtype).eps, atol=1e-12)


def test_chunks_of_a_causal_run_with_squares_are_those_whose_roundings_are_counted(monkeypatch):
    """Squares make the states of a token larger; if chunks therefore had fewer tokens, roundings would increase."""
    monkeypatch.setattr(backend, "BACKENDS", (in_pytorch,))
    monkeypatch.setattr(cost, "CAUSAL_BYTES", 1 << 14)
    lengths, scan = [], in_pytorch.scan
    monkeypatch.setattr(in_pytorch, "scan", lambda *given: (lengths.append(given[1].shape[2]), scan(*given))[1])
    query, key, value = draw(2, 200, 2, 1)
    call = check_call(query, key, value, is_causal=True, scale=0.3)
    run_polynomial(analyse(call), Recipe(total_degree(2, 4), taylor(4), torch.float64, squares=1))
    counted = in_pytorch.scan_summing(call, total_degree(2, 4).rank)
    assert len(lengths) <= -(-200 // counted.shortest)
    assert max(lengths) <= counted.longest


def hostile(name, seed):
    """Query, keys and values of order 2 or 3 for which different parts of the bound dominate."""
    generator = torch.Generator().manual_seed(seed)
    n, d, d_v = 24, 2, 3
    x = torch.randn(5, n, d, generator=generator, dtype=torch.float64)
    v = torch.randn(2, n, d_v, generator=generator, dtype=torch.float64)
    if name == "outlier":  # the largest value is where the scores are largest
        x[1, 0], v[0, 0] = 3.0, 100.0
    elif name == "far from the centre":  # large scores have values at the centre, and the output is far from the centre
        x[1], v[0] = 0.0, 1.0
        x[1, ::2], v[0, 0::4], v[0, 2::4] = -4.0 * x[0, :1].sign(), 0.0, -1.0
    elif name == "aligned":
        x[1] = x[0]
        v[0] = x[0, :, :1]
    elif name == "offset":
        v += 50.0
    elif name == "tiny scores":
        x[1] *= 1e-60
    elif name == "sizes":
        v *= torch.tensor([1e-12, 1.0, 1e9], dtype=torch.float64)
    return x, v


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize(
    "name", ["normal", "outlier", "far from the centre", "aligned", "offset", "tiny scores", "sizes"]
)
def test_certificates_by_deviations_hold(name, order, is_causal):
    """For every polynomial, level and number of columns the bound holds, and is at most the bound from the range."""
    lowered = 0
    for seed in range(3):
        x, v = hostile(name, seed)
        keys, values = list(x[1:order]), list(v[: order - 1])
        call = check_call(x[0], keys, values, is_causal=is_causal, scale=0.5)
        exact, _ = reference.tensor_attention(x[0], keys, values, is_causal=is_causal, scale=0.5)
        analysis = analyse(call)
        radius, d = analysis.radius, analysis.frame.width
        for degree in range(7):
            even = range(0, degree, 2) if radius >= 0.25 else ()
            for polynomial in (
                taylor(degree),
                taylor(degree, beyond=True),
                *(chebyshev(degree, m, radius) for m in even),
            ):
                recipe = Recipe(total_degree(d, degree), polynomial, torch.float64)
                run = run_polynomial(analysis, recipe)
                by_range = certify(analysis, run)
                error = (run.sums.output - exact).abs().amax(-1)
                assert (error <= by_range.per_query).all()
                for columns in (1, 3):
                    by_deviation = certify(analysis, run_polynomial(analysis, replace(recipe, squares=columns)))
                    assert (error <= by_deviation.per_query).all()
                    assert (by_deviation.per_query <= by_range.per_query).all()
                    lowered += bool((by_deviation.per_query < 0.5 * by_range.per_query).any())
    # Beyond order 2 deviations are measured from 0, so that they are not small for values with an offset.
    assert lowered or name == "tiny scores" or (name == "offset" and order == 3)


def test_the_distance_from_the_centre_is_needed():
    """With large scores at the centre and the output far from it, deviations alone would give too small a bound."""
    n = 1000
    key, value = torch.zeros(n, 1, dtype=torch.float64), torch.ones(n, 1, dtype=torch.float64)
    key[:2], value[:2] = torch.tensor([[-3.0], [3.0]]).double(), 0.0  # order 3: the centre is 0
    ones = torch.ones(n, 1, dtype=torch.float64)
    query = torch.ones(1, 1, dtype=torch.float64)
    call = check_call(query, [key, ones[:1]], [value, ones[:1]], scale=1.0)
    exact, _ = reference.tensor_attention(query, [key, ones[:1]], [value, ones[:1]], scale=1.0)
    analysis = analyse(call)
    polynomial = taylor(3, beyond=True)
    run = run_polynomial(analysis, Recipe(total_degree(1, 3), polynomial, torch.float64, squares=1))
    error = float((run.sums.output - exact).abs().max())
    factors = polynomial.factors(analysis.radii, analysis.radius)
    alone = float(factors.max()) * math.sqrt(float(run.sums.moment * run.sums.weighted))
    assert alone / float(run.sums.denominator.max()) < 0.1 * error <= certify(analysis, run).total


def test_an_odd_degree_gains_by_the_power_beyond_it():
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(5, 60, 8, generator=generator, dtype=torch.float64) - 1
    call = check_call(x[0], [x[1], x[2]], [x[3], x[4]])
    analysis = analyse(call)
    recipe = Recipe(total_degree(8, 3), taylor(3), torch.float64)
    by_range = certify(analysis, run_polynomial(analysis, recipe))
    recipe = replace(recipe, polynomial=taylor(3, beyond=True), squares=1)
    by_deviation = certify(analysis, run_polynomial(analysis, recipe))
    assert by_deviation.truncation * 20 < by_range.truncation
    assert by_deviation.lse * 5 < by_range.lse  # the sum of all errors is smaller too, for all values


@pytest.mark.parametrize(("d", "tolerance", "rank"), [(6, 1e-2, 84), (6, 1e-3, 210), (8, 1e-2, 165), (8, 1e-3, 495)])
def test_causal_ranks(d, tolerance, rank):
    """Ranks of causal calls are at most these; a forecast by the sample's largest term gave 462, 924, 495 and 1,287."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.rand(3, 400, d, generator=generator) * 2 - 1) * 1.2
    result = sx.certified_attention(query, key, value, is_causal=True, tolerance=tolerance, method="polynomial")
    exact, _ = reference.tensor_attention(query.double(), [key.double()], [value.double()], is_causal=True)
    assert result.plan.rank <= rank
    assert (result.output - exact).abs().max() <= result.certificate.total <= tolerance


def test_gradients_take_no_squares():
    query, key, value = (x.requires_grad_() for x in draw(2, 60, 4, 4, scale=0.3))
    result = sx.certified_attention(query, key, value, tolerance=1e-4, method="polynomial")
    assert result.plan.recipe.squares == 0
    assert result.plan.recipe.polynomial.moment <= result.plan.degree
    assert result.keeps == ("output", "gradient")
