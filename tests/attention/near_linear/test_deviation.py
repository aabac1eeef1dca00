"""Deviations of the values in certificates: their squares, the sums of the second pass, and the bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import separatrix as sx
from separatrix.attention import certified, reference
from separatrix.attention.call import check_call
from separatrix.attention.near_linear import backend
from separatrix.attention.near_linear import torch as in_pytorch
from separatrix.attention.near_linear.analysis import LARGEST_SQUARE, analyse, deviation, deviation_call
from separatrix.attention.near_linear.approximation.monomials import total_degree
from separatrix.attention.near_linear.approximation.remainder import chebyshev, taylor
from separatrix.attention.near_linear.certificate import certify
from separatrix.attention.near_linear.plan import Recipe, Weighting
from separatrix.attention.near_linear.run import run_polynomial, weigh_deviations


def draw(order, n, d, d_v, seed=0, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    query, *keys = (scale * torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in range(order))
    values = [torch.randn(n, d_v, generator=generator, dtype=torch.float64) for _ in range(order - 1)]
    return [x.to(dtype) for x in (query, *keys, *values)]


def literal(call):
    """Scores (H, L_q, tuples), products of values (H, tuples, d_v) and the mask of attended tuples, literally."""
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
            squares = deviation_call(call, away, columns)
            assert all(float(u.min()) > 0 and float(u.max()) <= LARGEST_SQUARE for u in squares.values)
            _, u, _ = literal(squares)
            _, v, _ = literal(call)
            bound = away.scale.unsqueeze(-1) * u.sqrt()
            assert ((v - away.centre.unsqueeze(1)).abs() <= bound).all()


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("order", "is_causal", "masked"), [(2, False, True), (2, True, False), (3, True, True), (4, False, False)]
)
def test_the_second_pass_gives_the_sums_of_the_definition(order, is_causal, masked, dtype, plain, monkeypatch):
    if plain:
        monkeypatch.setattr(backend, "BACKENDS", (in_pytorch,))
    query, *sets = draw(order, 7, 3, 2, seed=2, dtype=dtype)
    masks = [torch.arange(7) % 3 != m for m in range(order - 1)] if masked else None
    keys, values = sets[: order - 1], sets[order - 1 :]
    if masked:
        values[0][~masks[0]] = math.nan  # hidden tokens reach no sum
    call = check_call(query, keys, values, is_causal=is_causal, key_masks=masks, scale=0.3)
    analysis = analyse(call)
    recipe = Recipe(total_degree(analysis.frame.width, 2), taylor(2), torch.float64)
    run = run_polynomial(analysis, recipe)
    for level, columns in ((0, 1), (2, 1), (4, 2)):
        weighted = weigh_deviations(analysis, run, Weighting(level, columns)).weighted
        squares = deviation_call(call, weighted.deviation, columns)
        s, u, attended = literal(replace(squares, values=tuple(torch.nan_to_num(x) for x in squares.values)))
        s = s - (
            0
            if analysis.frame.shift is None
            else call.scale * (call.query.double() * analysis.frame.shift).sum(-1, keepdim=True)
        )
        powers = s**level * attended
        sums = weighted.run.sums
        assert torch.allclose(sums.denominator, powers.sum(-1), rtol=1e-9, atol=1e-12)
        seen = attended.any(-1)
        expected = (powers @ u / powers.sum(-1, keepdim=True))[seen]
        assert torch.allclose(sums.output[seen].double(), expected, rtol=4 * torch.finfo(dtype).eps, atol=1e-7)


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
            for polynomial in (taylor(degree), *(chebyshev(degree, m, radius) for m in even)):
                run = run_polynomial(analysis, Recipe(total_degree(d, degree), polynomial, torch.float64))
                by_range = certify(analysis, run)
                error = (run.sums.output - exact).abs().amax(-1)
                for level in polynomial.weighted_levels:
                    for columns in (1, 3):
                        by_deviation = certify(analysis, weigh_deviations(analysis, run, Weighting(level, columns)))
                        assert (error <= by_deviation.per_query).all()
                        assert (by_deviation.per_query <= by_range.per_query).all()
                        lowered += bool((by_deviation.per_query < 0.5 * by_range.per_query).any())
    assert lowered or name == "tiny scores"


def test_the_distance_from_the_centre_is_needed():
    """Large scores at the centre, and an output far from it: deviations alone would give a bound below the error."""
    n = 1000
    key, value = torch.zeros(n, 1, dtype=torch.float64), torch.ones(n, 1, dtype=torch.float64)
    key[:2], value[:2] = torch.tensor([[-3.0], [3.0]]).double(), 0.0  # order 3: the centre is 0
    ones = torch.ones(n, 1, dtype=torch.float64)
    query = torch.ones(1, 1, dtype=torch.float64)
    call = check_call(query, [key, ones[:1]], [value, ones[:1]], scale=1.0)
    exact, _ = reference.tensor_attention(query, [key, ones[:1]], [value, ones[:1]], scale=1.0)
    analysis = analyse(call)
    run = run_polynomial(analysis, Recipe(total_degree(1, 3), taylor(3), torch.float64))
    run = weigh_deviations(analysis, run, Weighting(4, 1))
    error = float((run.sums.output - exact).abs().max())
    weighted = run.weighted.run.sums
    squares = float(weighted.output.abs().max() * weighted.denominator.abs().max())
    alone = float(taylor(3).factors(analysis.radii, 4).max()) * math.sqrt(float(weighted.denominator.max()) * squares)
    assert alone / float(run.sums.denominator.max()) < 0.1 * error <= certify(analysis, run).total


def test_an_odd_degree_gains_by_the_power_beyond_it():
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(5, 60, 8, generator=generator, dtype=torch.float64) - 1
    call = check_call(x[0], [x[1], x[2]], [x[3], x[4]])
    analysis = analyse(call)
    run = run_polynomial(analysis, Recipe(total_degree(8, 3), taylor(3), torch.float64))
    assert taylor(3).weighted_levels == (4,)
    weighted = certify(analysis, weigh_deviations(analysis, run, Weighting(4, 1)))
    assert weighted.truncation * 20 < certify(analysis, run).truncation
    assert weighted.lse * 5 < certify(analysis, run).lse  # the sum of all errors is smaller too, for all values


@pytest.mark.parametrize(("d", "tolerance", "rank"), [(6, 1e-2, 84), (6, 1e-3, 210), (8, 1e-2, 165), (8, 1e-3, 495)])
def test_causal_ranks(d, tolerance, rank):
    """Ranks of causal calls, for which a forecast by the sample's largest term gave 462, 924, 495 and 1,287."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.rand(3, 400, d, generator=generator) * 2 - 1) * 1.2
    result = sx.certified_attention(query, key, value, is_causal=True, tolerance=tolerance, method="polynomial")
    exact, _ = reference.tensor_attention(query.double(), [key.double()], [value.double()], is_causal=True)
    assert result.plan.rank <= rank
    assert (result.output - exact).abs().max() <= result.certificate.total <= tolerance


def test_gradients_have_no_second_pass():
    query, key, value = (x.requires_grad_() for x in draw(2, 60, 4, 4, scale=0.3))
    result = sx.certified_attention(query, key, value, tolerance=1e-4, method="polynomial")
    assert result.plan.recipe.weighting is None
    assert result.keeps == ("output", "gradient")


def test_a_second_pass_after_a_miss_keeps_the_limits_on_rank_and_time():
    """Degree 3 in 64 dimensions would need a pass of rank 814,385."""

    def second_pass(d, limit=math.inf):
        generator = torch.Generator().manual_seed(0)
        analysis = analyse(check_call(*(torch.randn(5, d, generator=generator) for _ in range(3))))
        recipe = Recipe(total_degree(d, 3), taylor(3), torch.float64)
        return certified._weighting(analysis, recipe, limit)

    assert second_pass(32) == Weighting(4, 1)
    assert second_pass(64) is None
    assert second_pass(32, limit=1e5) is None
