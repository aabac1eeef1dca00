"""The polynomial method: the attention contract at a certified tolerance, and its own tests."""

from __future__ import annotations

import math

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.near_linear import causal, planner
from separatrix.attention.near_linear import sums as polynomial
from separatrix.attention.near_linear.approximation.remainder import taylor
from tests.contracts.attention_contract import ORDERS, AttentionContract, draw, inputs


class TestPolynomial(AttentionContract):
    """The tolerance bounds the output; the certificates bound the error of the log-sum-exp."""

    error = 1e-10

    def attend(self, query, keys, values, **options):
        result = sx.certified_attention(query, keys, values, method="polynomial", tolerance=1e-10, **options)
        assert result.certificate.total <= 1e-10
        self.lse_error = max(getattr(self, "lse_error", 0.0), result.certificate.lse + 1e-13)
        return result.output, result.lse


class TestPolynomialInSmallChunks(TestPolynomial):
    """The contract with chunks of a few tokens, so that every state is a sum over several chunks."""

    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch):
        monkeypatch.setattr(polynomial, "chunk_tokens", lambda *sizes: 2)
        monkeypatch.setattr(causal, "chunk_size", lambda *sizes: 2)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"is_causal": True, "query_offset": 2}])
@pytest.mark.parametrize("masked", [False, True])
def test_gradient_is_that_of_the_exact_output(order, options, masked):
    """At a tolerance of 1e-12 the polynomial and exp have the same gradients to 1e-9."""
    query, keys, values = inputs(order, 7, [7, 7, 7], d=2)
    masks = [torch.arange(7) % 3 != 1] * (order - 1) if masked else None
    leaves = [x.requires_grad_() for x in (query, *keys, *values)]
    out, lse = sx.tensor_attention(
        query, keys, values, key_masks=masks, tolerance=1e-11, method="polynomial", return_lse=True, **options
    )
    exact, exact_lse = reference.tensor_attention(query, keys, values, key_masks=masks, **options)
    weights = draw(5, *out.shape), draw(6, *lse.shape)
    ours = torch.autograd.grad((out * weights[0]).sum() + (lse * weights[1]).sum(), leaves)
    theirs = torch.autograd.grad((exact * weights[0]).sum() + (exact_lse * weights[1]).sum(), leaves)
    for x, y in zip(ours, theirs, strict=True):
        assert (x - y).abs().max() < 1e-8


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradient_is_exact_at_a_loose_tolerance(is_causal, monkeypatch):
    """At a tolerance of 0.3, gradcheck shows that the gradient is that of the polynomial, not of exp.

    The polynomial is the Taylor polynomial: the Chebyshev polynomial depends on the largest score, and finite
    differences would see it change.
    """
    monkeypatch.setattr(planner, "polynomials", lambda forecast, degree, *_: [taylor(degree)])
    query, keys, values = inputs(3, 3, [3, 3], d=2, batch=(1,))
    leaves = [x.requires_grad_() for x in (query, *keys, *values)]

    def function(q, *sets):
        return sx.tensor_attention(
            q, sets[:2], sets[2:], tolerance=0.3, method="polynomial", return_lse=True, is_causal=is_causal
        )

    assert (
        function(*leaves)[0] - reference.tensor_attention(query, keys, values, is_causal=is_causal)[0]
    ).abs().max() > 1e-6
    assert torch.autograd.gradcheck(function, leaves)


@pytest.mark.parametrize("is_causal", [False, True])
def test_hidden_tokens_may_hold_anything(is_causal):
    query, keys, values = inputs(3, 6, [6, 6])
    mask = torch.arange(6) != 3
    clean = sx.tensor_attention(query, keys, values, key_masks=[mask] * 2, tolerance=1e-8, is_causal=is_causal)
    for x in (*keys, *values):
        x[:, 3] = float("nan")
    dirty = sx.tensor_attention(query, keys, values, key_masks=[mask] * 2, tolerance=1e-8, is_causal=is_causal)
    assert torch.equal(clean, dirty)


@pytest.mark.parametrize("name", ["query", "keys", "values"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_and_infinity_are_refused(name, bad):
    query, keys, values = inputs(3, 4, [4, 4])
    {"query": query, "keys": keys[1], "values": values[1]}[name][1, 2, 0] = bad
    with pytest.raises(sx.SeparatrixError, match=rf"^{name}.*finite entries.*NaN or infinity.*bounded entries"):
        sx.certified_attention(query, keys, values, tolerance=1e-3)


def test_extreme_magnitudes_that_cancel():
    """Coordinates of 1e-200 in the query and 1e200 in the keys have ordinary scores."""
    query, keys, values = inputs(3, 4, [5, 6])
    expected = reference.tensor_attention(query, keys, values)[0]
    scaled = [keys[0] * 2.0**600, keys[1] * 2.0**-20]
    result = sx.certified_attention(query * 2.0**-580, scaled, values, tolerance=1e-8, method="polynomial")
    assert (result.output - expected).abs().max() <= result.certificate.total


def test_too_extreme_magnitudes_are_refused():
    query, keys, values = inputs(2, 4, [5])
    query, keys = query * 2.0**-1070, [keys[0] * 2.0**1020]
    for method, message in (
        ("polynomial", r"2\^1000"),
        ("auto", "overflow or underflow float64 before a score is formed"),
    ):
        with pytest.raises(sx.SeparatrixError, match=message):
            sx.certified_attention(query, keys, values, tolerance=1e-3, scale=2.0**52, method=method)


def test_memory_does_not_grow_with_the_length():
    """Both passes hold inputs, outputs, gradients, one float64 number per query for D, and the certificate."""
    from tests.attention.exact.test_operators import peak_bytes

    def work(n):
        leaves = [torch.rand(n, 4, generator=torch.Generator().manual_seed(0)).requires_grad_() for _ in range(5)]

        def run():
            out = sx.tensor_attention(leaves[0], leaves[1:3], leaves[3:], tolerance=1e-3, method="polynomial")
            out.sum().backward()

        run()
        return peak_bytes(run)

    small, large = work(20_000), work(80_000)
    assert (large - small) / 60_000 < 400  # bytes per token: inputs and gradients alone are 160, outputs 48


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor:UserWarning"
)  # Dynamo's own warning at a graph break
def test_compiled():
    """The algorithm depends on the numbers, so a compiled model has a graph break here, and gives the same result."""
    query, keys, values = inputs(3, 5, [4, 6])

    def model(q, k1, k2):
        return torch.tanh(
            sx.tensor_attention(torch.sin(q), [k1, k2], values, tolerance=1e-6, method="polynomial")
        ).sum()

    compiled = torch.compile(model, backend="aot_eager")
    query.requires_grad_()
    plain, other = model(query, *keys), compiled(query, *keys)
    assert torch.allclose(plain, other, atol=1e-13)
    assert torch.allclose(*(torch.autograd.grad(loss, query)[0] for loss in (plain, other)), atol=1e-13)


@pytest.mark.parametrize("transform", [torch.func.vmap, lambda f: torch.func.grad(lambda *x: f(*x).sum())])
def test_transforms_of_functions_are_refused(transform):
    x = torch.rand(3, 2, 5, 2, generator=torch.Generator().manual_seed(0))
    with pytest.raises(sx.SeparatrixError, match="tolerance: attention with a certificate reads the tensors' entries"):
        transform(lambda q, k, v: sx.tensor_attention(q, k, v, tolerance=1e-2))(*x)


def _gradients(factor, is_causal):
    generator = torch.Generator().manual_seed(1)
    leaves = [torch.rand(100, 2, dtype=torch.float64, generator=generator).sub(0.5).requires_grad_() for _ in range(5)]
    options = {"tolerance": 1e-6, "is_causal": is_causal, "method": "polynomial"}
    out = sx.tensor_attention(leaves[0], leaves[1:3], leaves[3:], **options)
    grad = torch.rand(out.shape, dtype=torch.float64, generator=generator) * factor
    return torch.autograd.grad(out, leaves, grad)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("exponent", [-1060, -1040, -700, 1000])
def test_gradients_are_linear_in_incoming_gradients_of_any_size(is_causal, exponent):
    """Powers of two are exact, so the gradients scale with them, up to one rounding of subnormal numbers."""
    half = exponent // 2
    expected = [grad * 2.0**half * 2.0 ** (exponent - half) for grad in _gradients(1.0, is_causal)]
    for x, y in zip(_gradients(math.ldexp(1.0, exponent), is_causal), expected, strict=True):
        assert y.abs().max() > 0
        assert (x - y).abs().max() <= 5e-324
