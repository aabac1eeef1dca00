"""Certificates of gradients, compared with the errors of gradients against the definition in float64."""

from __future__ import annotations

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.arithmetic.incoming import Power
from separatrix.attention.near_linear.approximation import remainder

TINY = 2**-148
"""Twice the smallest number of float32, which every bound on float32 gradients allows in addition."""


def leaves(*tensors):
    return [x.clone().requires_grad_() for x in tensors]


def ratios(result, inputs, incoming, **options):
    """The largest error of the gradients of query, keys and values over its bound."""
    _, *rest = inputs
    sets = len(rest) // 2
    got = torch.autograd.grad(result.output, inputs, incoming, retain_graph=True)
    wide = [x.detach().double().requires_grad_() for x in inputs]
    exact, _ = reference.tensor_attention(wide[0], wide[1 : 1 + sets], wide[1 + sets :], **options)
    want = torch.autograd.grad(exact, wide, incoming.double())
    norms = incoming.double().abs().sum(-1)
    norms = torch.maximum(norms, 2.0**-32 * norms.max())
    promised = result.certificate.gradient
    off = [(actual.double() - other).abs() for actual, other in zip(got, want, strict=True)]
    bounds = [*promised.keys, *promised.values]
    query_ratio = (off[0].amax(-1) - TINY) / (promised.query * norms)
    others = [(x.max() - TINY) / (bound * norms.sum()) for x, bound in zip(off[1:], bounds, strict=True)]
    return [float(query_ratio.max()), *map(float, others)]


def uniform(count, *shape, seed=0, dtype=torch.float64):
    return 2 * torch.rand(count, *shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)) - 1


@pytest.mark.parametrize("method", ["polynomial", "exact"])
@pytest.mark.parametrize(("order", "is_causal"), [(2, False), (2, True), (3, False), (3, True), (4, False)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_gradients_are_within_their_certificate(method, order, is_causal, dtype):
    inputs = leaves(*uniform(2 * order - 1, 12, 4, seed=order, dtype=dtype))
    query, keys, values = inputs[0], inputs[1:order], inputs[order:]
    tolerance = 0.3 if dtype == torch.bfloat16 else 1e-4
    result = sx.certified_attention(query, keys, values, tolerance=tolerance, method=method, is_causal=is_causal)
    assert result.plan.method == method
    assert result.keeps == ("output", "gradient")
    incoming = torch.randn(result.output.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    assert max(ratios(result, inputs, incoming, is_causal=is_causal)) <= 1


def test_constant_values_say_nothing_of_the_gradient_of_values():
    """All weights average constant values to the constant, so that only a bound on the weights themselves helps."""
    query, key = uniform(2, 200, 4, seed=3)
    inputs = leaves(2 * query, 2 * key, torch.ones(200, 2, dtype=torch.float64))
    result = sx.certified_attention(*inputs, tolerance=1e-3, method="polynomial")
    assert result.certificate.total < 1e-10 < 1e-6 < result.certificate.gradient.values[0] <= 1e-3
    with torch.no_grad():
        lower = sx.certified_attention(*inputs, tolerance=1e-3, method="polynomial")
    assert lower.plan.degree < result.plan.degree
    assert lower.certificate.gradient is None
    assert max(ratios(result, inputs, torch.ones(200, 2, dtype=torch.float64))) <= 1


def test_small_values_do_not_make_gradients_of_weights_accurate():
    query, key, value = uniform(3, 200, 4, seed=4)
    inputs = leaves(2 * query, 2 * key, 1e-4 * value)
    result = sx.certified_attention(*inputs, tolerance=1e-3, method="polynomial")
    got = torch.autograd.grad(result.output.sum(), inputs)
    want = torch.autograd.grad(reference.tensor_attention(inputs[0], inputs[1:2], inputs[2:])[0].sum(), inputs)
    for actual, other in zip(got, want, strict=True):
        assert (actual - other).abs().max() <= 1e-2 * other.abs().max()


def test_the_achievable_tolerance_is_reported():
    """A gradient in bfloat16 is rounded by 2^-9 of itself, which no algorithm can avoid."""
    inputs = leaves(*uniform(3, 50, 4, dtype=torch.bfloat16))
    small = [inputs[0], inputs[1], inputs[2] * 1e-3]
    result = sx.certified_attention(*small, tolerance=1e-4)
    assert result.keeps == ("output",)
    assert result.certificate.total <= 1e-4 < result.certificate.gradient.total
    with torch.no_grad():
        assert sx.certified_attention(*small, tolerance=1e-4).keeps == ("output",)


def test_a_polynomial_with_inaccurate_gradients_is_used_if_requested():
    """Keys of magnitude 100 and queries of magnitude 0.01 have small scores but large derivatives by the query."""
    query, key, value = uniform(3, 60, 4, seed=5, dtype=torch.float32)
    inputs = leaves(1e-5 * query, 1e5 * key, value)
    named = sx.certified_attention(*inputs, tolerance=1e-4, method="polynomial")
    assert (named.plan.method, named.keeps) == ("polynomial", ("output",))
    assert named.certificate.gradient.total > 1e-4
    assert max(ratios(named, inputs, torch.ones(60, 4))) <= 1


@pytest.mark.parametrize("method", ["polynomial", "exact"])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("power", [-140, -60, 60])
def test_incoming_gradients_of_any_size(method, is_causal, power):
    """In float32 products with gradients of 2^-140 would underflow to 0; powers of two scale them to about 1."""
    inputs = leaves(*uniform(5, 20, 3, seed=6, dtype=torch.float32))
    result = sx.certified_attention(
        inputs[0], inputs[1:3], inputs[3:], tolerance=1e-3, method=method, is_causal=is_causal
    )
    incoming = torch.randn(20, 3, generator=torch.Generator().manual_seed(2))
    rows = torch.where(torch.arange(20) % 3 == 0, 2.0**-20, 1.0).unsqueeze(-1)
    ours = ratios(result, inputs, incoming * rows * 2.0**power, is_causal=is_causal)
    assert max(ours) <= 1


def test_heads_that_share_keys_add_up_their_gradients():
    query = uniform(4, 9, 3, seed=7, dtype=torch.bfloat16).reshape(1, 4, 9, 3)
    key, value = uniform(2, 9, 3, seed=8, dtype=torch.bfloat16)
    inputs = leaves(query, key, value)
    result = sx.certified_attention(*inputs, tolerance=1.0, method="exact")
    assert result.certificate.gradient.query.shape == (1, 4, 9)
    alone = sx.certified_attention(query[0, 0].clone().requires_grad_(), key, value, tolerance=1.0, method="exact")
    assert result.certificate.gradient.keys[0] > 1.5 * alone.certificate.gradient.keys[0]
    assert max(ratios(result, inputs, torch.ones_like(result.output))[1:]) <= 1


def test_a_power_of_two_changes_no_digit():
    x = torch.tensor([[3e-42, -1e-44], [0.0, 0.0], [3e38, 1.5]])
    power = Power.next_to(x)
    assert torch.equal(power.multiply(power.divide(x)), x)
    assert (power.divide(x).abs().amax(1) == torch.frexp(x.abs().amax(1)).mantissa).all()


@pytest.mark.parametrize("radius", [0.3, 1.0, 6.0])
@pytest.mark.parametrize("degree", [1, 2, 5, 8])
def test_the_derivative_of_a_polynomial_is_as_near_as_it_says(radius, degree):
    """With a single score, the sum of s^moment is s^moment; the rounding of coefficients is counted elsewhere."""
    s = torch.linspace(-radius, radius, 401, dtype=torch.float64)
    family = [remainder.taylor(degree), *(remainder.chebyshev(degree, m, radius) for m in range(0, degree, 2))]
    for polynomial in family:
        derivative = sum(p * c * s ** (p - 1) for p, c in enumerate(polynomial.coefficients) if p)
        radii, power = torch.full_like(s, radius), s**polynomial.moment
        promised = polynomial.derivative_error(radii, radius, power, torch.ones_like(s))
        rounding = 2.0**-50 * polynomial.derivative_magnitude(s.abs())
        off = (torch.exp(s) - derivative).abs()
        assert (off <= promised + rounding).all()
        assert (off / (promised + rounding)).max() > 0.03
