"""Order 2: PyTorch's fused kernel for short sequences, and our kernels for long ones."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.arguments import check_arguments
from separatrix.attention.exact import fused, plain_tuples
from separatrix.native import native
from tests.contracts.attention_contract import inputs

LONG = 256
SHORTEST = fused.SHORTEST.get(native().architecture, LONG)
BORDER = SHORTEST, max(SHORTEST, -(-fused.FEWEST_SCORES // (2 * SHORTEST)))
"""Lengths from which our kernels compute two heads of order 2."""
needs_kernels = pytest.mark.skipif(native().architecture not in fused.WIDEST, reason="has no kernels for order 2")


def draw(batch: tuple[int, ...], queries: int, keys: int, d: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*batch, n, d, generator=generator, dtype=dtype) for n in (queries, keys, keys)]


def is_fused(query: Tensor, key: Tensor, value: Tensor) -> bool:
    return fused.is_fused(check_arguments(query, key, value))


@needs_kernels
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_long_sequences_against_the_definition(batch, is_causal):
    query, key, value = draw(batch, LONG, LONG if is_causal else LONG + 45, 7)
    assert not is_fused(query, key, value)
    expected, lse = reference.tensor_attention(query, [key], [value], is_causal=is_causal)
    for keys, values in ((key, value), ([key], (value,))):
        out, out_lse = sx.tensor_attention(query, keys, values, is_causal=is_causal, return_lse=True)
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-13)
        torch.testing.assert_close(out_lse, lse, rtol=0, atol=1e-13)
        assert torch.equal(out, sx.tensor_attention(query, keys, values, is_causal=is_causal))


@needs_kernels
def test_both_ways_to_the_kernels_have_the_same_bits(monkeypatch):
    """A call that passes no further check, and one whose arguments are checked and dispatched."""
    tensors = [x.requires_grad_() for x in draw((2, 3), LONG, LONG, 16, torch.float32)]

    def results() -> list[Tensor]:
        out = sx.tensor_attention(*tensors, is_causal=True)
        return [out, *torch.autograd.grad(out.square().sum(), tensors)]

    unchecked = results()
    monkeypatch.setattr(plain_tuples, "kernels_are_faster", lambda *given: False)
    assert all(torch.equal(x, y) for x, y in zip(unchecked, results(), strict=True))


@needs_kernels
def test_gradients_are_those_of_the_fused_kernel():
    tensors = [x.requires_grad_() for x in draw((2, 2), LONG, LONG, 5)]
    out = sx.tensor_attention(*tensors, is_causal=True, scale=0.3)
    peer = scaled_dot_product_attention(*tensors, is_causal=True, scale=0.3)
    for x, y in zip(
        torch.autograd.grad(out.sin().sum(), tensors), torch.autograd.grad(peer.sin().sum(), tensors), strict=True
    ):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-12)


@needs_kernels
def test_the_error_bound_holds_for_long_sequences():
    query, key, value = draw((2,), LONG + 1, LONG + 2, 32, torch.float32)
    exact, _ = reference.tensor_attention(query.double(), [key.double()], [value.double()])
    error = (sx.tensor_attention(query, key, value).double() - exact).abs().amax(-1)
    bound = sx.exact_error_bound(query, key, value)
    assert error.max() > 0
    assert (error <= bound).all()


@needs_kernels
@pytest.mark.parametrize(("queries", "keys"), [BORDER, BORDER[::-1]])
def test_the_shortest_sequences_that_our_kernels_compute(queries, keys):
    query, key, value = draw((1, 2), queries, keys, 8)
    assert not is_fused(query, key, value)
    expected, _ = reference.tensor_attention(query, [key], [value])
    torch.testing.assert_close(sx.tensor_attention(query, key, value), expected, rtol=0, atol=1e-13)


@needs_kernels
@pytest.mark.parametrize(
    ("queries", "keys", "d", "dtype"),
    [
        (BORDER[0] - 1, LONG + LONG, 8, torch.float32),
        (LONG + LONG, BORDER[0] - 1, 8, torch.float32),
        (BORDER[0], BORDER[1] - 1, 8, torch.float32),
        (LONG, LONG, fused.WIDEST.get(native().architecture, 0) + 1, torch.float32),
        (LONG, LONG, 8, torch.bfloat16),
    ],
)
def test_other_sizes_have_the_bits_of_the_fused_kernel(queries, keys, d, dtype):
    query, key, value = draw((1, 2), queries, keys, d, dtype)
    assert is_fused(query, key, value)
    expected = scaled_dot_product_attention(query, key, value, scale=1 / d)
    assert torch.equal(sx.tensor_attention(query, key, value), expected)


def test_transforms_of_long_sequences_use_the_fused_kernel():
    """Under `torch.func` the choice of the kernel cannot depend on entries; gradients agree up to rounding."""
    query, key, value = draw((2, 2), LONG, LONG, 4)
    seen = []

    def total(x: Tensor) -> Tensor:
        seen.append(is_fused(x, key, value))
        return sx.tensor_attention(x, key, value).sin().sum()

    gradient = torch.func.grad(total)(query)
    assert seen == [True]
    leaf = query.clone().requires_grad_()
    expected = torch.autograd.grad(sx.tensor_attention(leaf, key, value).sin().sum(), leaf)[0]
    torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-12)


def test_a_compiled_call_of_long_sequences():
    query, key, value = draw((1, 2), LONG, LONG, 8, torch.float32)
    torch._dynamo.reset()
    compiled = torch.compile(lambda *x: sx.tensor_attention(*x, is_causal=True), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(query, key, value), sx.tensor_attention(query, key, value, is_causal=True))


def test_order_3_is_never_fused():
    query, keys, values = inputs(3, 5, (4, 6), 3, 3)
    assert not fused.is_fused(check_arguments(query, keys, values))
