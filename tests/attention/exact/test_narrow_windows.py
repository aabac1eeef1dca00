"""Exact attention of orders 5 to 9 with windows: there are few tuples but many prefixes.

A backward pass that enumerates every prefix, allowed or not, does not end here, and one that multiplies the lengths of
the key sets overflows 64 bits.
"""

from __future__ import annotations

import math

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.call import check_call
from separatrix.attention.exact import native as native_backend
from separatrix.native import native
from tests.contracts.engines import engine

__all__ = ["engine"]


def drawn(seed, order, length, d=3, d_v=2):
    generator = torch.Generator().manual_seed(seed)

    def some(columns):
        return torch.randn(length, columns, dtype=torch.float64, generator=generator, requires_grad=True)

    return some(d), [some(d) for _ in range(order - 1)], [some(d_v) for _ in range(order - 1)], generator


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"is_causal": True, "query_offset": 1}], ids=str)
def test_one_key_of_each_set(options):
    """Eight key sets of 512 tokens, windows of 1: an output is the product of one value of each set."""
    query, keys, values, generator = drawn(0, 9, 512)
    out = sx.tensor_attention(query, keys, values, windows=[1] * 8, **options)
    grad = torch.randn(out.shape, dtype=out.dtype, generator=generator)
    found = torch.autograd.grad(out, [query, *keys, *values], grad)
    shift = options.get("query_offset", 0)
    inside = slice(shift, None)
    expected = torch.zeros_like(out)
    expected[: 512 - shift] = torch.stack([value[inside] for value in values]).prod(0)
    assert (out - expected).abs().max() <= 1e-12
    for score_gradient in found[:9]:  # a single tuple has weight 1 for every score
        assert score_gradient.abs().max() <= 1e-11
    for m, value_gradient in enumerate(found[9:]):
        others = torch.stack([value for n, value in enumerate(values) if n != m]).prod(0)
        expected = torch.zeros_like(others)
        expected[inside] = grad[: 512 - shift] * others[inside]
        assert (value_gradient - expected).abs().max() <= 1e-11 * max(1.0, expected.abs().max().item())


@pytest.mark.parametrize(("order", "length", "windows"), [(5, 9, 2), (6, 7, 3), (7, 5, 2), (8, 4, 2), (9, 4, 2)])
@pytest.mark.parametrize("options", [{}, {"is_causal": True, "query_offset": 2}, {"masked": True}], ids=str)
def test_gradients_are_those_of_the_definition(order, length, windows, options):
    query, keys, values, generator = drawn(order, order, length)
    options = dict(options)
    if options.pop("masked", False):
        options["key_masks"] = [torch.rand(length, generator=generator) < 0.8 for _ in keys]
    options["windows"] = [windows + m % 2 for m in range(order - 1)]
    leaves = [query, *keys, *values]
    expected_out, expected_lse = reference.tensor_attention(query, keys, values, scale=0.5, **options)
    out, lse = sx.tensor_attention(query, keys, values, scale=0.5, return_lse=True, **options)
    attended = expected_lse > -math.inf
    assert torch.equal(lse > -math.inf, attended)
    grad = torch.randn(out.shape, dtype=out.dtype, generator=generator)
    expected = torch.autograd.grad((expected_out * grad).sum() + expected_lse[attended].sum(), leaves)
    found = torch.autograd.grad((out * grad).sum() + lse[attended].sum(), leaves)
    assert (out - expected_out).abs().max() <= 1e-12 * max(1.0, expected_out.abs().max().item())
    for x, y in zip(found, expected, strict=True):
        assert (x - y).abs().max() <= 1e-11 * max(1.0, y.abs().max().item())


def test_masks_leave_few_queries_with_anything_to_attend(engine):
    """Only two queries, far apart, attend anything: the kernels do not visit the prefixes between them."""
    if engine != "native":
        pytest.skip("Plain PyTorch computes what masks hide, and multiplies it by 0.")
    length, kept = 3000, [*range(8), 2900]
    query, keys, values, _ = drawn(1, 5, length)
    first, last = (torch.zeros(length, dtype=torch.bool) for _ in range(2))
    first[:8], last[[5, 2900]] = True, True
    masks = [first, first, None, last]
    out = sx.tensor_attention(query, keys, values, windows=[length, length, 1, 1], key_masks=masks)
    found = torch.autograd.grad(out.sum(), [query, *keys, *values])
    assert torch.equal(out.abs().sum(-1).nonzero().flatten(), torch.tensor([5, 2900]))
    leaves = [x.detach()[kept].requires_grad_() for x in (query, *keys, *values)]
    masks = [None if mask is None else mask[kept] for mask in masks]
    expected = reference.tensor_attention(leaves[0], leaves[1:5], leaves[5:], windows=[9, 9, 1, 1], key_masks=masks)[0]
    for x, y in zip(found, torch.autograd.grad(expected.sum(), leaves), strict=True):
        assert (x[kept] - y).abs().max() <= 1e-11 * max(1.0, y.abs().max().item())


def test_more_tuples_than_int64_holds_are_refused():
    """The number of tuples, 1,000 queries times 1,000^7 key tuples, overflows 64 bits."""
    query, lse, windows = torch.zeros(1, 1000, 1), torch.zeros(1, 1000), [0] * 7
    sets = [torch.zeros(1, 1000, 1) for _ in range(7)]
    refusal = r"keys: expected fewer than 2\^62 tuples.* got 1e\+24.*`windows`"
    with pytest.raises(sx.SeparatrixError, match=refusal):
        sx.tensor_attention(query, sets, sets)
    results = (query, lse, query, lse)
    with pytest.raises(sx.SeparatrixError, match=refusal):
        torch.ops.separatrix.attend_backward(query, sets, sets, [], False, 0, windows, 1.0, *results)
    if native().library is not None:
        counted = native_backend.summation(check_call(query, sets, sets), torch.float64)
        assert counted.gamma(torch.float64) == math.inf
