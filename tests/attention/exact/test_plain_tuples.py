"""The path for plain tensors, which bypasses the dispatcher, has the same results and derivatives, or is not used."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.attention.arguments import check_arguments
from separatrix.attention.call import check_call, grouped
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


HIDDEN = torch.tensor([True, False, True, True, False, True, True])
OF_HEADS = torch.rand(2, 4, 7, generator=torch.Generator().manual_seed(0)) < 0.7
OPTIONS: dict[str, dict[str, Any]] = {
    "window": {"windows": 3},
    "causal windows": {"windows": (2, None), "is_causal": True},
    "the longest window": {"windows": [2**63 - 1, 1]},
    "offset": {"is_causal": True, "query_offset": -2},
    "window and offset": {"windows": (None, 4), "query_offset": 2},
    "mask of all heads": {"key_masks": HIDDEN},
    "mask of one set": {"key_masks": [None, HIDDEN]},
    "mask that broadcasts": {"key_masks": OF_HEADS[:, :1]},
    "mask with a leading 1": {"key_masks": [HIDDEN.expand(1, 1, 7), OF_HEADS[:1]]},
    "mask of each head": {"key_masks": [OF_HEADS, HIDDEN], "is_causal": True},
    "mask with strides": {"key_masks": OF_HEADS.transpose(0, 2).contiguous().transpose(0, 2)},
    "mask of nothing": {"key_masks": torch.zeros(7, dtype=torch.bool)},
    "everything": {"key_masks": OF_HEADS, "windows": (4, 3), "is_causal": True, "query_offset": 1, "scale": -0.7},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("key_heads", [4, 2, 1])
def test_options_give_the_definition_and_the_bits_of_the_operator(name: str, key_heads: int) -> None:
    query, *others = [x.requires_grad_() for x in drawn(2, 4)]
    options: dict[str, Any] = {"enable_gqa": key_heads < 4, **OPTIONS[name]}
    tensors = [query, *(x.detach()[:, :key_heads].requires_grad_() for x in others)]
    sets = (tensors[1:3], tensors[3:])
    results = plain_tuples(query, *sets, **options)
    assert results is not None
    incoming = torch.randn(results[0].shape, dtype=results[0].dtype, generator=torch.Generator().manual_seed(1))

    def gradients(out: Tensor, lse: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad((out * incoming).sum() + lse.where(lse.isfinite(), 0.0).sum(), tensors)

    by_operator = exact_attention(grouped(check_arguments(query, *sets, **options)))
    for_all_sets = {
        key: [options[key]] * 2 for key in ("windows", "key_masks") if isinstance(options.get(key), (int, Tensor))
    }
    by_definition = reference(query, *sets, **options | for_all_sets)
    of_operator, of_definition = gradients(*by_operator), gradients(*by_definition)
    for found, same, expected in zip(
        (*results, *gradients(*results)), (*by_operator, *of_operator), (*by_definition, *of_definition), strict=True
    ):
        assert torch.equal(found, same)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["causal windows", "mask of one set", "everything"])
def test_options_have_the_bits_of_the_operator_in_every_dtype(dtype: torch.dtype, name: str) -> None:
    query, k1, k2, v1, v2 = drawn(2, 4, dtype=dtype)
    results = plain_tuples(query, [k1, k2], [v1, v2], **OPTIONS[name])
    assert results is not None
    expected = exact_attention(grouped(check_arguments(query, [k1, k2], [v1, v2], **OPTIONS[name])))
    assert torch.equal(results[0], expected[0])
    assert torch.equal(results[1], expected[1])


def test_a_nan_under_a_mask_or_outside_a_window_is_not_seen() -> None:
    query, k1, k2, v1, v2 = drawn(2, 4)
    wanted = plain_tuples(query, [k1, k2], [v1, v2], key_masks=HIDDEN, windows=2)
    k1[..., 1, :], v2[..., 4, :] = torch.nan, torch.inf
    results = plain_tuples(query, [k1, k2], [v1, v2], key_masks=HIDDEN, windows=2)
    assert results is not None
    assert wanted is not None
    assert torch.equal(results[0], wanted[0])
    v1[..., 0, :] = torch.nan
    results = plain_tuples(query, [k1, k2], [v1, v2], key_masks=HIDDEN, windows=2)
    assert results is not None
    assert results[0][..., :2, :].isnan().all()
    assert torch.equal(results[0][..., 2:, :], wanted[0][..., 2:, :])


def test_a_mask_that_is_changed_before_the_backward_pass_is_an_error() -> None:
    tensors, mask = [x.requires_grad_() for x in drawn(2)], HIDDEN.clone()
    results = plain_tuples(tensors[0], tensors[1:3], tensors[3:], key_masks=mask)
    assert results is not None
    mask[0] = False
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        results[0].sum().backward()


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

    hidden: dict[str, Any] = {"windows": (2, None), "key_masks": [None, torch.tensor([True, False, True])]}
    for options in ({}, hidden):
        found = torch.autograd.grad(
            penalty(tensor_attention(tensors[0], tensors[1:3], tensors[3:], **options)), tensors
        )
        expected = torch.autograd.grad(penalty(reference(tensors[0], tensors[1:3], tensors[3:], **options)[0]), tensors)
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
    bits = torch.ones(7, dtype=torch.bool)
    options: list[dict[str, Any]] = [
        *({"windows": windows} for windows in (0, True, 2.0, [3], [3, 0], [3, 2**63], "33", torch.tensor(3))),
        *({"query_offset": offset} for offset in (True, 1.0, 2**62 + 1, -(2**62) - 1)),
        *({"is_causal": flag} for flag in (1, None)),
        *({"enable_gqa": flag} for flag in (1, None)),
        *({"key_masks": mask} for mask in (bits.int(), bits[:3], bits[0], bits.expand(3, 7), bits.expand(1, 2, 7))),
        *({"key_masks": mask} for mask in (bits.to("meta"), bits.to_sparse(), [bits], [bits, 1], "mm")),
    ]
    assert [option for option in options if plain_tuples(query, keys, values, **option) is not None] == []
    four, *three = (
        x[:1].expand(heads, 7, 5) for x, heads in zip((query, *keys, *values), (4, 3, 3, 3, 3), strict=True)
    )
    assert plain_tuples(four, three[:2], three[2:], enable_gqa=True) is None
    assert plain_tuples(query[0], [x[0] for x in keys], [x[0] for x in values], enable_gqa=True) is None
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
