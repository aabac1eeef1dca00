"""Exact attention of very large or very small numbers: within its bound, or an error that names a factor."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.exact.balance import times_power
from tests.attention.exact import rational
from tests.contracts.attention_contract import draw
from tests.contracts.engines import engine  # noqa: F401


def assert_right(query, keys, values, **options):
    """Output and log-sum-exp of (L, d) tensors are within the bounds of the results in rational arithmetic."""
    expected, expected_lse = rational.attention(query, keys, values, **options)
    for return_lse in (False, True):
        output = sx.tensor_attention(query, keys, values, return_lse=return_lse, **options)
        bound = sx.exact_error_bound(query, keys, values, return_lse=return_lse, **options)
        out, out_bound = (output[0], bound[0]) if return_lse else (output, bound)
        with mpmath.workdps(50):
            for i, row in enumerate(expected):
                error = max(abs(mpmath.mpf(x) - y) for x, y in zip(out[i].tolist(), row, strict=True))
                assert error <= out_bound[i].item()
                if return_lse:
                    assert abs(mpmath.mpf(output[1][i].item()) - expected_lse[i]) <= bound[1][i].item()


def column(*entries, dtype=torch.float32):
    return torch.tensor([[x] for x in entries], dtype=dtype)


RIGHT = {
    "huge query and key, tiny scale": (column(1e30), [column(1e30, 0.5e30, -1e30)], [column(1, 2, 3)], 1e-60),
    "tiny query, huge scale": (column(1e-30), [column(1e-10, 2e-10, -1e-10)], [column(1, 2, 3)], 1e40),
    "a scale that float32 rounds to 0": (column(1e25), [column(1e25, 2e25)], [column(1, 2)], 1e-50),
    "a product that overflows, and is small once it is scaled": (
        column(2.0**64),
        [column(-(2.0**64), -(2.0**63))],
        [column(1, 2)],
        2.0**-126,
    ),
    "a product that underflows, and is not small once it is scaled": (
        column(2.0**-70, dtype=torch.bfloat16),
        [column(*[2.0**-57, -(2.0**-57)] * 20, dtype=torch.bfloat16)],
        [column(*[1, 2] * 20, dtype=torch.bfloat16)],
        2.0**127,
    ),
    "a scale beyond float32 and a key of 0": (column(1.0), [column(0.0, 0.0)], [column(1, 2)], 1e300),
    "keys whose product overflows": (column(1e-30), [column(1e30, -1e30)] * 2, [column(1, 2)] * 2, 1e-30),
    "keys whose product underflows": (column(1e30), [column(1e-30, -1e-30)] * 2, [column(1, 2)] * 2, 1e30),
    "coordinates that make up for each other": (
        torch.tensor([[1e30, 1e-30]]),
        [torch.tensor([[1e-30, 1e30], [-1e-30, 1e30]])],
        [column(1, 2)],
        1.0,
    ),
    "three values of 3e38": (column(1.0), [column(1, 2, 3)], [column(3e38, 3e38, 3e38)], 1.0),
    "values whose product overflows on the way": (
        column(1.0),
        [column(1, 2)] * 3,
        [column(1e30, 2e30), column(1e30, 3e30), column(1e-35, 2e-35)],
        1.0,
    ),
    "values whose product underflows on the way": (
        column(1.0),
        [column(1, 2)] * 3,
        [column(1e-30, 2e-30), column(1e-30, 3e-30), column(1e35, 2e35)],
        1.0,
    ),
    "values whose product loses digits on the way": (
        column(1.0),
        [column(1, 2)] * 3,
        [column(*[1.3 * 2.0**-70] * 2), column(*[1.7 * 2.0**-70] * 2), column(*[1.9 * 2.0**40] * 2)],
        1.0,
    ),
    "values that are small in every column, though no set is": (
        column(-8.0),
        [column(3, 3)] * 2,
        [torch.tensor([[1.3, 2.0**-40]] * 2), torch.tensor([[2.0**-40, 1.7]] * 2)],
        1.0,
    ),
    "values that are tiny in every column, though no set is": (
        column(-8.0),
        [column(3, 3)] * 2,
        [torch.tensor([[1.0, 2.0**-100]] * 2), torch.tensor([[2.0**-100, 1.0]] * 2)],
        1.0,
    ),
    "subnormal values": (column(1.0), [column(1, 2)], [column(1e-42, 3e-42)], 1.0),
    "float64": (
        column(1e300, dtype=torch.float64),
        [column(1e300, 0.5e300, dtype=torch.float64), column(1e-300, 2e-300, dtype=torch.float64)],
        [column(1e200, 2e200, dtype=torch.float64), column(1e-250, 2e-250, dtype=torch.float64)],
        1e-300,
    ),
    "bfloat16": (
        column(1e30, dtype=torch.bfloat16),
        [column(1e30, 0.5e30, -1e30, dtype=torch.bfloat16)],
        [column(1, 2, 3, dtype=torch.bfloat16)],
        1e-60,
    ),
    "float16 at its end, of weights that its fused kernel rounds up": (
        column(1.0, dtype=torch.float16),
        [column(0.0, *[1.0] * 99, dtype=torch.float16)],
        [column(*[65504.0] * 100, dtype=torch.float16)],
        math.log(0.5 + 0.75 * 2.0**-11),
    ),
    "scores far apart": (column(1e10), [column(1e9, -1e9, 0.9e9)], [column(1, 2, 3)], 1.0),
    "scores that float32 holds, though none of their digits": (
        column(1e12),
        [column(1e12, -1e12)],
        [column(1, 2)],
        1.0,
    ),
    "all scores far below": (column(1e30), [column(-1e30, -2e30)], [column(5, 5)], 1e-40),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name):
    query, keys, values, scale = RIGHT[name]
    assert_right(query, keys, values, scale=scale)


def test_the_number_of_the_first_case():
    """The expected output is (e + 2 e^0.5 + 3 e^-1) / (e + e^0.5 + e^-1)."""
    query, keys, values, scale = RIGHT["huge query and key, tiny scale"]
    assert sx.tensor_attention(query, keys, values, scale=scale).item() == pytest.approx(1.50359, abs=1e-5)


@pytest.mark.parametrize("return_lse", [False, True])
@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scores_that_overflow_every_dtype_are_refused(order, dtype, return_lse):
    query, key, value = (torch.full((1, 1, 20, 4), x, dtype=dtype) for x in (1e30, -1e30, 1.0))
    keys = [key, *[torch.ones_like(key)] * (order - 2)]
    expected = (
        r"^query \(up to 2\^100\), keys\[0\] \(up to 2\^100\): the scores are made of products that reach 2\^199, and "
        r"exact attention in torch.float32 accepts at most 2\^\d\d\. Divide one of them, or pass float64\.$"
    )
    with pytest.raises(sx.SeparatrixError, match=expected):
        sx.tensor_attention(query, keys, [value] * (order - 1), scale=1.0, return_lse=return_lse)


def test_a_scale_that_is_too_large_is_named_first():
    with pytest.raises(sx.SeparatrixError, match=r"^scale \(up to 2\^133\), query \(up to 2\^1\): "):
        sx.tensor_attention(column(2.0), [column(1.0)], [column(1.0)], scale=1e40)


@pytest.mark.parametrize(
    ("dtype", "size", "order"), [(torch.float16, 300.0, 3), (torch.bfloat16, 1e20, 3), (torch.float32, 1e13, 4)]
)
def test_outputs_that_overflow_every_dtype_are_refused(dtype, size, order):
    x = torch.ones(2, 5, 3, dtype=dtype)
    with pytest.raises(
        sx.SeparatrixError, match=r"^values: their products reach 2\^[\d.]+, and an output exceeds .* number of"
    ):
        sx.tensor_attention(x, [x] * (order - 1), [size * x] * (order - 1))
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0, 0.0], dtype=dtype).view(5, 1) * x
    values = [size * signs, *[size * x] * (order - 2)]  # products of the same magnitude that cancel
    even = sx.tensor_attention(x, [x] * (order - 1), values)
    assert (even.double().abs().amax(-1) <= sx.exact_error_bound(x, [x] * (order - 1), values)).all()


def test_products_of_values_beyond_all_powers_are_refused():
    x = torch.ones(1, 2, 1, dtype=torch.float64)
    with pytest.raises(sx.SeparatrixError, match=r"^values\[0\] \(up to 2\^997\), .*: their products overflow"):
        sx.tensor_attention(x, [x] * 3, [1e300 * x] * 3)
    tiny = sx.tensor_attention(x, [x] * 5, [1e-300 * x] * 5)
    assert torch.equal(tiny, torch.zeros_like(tiny))


@pytest.mark.parametrize("scale", [-0.7, 0.0, 1e-60])
@pytest.mark.parametrize("length", [5, 40])
def test_causal_pairs_with_a_scale_that_is_not_positive(scale, length):
    """PyTorch's fused kernel multiplies the -inf of hidden scores by the scale."""
    query, key, value = draw(0, 3, 2, length, 4)
    expected, _ = reference.tensor_attention(query, [key], [value], scale=scale, is_causal=True)
    for dtype, error in [(torch.float64, 1e-13), (torch.float32, 1e-5)]:
        output = sx.tensor_attention(query.to(dtype), key.to(dtype), value.to(dtype), scale=scale, is_causal=True)
        assert (output - expected).abs().max() <= error


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_of_balanced_factors(order, is_causal):
    """Multiplying factors by powers of two, and dividing the scale by them, divides gradients by them exactly."""
    powers = [100, 60, -80, 110][:order]
    value_powers = [90, -110, 20][: order - 1]
    leaves = [draw(m, 1, 4, 3).float().requires_grad_() for m in range(2 * order - 1)]
    wild = [(x.detach() * 2.0**p).requires_grad_() for x, p in zip(leaves, powers + value_powers, strict=True)]

    def gradients(tensors, scale, into):
        out, lse = sx.tensor_attention(
            tensors[0], tensors[1:order], tensors[order:], scale=scale, is_causal=is_causal, return_lse=True
        )
        return torch.autograd.grad((out.sum() * into + lse.sum()), tensors)

    plain = gradients(leaves, 0.5, 1.0)
    found = gradients(wild, 0.5 * 2.0 ** -sum(powers), 2.0 ** -sum(value_powers))
    for x, y, power in zip(plain, found, powers + value_powers, strict=True):
        assert torch.allclose(times_power(y, torch.tensor(power)), x, rtol=1e-4, atol=1e-5)


def float64_gradients(tensors, order, incoming, **options):
    wide = [x.detach().double().requires_grad_() for x in tensors]
    out = sx.tensor_attention(wide[0], wide[1:order], wide[order:], **options)
    return torch.autograd.grad(out, wide, incoming.double())


@pytest.mark.parametrize("spread", [0, -40, -100])
def test_gradients_of_small_columns_with_small_incoming_gradients(spread):
    """One key set has tiny columns, and the incoming gradient of one head is far smaller than that of the other."""
    order = 3
    tensors = [draw(m, 2, 4, 3).float() for m in range(2 * order - 1)]
    tensors[0] *= torch.tensor([2.0**-20, 2.0**-30, 2.0**-25])
    tensors[1] *= torch.tensor([2.0**-50, 2.0**-3, 2.0**-70])
    tensors[2] *= torch.tensor([2.0**-10, 2.0**-30, 2.0**-5])
    tensors[3] *= 2.0**-60
    incoming = draw(9, 2, 4, 3).float()
    incoming[1] *= 2.0**spread
    leaves = [x.requires_grad_() for x in tensors]
    out = sx.tensor_attention(leaves[0], leaves[1:order], leaves[order:], scale=1.0)
    gradients = torch.autograd.grad(out, leaves, incoming)
    exact = float64_gradients(leaves, order, incoming, scale=1.0)
    least = 2.0**-149
    for x, y in zip(gradients, exact, strict=True):
        largest = y.abs().amax((1, 2), keepdim=True)  # head by head
        assert ((x.double() - y).abs() <= 1e-4 * largest + 2 * least).all()


def test_gradients_of_a_factor_that_is_zero_in_a_column():
    """A column in which a key set is zero adds nothing to scores, but the gradient of the key set is nonzero in it."""
    tensors = [draw(m, 1, 4, 3).float() for m in range(5)]
    tensors[0] *= 2.0**110
    tensors[1][..., 1] = 0.0
    leaves = [x.requires_grad_() for x in tensors]
    incoming = draw(9, 1, 4, 3).float()
    out = sx.tensor_attention(leaves[0], leaves[1:3], leaves[3:], scale=2.0**-110)
    gradients = torch.autograd.grad(out, leaves, incoming)
    for x, y in zip(gradients, float64_gradients(leaves, 3, incoming, scale=2.0**-110), strict=True):
        assert (x.double() - y).abs().max() <= 1e-4 * y.abs().max()
    assert gradients[1][..., 1].abs().min() > 0


def test_the_gradient_of_a_query_with_a_small_incoming_gradient():
    """Relative to its incoming gradient, this gradient is as accurate as those of the neighbouring queries."""
    leaves = [draw(m, 1, 4, 3).float().requires_grad_() for m in range(5)]
    incoming = draw(9, 1, 4, 3).float() * torch.tensor([2.0**100, 2.0**40, 2.0**-40, 0.0]).reshape(1, 4, 1)
    out = sx.tensor_attention(leaves[0], leaves[1:3], leaves[3:])
    gradients = torch.autograd.grad(out, leaves, incoming)
    for x, y in zip(gradients, float64_gradients(leaves, 3, incoming), strict=True):
        assert (x.double() - y).abs().max() <= 1e-4 * y.abs().max()
    query, exact = gradients[0][0].double(), float64_gradients(leaves, 3, incoming)[0][0]
    assert ((query - exact).abs() <= 1e-4 * exact.abs().amax(-1, keepdim=True) + 2.0**-148).all()
    assert query[3].abs().max() == 0


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # forward mode's own
def test_tangents_of_balanced_factors(order, is_causal):
    """Powers of two in factors and tangents that the scale cancels do not matter; those of values scale the output."""
    sets = 2 * order - 1
    small, moved = draw(0, sets, 5, 3).unbind(), draw(1, sets, 5, 3).unbind()
    powers = [2.0**100, 2.0**60, *[1.0] * (order - 2), 2.0**80, *[1.0] * (order - 2)]

    def call(scale):
        def attend(query, *others):
            return sx.tensor_attention(
                query, others[: order - 1], others[order - 1 :], scale=scale, is_causal=is_causal, return_lse=True
            )

        return attend

    expected = torch.func.jvp(call(0.25), small, moved)[1]
    large, largely = ([(x * power).float() for x, power in zip(y, powers, strict=True)] for y in (small, moved))
    actual = torch.func.jvp(call(0.25 * 2.0**-160), tuple(large), tuple(largely))[1]
    torch.testing.assert_close(actual[0].double() / 2.0**80, expected[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(actual[1].double(), expected[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_powers_of_two_are_exact(dtype):
    x = torch.tensor([1.5, -1.0, 0.0], dtype=dtype)
    info = torch.finfo(dtype)
    for exponent in range(round(math.log2(info.tiny)), round(math.log2(info.max))):
        assert times_power(x, torch.tensor(exponent)).tolist() == [math.ldexp(y, exponent) for y in x.tolist()]
    assert times_power(x, torch.tensor(5000)).tolist() == [math.inf, -math.inf, 0.0]
    assert times_power(x, torch.tensor(-5000)).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_zeros_among_the_outputs_of_pairs_raise_no_error(dtype):
    """A value column of zeros gives an output column of zeros, which is not taken for a failure of the fused kernel."""
    query, key, value = (x.to(dtype) for x in draw(0, 3, 1, 2, 20, 4))
    value[..., 0] = 0.0
    output = sx.tensor_attention(query, key, value, scale=0.5)
    assert torch.equal(output, torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=0.5))


GRAPHS = {
    "compiled": lambda f: torch.compile(f, backend="aot_eager", fullgraph=True),
    "grad": lambda f: lambda *x: torch.func.grad(lambda *x: f(*x).sum())(*x),
}


@pytest.mark.parametrize("transform", GRAPHS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pairs_in_graphs_are_refused_where_the_kernel_fails(transform):
    """A compiled graph has no fallback for inputs at which the fused kernel fails: its operator raises an error."""
    call = GRAPHS[transform](lambda q, k, v: sx.tensor_attention(q, k, v, scale=1.0))
    causal = GRAPHS[transform](lambda q, k, v: sx.tensor_attention(q, k, v, scale=1.0, is_causal=True))
    query, key, value = draw(0, 3, 2, 2, 6, 4).float()
    assert torch.isfinite(call(query, key, value)).all()
    assert torch.isfinite(causal(query, key, value)).all()
    with pytest.raises(
        sx.SeparatrixError, match=r"^query, keys, values, scale: query up to .* leave the range of PyTorch"
    ):
        call(1e30 * query, 1e30 * key, value)
    with pytest.raises(
        sx.SeparatrixError, match=r"^query, keys, values, scale: .* values up to 3e\+38 and a scale of 1 "
    ):
        call(query, key, torch.full_like(value, 3e38))
    value[0, 0, 5, 2] = math.nan
    assert transform == "grad" or torch.isnan(call(query, key, value)).any()
    with pytest.raises(sx.SeparatrixError, match=r"^keys or values: NaN or infinity, .* which is_causal hides"):
        causal(query, key, value)


def test_pairs_that_are_mapped_over_are_attended_by_blocks():
    """The fused kernel has no `vmap` rule; the block algorithm is used, without an error if the result is in range."""
    mapped = torch.func.vmap(lambda q, k, v: sx.tensor_attention(q, k, v, scale=1.0))
    query, key, value = draw(0, 3, 2, 2, 6, 4).float()
    huge = torch.full_like(value, 3e38)
    assert torch.allclose(mapped(query, key, huge), huge)
    with pytest.raises(sx.SeparatrixError, match=r"^query \(up to 2\^\d+\), keys\[0\]"):
        mapped(1e30 * query, 1e30 * key, value)


def test_the_operator_of_graphs_is_well_registered():
    query, key, value = draw(0, 3, 2, 3, 6, 4).float()
    torch.library.opcheck(torch.ops.separatrix.refuse_pairs.default, (query, query, key, value, True, 0.5))

    def refused(out, query):
        return torch.ops.separatrix.refuse_pairs(out, query, key, value, False, 1.0)[0]

    mapped = torch.func.vmap(refused, in_dims=(1, None))
    assert torch.equal(mapped(torch.stack([query] * 5, 1), query), torch.zeros(5, 2, dtype=torch.bool))
    with pytest.raises(sx.SeparatrixError, match=r"^query, keys, values, scale: query up to .*e\+37, keys up to"):
        mapped(torch.zeros(2, 5, 3, 6, 4), 1e38 * query)
