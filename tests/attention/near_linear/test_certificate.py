"""Certificates hold on inputs that once violated them or were designed to; `fuzz` draws many more."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import separatrix as sx
from separatrix.attention import bounds, certified, plain_certified, reference
from separatrix.attention.arithmetic.rounding import Summing, expanded_sum
from separatrix.attention.call import check_call
from separatrix.attention.checker import check
from separatrix.attention.near_linear import certificate as certificate
from separatrix.attention.near_linear import exact_rounding as exact_rounding
from separatrix.attention.near_linear import planner
from separatrix.attention.near_linear.analysis import analyse
from separatrix.attention.near_linear.approximation import coordinates as frame
from separatrix.attention.near_linear.approximation.greedy import greedy_alphas, greedy_tail
from separatrix.attention.near_linear.approximation.monomials import total_degree
from separatrix.attention.near_linear.approximation.remainder import taylor
from separatrix.attention.near_linear.forecast import Forecast
from separatrix.attention.near_linear.plan import Recipe
from separatrix.attention.near_linear.planner import total_degree_recipe
from separatrix.attention.near_linear.run import run_polynomial
from tests.contracts.attention_contract import draw, inputs


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("order", "query", "key"), [(34, 3e-10, 1.8), (36, 9e-10, 1.6), (64, 8e-6, 1.18), (60, 1.2e-9, 1.4)]
)
def test_certificates_hold_at_high_order(order, query, key, dtype):
    """k-th powers of entries underflow or overflow unless they are rescaled first; the output is tanh(s)."""
    ones = torch.ones(1, 1, dtype=dtype)
    signs = torch.tensor([[1.0], [-1.0]], dtype=dtype)
    keys, values = [key * signs, *[key * ones] * (order - 2)], [signs, *[ones] * (order - 2)]
    found = sx.certified_attention(query * ones, keys, values, tolerance=1e-3, scale=1.0, method="polynomial")
    score = (query * ones).double().item() * (key * ones).double().item() ** (order - 1)
    assert abs(found.output.item() - math.tanh(score)) <= found.certificate.total <= 1e-3
    assert found.plan.degree > 0


@given(logs=st.lists(st.floats(-40.0, 40.0), min_size=2, max_size=70), zero=st.booleans(), all_of_them=st.booleans())
def test_balanced_factors_are_within_a_factor_of_three(logs, zero, all_of_them):
    largest = [torch.tensor([[2.0**x, 0.0 if zero else 1.0]], dtype=torch.float64) for x in logs]
    kept, factors, balanced = frame.balance(largest, all_of_them)
    assert kept.tolist() == ([0] if zero and not all_of_them else [0, 1])
    assert torch.stack(factors).log2().sum(0).eq(0).all()  # no score changes
    at = torch.stack(balanced)[:, 0, 0].log2()
    assert (at - at.mean()).abs().max() <= 1.5 + 1e-9


def certified_and_error(query, keys, values, **options):
    """A certified call, and its error relative to the reference in float64."""
    found = sx.certified_attention(query, keys, values, **options)
    shown = {name: options[name] for name in ("key_masks", "scale") if name in options}
    wide = [x.double() for x in (query, *keys, *values)]
    exact, _ = reference.tensor_attention(wide[0], wide[1 : 1 + len(keys)], wide[1 + len(keys) :], **shown)
    return found, float((found.output.double() - exact).abs().max())


@pytest.mark.parametrize("foreseen", [True, False])
def test_more_tuples_than_float32_counts(foreseen, monkeypatch):
    """With 70,000^8 tuples a float32 denominator would be infinite and the output 0: the plan must avoid this."""
    if not foreseen:
        monkeypatch.setattr(bounds.ValueRange, "in_range", lambda *_: True)
    generator = torch.Generator().manual_seed(0)
    key, value = (
        0.1 * torch.rand(70_000, 1, generator=generator),
        0.1 + 0.1 * torch.rand(70_000, 1, generator=generator),
    )
    found = sx.certified_attention(key[:2], [key] * 8, [value] * 8, tolerance=1e-7)
    mean = float(value.double().mean()) ** 8  # scores are below 1e-9
    assert float((found.output - mean).abs().max()) <= found.certificate.total + 1e-9 * mean
    assert torch.isfinite(found.lse).all()


@pytest.mark.parametrize("method", ["exact", "polynomial"])
def test_certificates_hold_inside_autocast(method):
    x = 2 * torch.rand(3, 600, 4, generator=torch.Generator().manual_seed(0)) - 1
    masks = [torch.arange(600) < 300]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, error = certified_and_error(x[0], [x[1]], [x[2] + 1], tolerance=1e-2, key_masks=masks, method=method)
        plain = sx.tensor_attention(x[0], x[1], x[2] + 1, key_masks=masks)
        fused = sx.tensor_attention(x[0], x[1], x[2] + 1)
    assert error <= found.certificate.total
    assert found.output.dtype == plain.dtype == fused.dtype == torch.float32
    assert (plain - found.output).abs().max() <= found.certificate.total + 1e-5
    assert torch.equal(fused, sx.tensor_attention(x[0], x[1], x[2] + 1))


def test_float32_products_of_lower_precision_are_not_used(monkeypatch):
    x = torch.rand(3, 500, 4, generator=torch.Generator().manual_seed(0))
    assert sx.plan_attention(x[0], x[1], x[2], tolerance=0.1, method="polynomial").recipe.dtype == torch.float32
    for module in (planner, exact_rounding, plain_certified):
        monkeypatch.setattr(module, "float32_products_are_float32", lambda device_type="cpu": False)
    assert sx.plan_attention(x[0], x[1], x[2], tolerance=0.1, method="polynomial").recipe.dtype == torch.float64
    wide = certified.exact_attention
    seen = []
    monkeypatch.setattr(certified, "exact_attention", lambda call: seen.append(call.query.dtype) or wide(call))
    sx.certified_attention(x[0], x[1], x[2], tolerance=0.1, method="exact")
    assert seen == [torch.float64]


@pytest.mark.parametrize("powers", [(65, 65, -59, -59), (-50, -50, -50, 110)])
def test_products_of_some_value_sets_do_not_overflow(powers):
    generator = torch.Generator().manual_seed(0)
    query, sets = torch.rand(64, 2, generator=generator), torch.rand(8, 3, 2, generator=generator) + 0.5
    values = [x * 2.0**power for x, power in zip(sets[4:], powers, strict=True)]
    tolerance = 2.0 ** sum(powers) * 1e-2
    found, error = certified_and_error(query, list(sets[:4]), values, tolerance=tolerance)
    assert error <= found.certificate.total
    far = [x.double() * 10.0**power for x, power in zip(sets[4:], (-102, -220, 85, 62), strict=True)]
    for method in ("exact", "polynomial"):
        with pytest.raises(sx.SeparatrixError, match=r"values|out of reach"):
            sx.certified_attention(query.double(), list(sets[:4].double()), far, tolerance=1e-182, method=method)


def test_outputs_beyond_the_type_are_refused():
    x = torch.rand(5, 10, 4, generator=torch.Generator().manual_seed(0)).half()
    with pytest.raises(sx.SeparatrixError, match=r"outputs reach .*float16"):
        sx.certified_attention(x[0], [x[1], x[2]], [x[3] + 300, x[4] + 300], tolerance=100.0)
    large = torch.full((20, 4), 3e38)
    found, error = certified_and_error(x[0].float(), [x[1].float()], [large[:10]], tolerance=1e36, method="exact")
    assert error <= found.certificate.total


@pytest.mark.parametrize("constant", ["query", "keys"])
def test_gradients_where_all_scores_are_equal(constant):
    """If all scores are equal, a constant polynomial keeps every tolerance, but its gradient is zero."""
    x = torch.randn(3, 50, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[0 if constant == "query" else 1] = 0.0 if constant == "query" else x[1, :1].clone()
    leaves = [part.clone().requires_grad_() for part in x]
    near = sx.certified_attention(*leaves, tolerance=1e-9, method="polynomial").output
    found = torch.autograd.grad(near.square().sum(), leaves)
    for ours, exact in zip(
        found, torch.autograd.grad(sx.tensor_attention(*leaves).square().sum(), leaves), strict=True
    ):
        torch.testing.assert_close(ours, exact, atol=1e-8, rtol=1e-8)


def test_the_log_sum_exp_keeps_the_tolerance_if_requested():
    """All weights average constant values correctly; their log-sum-exp depends on the weights."""
    x = torch.rand(3, 400, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2 - 1
    values = torch.ones(400, 2, dtype=torch.float64)
    options = {"scale": 0.25, "tolerance": 1e-4, "method": "polynomial"}
    assert sx.certified_attention(x[0], x[1], values, **options).certificate.lse > 1e-4
    _, lse = sx.tensor_attention(x[0], x[1], values, return_lse=True, **options)
    exact = torch.logsumexp(0.25 * x[0] @ x[1].mT, -1)
    assert (lse - exact).abs().max() <= 1e-4


def test_the_certificate_of_a_differentiable_exact_call_is_not_in_the_graph():
    x = torch.randn(3, 20, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    found = sx.certified_attention(*x.unbind(), tolerance=1e-3, method="exact")
    assert not found.certificate.per_query.requires_grad
    assert found.output.requires_grad


def test_a_log_sum_exp_beyond_its_type_has_no_bound():
    query, key = torch.full((1, 1), 1e30), torch.full((2, 1), 1e12)
    found = sx.certified_attention(query, key, key / 1e12, tolerance=1e-3, scale=1.0, method="polynomial")
    assert found.certificate.lse == math.inf


def test_scores_of_no_coordinates():
    x = torch.rand(5, 1024, 4, generator=torch.Generator().manual_seed(0))
    found = sx.certified_attention(0 * x[0], [x[1], x[2]], [x[3], x[4]], tolerance=1e-3, method="polynomial")
    mean = x[3].double().mean(0) * x[4].double().mean(0)
    assert (found.output - mean).abs().max() <= found.certificate.total


def test_overflowing_moments_do_not_change_the_basis():
    x = torch.randn(3, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found, error = certified_and_error(x[0] * 1e78, [x[1] * 1e78], [x[2]], tolerance=1e-3, scale=1e-157)
    assert error <= found.certificate.total


def test_every_carried_state_of_a_causal_call_is_an_addition():
    few, many = (Summing(4096, shortest).tokens([10**6]) for shortest in (4096, 8))
    counted = [expanded_sum(tokens, 1, 8, 4, 495).gamma(torch.float32) for tokens in (few, many)]
    assert counted[1] - counted[0] >= (10**6 / 8 - 10**6 / 4096) * 2.0**-53


@cache
def drawn_and_exact(seed, scale, uniform):
    """Five inputs with n = 300, d = 8, uniform in [-1, 1] or normal, times `scale`, and attention of order 3.

    The reference is exact attention in float64, and for some queries the definition, which takes ten times as long.
    """
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(5, 300, 8, generator=generator) * 2 - 1 if uniform else torch.randn(5, 300, 8, generator=generator)
    x = x * scale
    query, *sets = x.double()
    exact = sx.tensor_attention(query, sets[:2], sets[2:], method="exact")
    some, _ = reference.tensor_attention(query[::15], sets[:2], sets[2:])
    assert (exact[::15] - some).abs().max() <= 1e-13
    return x, exact


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("scale", "uniform", "tolerance", "rank"),
    [(1.0, True, 1e-5, 495), (1.0, True, 1e-8, 3003), (0.5, False, 1e-4, 495), (0.5, False, 2e-7, 3003)],
)
def test_certificates_are_useful(seed, scale, uniform, tolerance, rank):
    x, exact = drawn_and_exact(seed, scale, uniform)
    result = sx.certified_attention(x[0], [x[1], x[2]], [x[3], x[4]], tolerance=tolerance, method="polynomial")
    assert result.plan.rank <= rank
    assert result.certificate.total <= tolerance
    assert (result.output - exact).abs().max() <= result.certificate.total


def test_the_greedy_tail_is_the_sum_of_the_omitted_terms():
    """The sum of W_e over coordinates and e is exp(R) minus the sum of the terms of the index set."""
    b = [0.9, 0.05, 0.3, 1.7]
    alphas = greedy_alphas(b, 60)
    tail = greedy_tail(alphas, b)
    inside = sum(
        math.prod(x**p / math.factorial(p) for x, p in zip(b, alpha, strict=True)) for alpha in alphas.tolist()
    )
    left = math.exp(sum(b)) - inside
    assert left <= sum(part.sum() for part in tail.values()) <= left * (1 + 1e-6)


def test_sets_shaped_by_amplitudes_save_rank():
    """Amplitudes that halve from coordinate to coordinate: the shaped set is several times smaller, and certified."""
    x = torch.rand(5, 200, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2 - 1
    x[:3] *= 0.6 ** torch.arange(10)
    result = sx.certified_attention(x[0], [x[1], x[2]], [x[3], x[4]], tolerance=1e-6, scale=0.5, method="polynomial")
    exact, _ = reference.tensor_attention(x[0], [x[1], x[2]], [x[3], x[4]], scale=0.5)
    assert "amplitudes" in result.plan.index_set
    assert (result.output - exact).abs().max() <= result.certificate.total <= 1e-6
    recipe = total_degree_recipe(forecast_of(x), 0, math.inf, 0.9e-6, False).recipe
    assert result.plan.rank * 2 < recipe.index_set.rank


def forecast_of(x):
    return Forecast(analyse(check_call(x[0], [x[1], x[2]], [x[3], x[4]], scale=0.5)))


def test_centring_the_keys_at_order_two():
    """Keys far from the origin but close to each other: their mean changes neither outputs nor gradients."""
    query, keys, values = inputs(2, 6, [9], d=3)
    keys = [keys[0] * 0.1 + 20.0]
    leaves = [x.requires_grad_() for x in (query, *keys, *values)]
    result = sx.certified_attention(query, keys, values, tolerance=1e-9, method="polynomial")
    exact, lse = reference.tensor_attention(query, keys, values)
    assert result.plan.rank < 300
    assert (result.output - exact).abs().max() <= 1e-9
    assert torch.allclose(result.lse, lse, atol=1e-9)
    weights = draw(3, *exact.shape), draw(4, *lse.shape)
    ours = torch.autograd.grad((result.output * weights[0]).sum() + (result.lse * weights[1]).sum(), leaves)
    theirs = torch.autograd.grad((exact * weights[0]).sum() + (lse * weights[1]).sum(), leaves)
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine - other).abs().max() < 1e-7


def test_a_tolerance_finer_than_the_dtype_is_refused():
    query, keys, values = (
        part.float() if isinstance(part, torch.Tensor) else [x.float() for x in part] for part in inputs(3, 4, [4, 4])
    )
    with pytest.raises(sx.SeparatrixError, match=r"error bound .* in torch.float32, exceeds the tolerance 1e-12"):
        sx.certified_attention(query, keys, values, tolerance=1e-12)


@pytest.mark.parametrize("method", ["polynomial", "exact"])
@pytest.mark.parametrize("power", [-130, -76, -73, -70, -20])
@pytest.mark.parametrize("balance", [0, 60])
def test_values_whose_products_underflow_float32(method, power, balance):
    """Products of the value sets are about 2^(2 power): below 2^-149 they underflow, just above they lose digits."""
    generator = torch.Generator().manual_seed(power)
    for _ in range(20):
        query, key1, key2, value1, value2 = 2 * torch.rand(5, 2, 2, generator=generator) - 1
        key1, value1 = key1[:1], value1[:1] * 2.0 ** (power - balance)
        value2 = value2 * 2.0 ** (power + balance)
        result = sx.certified_attention(query, [key1, key2], [value1, value2], tolerance=1e-3, method=method)
        wide = [x.double() for x in (query, key1, key2, value1, value2)]
        exact, _ = reference.tensor_attention(wide[0], wide[1:3], wide[3:])
        error = (result.output.double() - exact).abs().amax(-1)
        assert (error <= result.certificate.per_query * (1 + 1e-9)).all()


@pytest.mark.parametrize("method", ["polynomial", "exact"])
def test_values_that_underflow_float64_are_refused(method):
    x = torch.rand(5, 6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with pytest.raises(sx.SeparatrixError, match=r"underflows|out of reach"):
        sx.certified_attention(x[0], [x[1], x[2]], [x[3] * 2.0**-500, x[4] * 2.0**-500], tolerance=1e-3, method=method)
    zero = torch.zeros_like(x[3])
    assert not sx.certified_attention(x[0], [x[1], x[2]], [zero, x[4]], tolerance=1e-3, method=method).output.any()


def uniform_calls(sizes, dtype=torch.float64, n=8, d=4, seed=0):
    """Query and keys uniform in [0, 1] times `sizes`, and independent values."""
    x = torch.rand(2 * len(sizes) - 1, n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    given = [(part * size).to(dtype) for part, size in zip(x, sizes, strict=False)]
    return given[0], given[1:], [part.to(dtype) for part in x[len(sizes) :]]


@pytest.mark.parametrize("method", ["exact", "auto", "polynomial"])
@pytest.mark.parametrize(
    ("sizes", "scale", "dtype"),
    [
        ((1e8, 1e-16, 1e11), 0.25, torch.float32),
        ((1e18, 1e-23), 1e8, torch.float32),
        ((2e25, 1e-25, 1e-25, 1e25), 0.25, torch.float32),
        ((2e200, 1e-200, 1e-200, 1e200), 0.25, torch.float64),
        ((1e153, 1.5e-162), 1e12, torch.float64),
        ((1e160, 1e160), 1.0, torch.float64),
        ((1e-20, 1e-20, 1e-20), 1e58, torch.float32),
    ],
)
def test_factors_of_very_different_size(method, sizes, scale, dtype):
    """Intermediate products overflow although the scores do not: the certificate holds, or the call raises an error."""
    query, keys, values = uniform_calls(sizes, dtype)
    try:
        result = sx.certified_attention(query, keys, values, tolerance=0.05, scale=scale, method=method)
    except sx.SeparatrixError:
        return
    found = sx.verify(result, query, keys, values, scale=scale)
    assert found.held, found


@pytest.mark.parametrize(
    ("sizes", "dtype"), [((1e8, 1e-16, 1e11), torch.float32), ((1e-20, 1e-20, 1e20, 1e20), torch.float32)]
)
def test_exact_attention_of_factors_of_very_different_size(sizes, dtype):
    query, keys, values = uniform_calls(sizes, dtype)
    out = sx.tensor_attention(query, keys, values, scale=0.25)
    assert check(out, torch.tensor(1e-3), query, keys, values, scale=0.25).held


@pytest.mark.parametrize("method", ["exact", "auto", "polynomial"])
@pytest.mark.parametrize("padding", [float("nan"), float("inf"), 1e13])
def test_the_content_of_hidden_keys_has_no_effect(method, padding):
    query, keys, values = uniform_calls((1.0, 1.0))
    mask = torch.arange(8) < 5
    key, value = (x.clone() for x in (keys[0], values[0]))
    key[5:] = padding
    hidden = sx.certified_attention(query, key, value, key_masks=[mask], tolerance=1e-6, method=method)
    shown = sx.certified_attention(query, key[:5], value[:5], tolerance=1e-6, method="exact")
    assert (hidden.output - shown.output).abs().max() <= 2e-6


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("what", ["query", "key"])
def test_coordinates_that_are_zero_have_gradients(order, is_causal, what):
    """A projection may be initialised to zero: scores do not depend on the coordinate, but its gradient does."""
    x = torch.rand(2 * order - 1, 12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[0 if what == "query" else 1, :, 1] = 0.0
    leaves = [part.clone().requires_grad_() for part in x]
    call = leaves[0], leaves[1:order], leaves[order:]
    found = sx.certified_attention(*call, tolerance=1e-9, scale=1.0, is_causal=is_causal, method="polynomial")
    got = torch.autograd.grad(found.output.square().sum(), leaves)
    want = torch.autograd.grad(sx.tensor_attention(*call, scale=1.0, is_causal=is_causal).square().sum(), leaves)
    assert want[0 if what == "query" else 1][:, 1].abs().max() > 1e-6
    for one, other in zip(got, want, strict=True):
        assert (one - other).abs().max() < 1e-7


def test_small_amplitudes_have_gradients():
    """An index set shaped by the amplitudes would exclude monomials whose gradient is not small."""
    x = torch.rand(5, 20, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 0.5
    x[0] *= 10.0 ** -torch.arange(6)
    leaves = [part.clone().requires_grad_() for part in x]
    call = leaves[0], leaves[1:3], leaves[3:]
    found = sx.certified_attention(*call, tolerance=1e-3, scale=4.0, method="polynomial")
    got = torch.autograd.grad(found.output.sum(), leaves[0])[0]
    want = torch.autograd.grad(sx.tensor_attention(*call, scale=4.0).sum(), leaves[0])[0]
    assert (got - want).norm() < 0.1 * want.norm()
    assert ((got - want)[:, 5]).norm() < 0.1 * want[:, 5].norm()


def test_no_heads_at_all():
    query, key, value = torch.rand(0, 5, 4), torch.rand(0, 6, 4), torch.rand(0, 6, 3)
    result = sx.certified_attention(query, [key, key], [value, value], tolerance=1e-3)
    assert result.output.shape == (0, 5, 3)


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("size", [1e-170, 1e-3, 1e170, 0.0])
def test_bounds_on_scores_whose_powers_overflow_or_underflow(size, order):
    """The bound by amplitudes is near the largest score for entries of every size."""
    query = torch.full((1, 2, 4), size, dtype=torch.float64)
    keys = [torch.full((1, 3, 4), 1.0, dtype=torch.float64)] * (order - 1)
    call = check_call(query, keys, keys, scale=-0.5)
    radii = exact_rounding.given_radii(call, bounds.input_bounds(call).largest)
    assert (radii >= 2 * size).all()
    assert (radii <= 2.001 * size).all()


def test_terms_of_high_degree_in_float32():
    """Scores near 30 take degrees above 34, where 1 / p! is below the range of float32 and R^p / p! is large."""
    query = torch.tensor([[0.0913, 0.0786]])
    keys = [torch.tensor([[0.045, -26.5], [-0.07, -26.4]]), torch.tensor([[11.3, 0.38]]), torch.tensor([[2.86, 75.5]])]
    values = [draw(m, len(key), 2).float() for m, key in enumerate(keys)]
    result = sx.certified_attention(query, keys, values, tolerance=1e-2, scale=-0.5, method="polynomial")
    assert result.plan.degree > 34
    wide = [[x.double() for x in sets] for sets in (keys, values)]
    expected, lse = sx.tensor_attention(query.double(), *wide, scale=-0.5, return_lse=True)
    assert (result.lse.double() - lse).abs().max() <= result.certificate.lse
    assert (result.output.double() - expected).abs().max() <= result.certificate.total


def test_gradients_of_queries_with_very_different_incoming_gradients():
    """Near-linear attention also gives the gradient of a query relative to that query's incoming gradient."""
    leaves = [draw(m, 1, 300, 3).float().requires_grad_() for m in range(5)]
    result = sx.certified_attention(leaves[0], leaves[1:3], leaves[3:], tolerance=1e-2, method="polynomial")
    incoming = draw(9, 1, 300, 3).float() * torch.where(torch.arange(300) % 2 == 0, 2.0**90, 2.0**-62).reshape(
        1, 300, 1
    )
    found = torch.autograd.grad(result.output, leaves, incoming)[0]
    wide = [x.detach().double().requires_grad_() for x in leaves]
    exact = torch.autograd.grad(sx.tensor_attention(wide[0], wide[1:3], wide[3:]), wide, incoming.double())[0]
    off, size = ((x / incoming.double().abs().sum(-1, keepdim=True))[0, 1::2].abs() for x in (found - exact, exact))
    assert off.max() <= 1e-2 * size.max() <= 1e-2 * result.certificate.gradient.query.max()


def test_the_rounding_of_sums_is_part_of_the_bound():
    """Values of both signs leave outputs near 0, whose errors are those of float32 sums: truncation is far smaller."""
    x = torch.rand(5, 300, 3, generator=torch.Generator().manual_seed(0)) - 0.5
    call = check_call(x[0], [x[1], x[2]], [x[3], x[4]], scale=1.0)
    analysis = analyse(call)
    run = run_polynomial(analysis, Recipe(total_degree(analysis.frame.width, 8), taylor(8), torch.float32))
    bound = certificate.certify(analysis, run)
    q, k1, k2, v1, v2 = x.double()
    exact, _ = reference.tensor_attention(q, [k1, k2], [v1, v2], scale=1.0)
    error = (run.sums.output[0].double() - exact).abs().amax(-1)
    assert bound.truncation < 0.01 * error.max()
    assert (error <= bound.per_query[0]).all()
