"""Calls on plain tensors bypass the dispatcher: they give the same results and derivatives, or are not used."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from separatrix.attention.call import check_call
from separatrix.attention.exact import native as native_backend
from separatrix.attention.exact.operators import exact_attention
from separatrix.attention.exact.plain_tuples import plain_tuples
from separatrix.attention.operator import tensor_attention
from separatrix.attention.reference import tensor_attention as reference


def drawn(*batch: int, length: int = 7, d: int = 5, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(length * d)
    return [torch.randn(*batch, length, d, dtype=dtype, generator=generator) for _ in range(5)]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("length", [1, 3, 4, 13, 32, 65])
def test_outputs_and_gradients_are_those_of_the_definition(
    batch: tuple[int, ...], length: int, is_causal: bool
) -> None:
    tensors = [x.requires_grad_() for x in drawn(*batch, length=length)]
    results = plain_tuples(tensors[0], tensors[1:3], tensors[3:], is_causal, None)
    assert results is not None
    expected, expected_lse = reference(tensors[0], tensors[1:3], tensors[3:], is_causal=is_causal)
    torch.testing.assert_close(results[0], expected)
    torch.testing.assert_close(results[1], expected_lse)
    incoming = torch.randn(expected.shape, dtype=expected.dtype, generator=torch.Generator().manual_seed(1))
    gradients = torch.autograd.grad((results[0] * incoming).sum() + results[1].sum(), tensors)
    wanted = torch.autograd.grad((expected * incoming).sum() + expected_lse.sum(), tensors)
    for gradient, want in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(gradient, want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_results_have_the_bits_of_the_operator(dtype: torch.dtype) -> None:
    query, k1, k2, v1, v2 = drawn(2, 3, length=9, dtype=dtype)
    results = plain_tuples(query, [k1, k2], (v1, v2), True, 0.3)
    expected = exact_attention(check_call(query, [k1, k2], [v1, v2], is_causal=True, scale=0.3))
    assert results is not None
    assert torch.equal(results[0], expected[0])
    assert torch.equal(results[1], expected[1])


def test_tensors_that_are_not_contiguous_give_the_same() -> None:
    tensors = [x.transpose(-2, -3) for x in drawn(2, 7, length=3)]
    results = plain_tuples(tensors[0], tensors[1:3], tensors[3:], False, None)
    assert results is not None
    torch.testing.assert_close(results[0], reference(tensors[0], tensors[1:3], tensors[3:])[0])


def test_factors_that_need_balancing_are_balanced() -> None:
    query, k1, k2, v1, v2 = drawn(2, length=5, dtype=torch.float32)
    tensors = [x.requires_grad_() for x in (query * 1e25, k1 * 1e-25, k2, v1 * 1e20, v2 * 1e-20)]
    results = plain_tuples(tensors[0], tensors[1:3], tensors[3:], False, None)
    assert results is not None
    wide = [x.detach().double().requires_grad_() for x in tensors]
    expected = reference(wide[0], wide[1:3], wide[3:])[0]
    torch.testing.assert_close(results[0].double(), expected, rtol=1e-4, atol=1e-4)
    for gradient, want in zip(
        torch.autograd.grad(results[0].sum(), tensors), torch.autograd.grad(expected.sum(), wide), strict=True
    ):
        torch.testing.assert_close(gradient.double() / want.abs().max(), want / want.abs().max(), rtol=1e-3, atol=1e-4)


def test_a_second_derivative_is_that_of_the_definition() -> None:
    tensors = [x.requires_grad_() for x in drawn(2, length=3, d=2)]

    def penalty(output: Tensor) -> Tensor:
        gradients = torch.autograd.grad(output.square().sum(), tensors, create_graph=True)
        return torch.stack([gradient.square().sum() for gradient in gradients]).sum()

    found = torch.autograd.grad(penalty(tensor_attention(tensors[0], tensors[1:3], tensors[3:])), tensors)
    expected = torch.autograd.grad(penalty(reference(tensors[0], tensors[1:3], tensors[3:])[0]), tensors)
    for gradient, want in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, want)


def test_calls_that_need_more_use_the_operator() -> None:
    query, k1, k2, v1, v2 = drawn(2)
    keys, values = [k1, k2], [v1, v2]
    refused = [
        (query, k1, v1, None),
        (query, [k1], [v1], None),
        (query, keys, [v1], None),
        (query, keys, values, 1),
        (query, keys, values, float("nan")),
        (query.float(), keys, values, None),
        (query[0], keys, values, None),
        (query, [k1[:1], k2], values, None),
        (query, keys, [v1, v2[:, :3]], None),
        (query[:, :0], keys, values, None),
        (query.to("meta"), keys, values, None),
        (query.to_sparse(), keys, values, None),
        (query.int(), [x.int() for x in keys], [x.int() for x in values], None),
        ([query], keys, values, None),
    ]
    assert [plain_tuples(q, k, v, False, scale) for q, k, v, scale in refused] == [None] * len(refused)
    assert plain_tuples(query[:, :3], keys, values, True, None) is None
    with torch.autocast("cpu"):
        assert plain_tuples(query, keys, values, False, None) is None
    assert torch.func.vmap(lambda q: torch.tensor(plain_tuples(q, keys, values, False, None) is None))(
        query[None]
    ).all()


def test_shapes_of_a_call_are_kept_apart() -> None:
    """The cache of call descriptors has a key for everything that a descriptor depends on."""
    native_backend._sizes.cache_clear()
    for options in (
        {"is_causal": True},
        {"scale": 0.5},
        {"windows": [2, None]},
        {"is_causal": True, "query_offset": 1},
    ):
        query, k1, k2, v1, v2 = drawn(2)
        out = tensor_attention(query, [k1, k2], [v1, v2], **options)
        torch.testing.assert_close(out, reference(query, [k1, k2], [v1, v2], **options)[0])
