"""Certified calls of plain tensors have the results of `certify_call`, or are computed by it."""

from __future__ import annotations

import math

import pytest
import torch

import separatrix as sx
from separatrix.attention.call import check_call
from separatrix.attention.certified import certify_call
from separatrix.attention.plain_certified import plain_certified
from separatrix.native import native

pytestmark = pytest.mark.skipif(native().library is None, reason="no C++ kernels")


def draw(seed, dtype=torch.float32):
    """The tensors and options of a call of awkward sizes: orders 2 to 4, strides, masks, windows, offsets."""
    rng = torch.Generator().manual_seed(seed)

    def whole(low, high):
        return int(torch.randint(low, high + 1, (), generator=rng))

    sets, batch = whole(1, 3), [(), (3,), (2, 2), (1, 2, 1)][whole(0, 3)]
    d, d_v, lengths = whole(1, 19), whole(1, 9), [whole(1, 23) for _ in range(sets)]

    def tokens(length, columns):
        x = torch.randn(*batch, columns, length, dtype=dtype, generator=rng).mT
        x = x + float(torch.randn((), generator=rng))
        return x if whole(0, 1) else x.contiguous()

    options = {"scale": float(torch.randn((), generator=rng)) / d}
    if whole(0, 1):
        options |= {"is_causal": True, "query_offset": (-2, -1, 1, 9)[whole(0, 3)]}
    if whole(0, 3) == 0:
        options["windows"] = whole(1, 9)
    query, keys, values = tokens(whole(1, 23), d), [tokens(n, d) for n in lengths], [tokens(n, d_v) for n in lengths]
    if whole(0, 1):
        options["key_masks"] = [torch.rand(*batch, n, generator=rng) < whole(0, 2) / 2 for n in lengths]
        for m, mask in enumerate(options["key_masks"]):
            keys[m][~mask] = values[m][~mask] = math.nan  # hidden tokens may be anything
    if whole(0, 5) == 0:
        values[0] = torch.zeros_like(values[0])
    return (query, keys, values), options


def assert_equal(result, expected):
    """Assert that outputs have the same bits, and that bounds exceed the expected ones at most by rounding."""
    assert torch.equal(result.output, expected.output)
    assert torch.equal(result.lse, expected.lse)
    assert (result.plan.method, result.plan.why) == (expected.plan.method, expected.plan.why)
    assert (result.plan.flops, result.plan.bytes) == (expected.plan.flops, expected.plan.bytes)
    assert result.plan.predicted_error == pytest.approx(expected.plan.predicted_error, rel=1e-12)
    assert (result.tolerance, result.keeps) == (expected.tolerance, expected.keeps)
    new, old = result.certificate, expected.certificate
    assert new.per_query.shape == old.per_query.shape
    assert (new.per_query >= old.per_query * (1 - 1e-12)).all()
    assert (new.per_query <= old.per_query * (1 + 2.0**-19)).all()
    assert new.total == new.rounding == float(new.per_query.max())
    assert (new.truncation, new.gradient) == (old.truncation, old.gradient) == (0.0, None)
    assert new.lse == pytest.approx(old.lse, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(40))
def test_results_are_those_of_the_checked_call(seed, dtype):
    tensors, options = draw(seed, dtype)
    result = plain_certified(*tensors, tolerance=1.0, method="exact", **options)
    assert result is not None
    assert_equal(result, certify_call(check_call(*tensors, **options), 1.0, "exact"))


@pytest.mark.parametrize("size", [1e3, 1e5, 1e8])
@pytest.mark.parametrize("seed", range(3))
def test_bounds_for_large_scores_are_those_of_the_checked_call(seed, size):
    (query, keys, values), options = draw(seed)
    result = plain_certified(size * query, keys, values, tolerance=1e9, method="auto", **options)
    assert result is not None
    assert_equal(result, certify_call(check_call(size * query, keys, values, **options), 1e9, "auto"))


@pytest.mark.parametrize("with_lse", [False, True])
def test_the_tolerance_is_compared_with_the_bounds_that_it_is_for(with_lse):
    (query, keys, values), _ = draw(1)
    values = [2.0**-10 * x for x in values]
    certificate = certify_call(check_call(query, keys, values), 1e-3, "exact").certificate
    assert certificate.total < certificate.lse / 4
    for tolerance in (0.99 * certificate.total, 1.01 * certificate.total, certificate.lse):
        result = plain_certified(query, keys, values, tolerance=tolerance, method="exact", with_lse=with_lse)
        assert (result is not None) == (tolerance >= (certificate.lse if with_lse else certificate.total))


def test_public_functions_return_these_results():
    (query, keys, values), _ = draw(3)
    expected = plain_certified(query, keys, values, tolerance=1e-2, method="auto")
    assert_equal(sx.certified_attention(query, keys, values, tolerance=1e-2), expected)
    out, lse = sx.tensor_attention(query, keys, values, tolerance=1e-2, return_lse=True)
    assert torch.equal(out, expected.output)
    assert torch.equal(lse, expected.lse)
    assert torch.equal(sx.tensor_attention(query, keys, values, tolerance=1e-2), out)


def test_other_calls_are_left_to_the_checks():
    query, k1, k2, v1, v2 = torch.rand(5, 2, 7, 4, generator=torch.Generator().manual_seed(0))
    tensors, run = (query, [k1, k2], [v1, v2]), {"tolerance": 1e-3, "method": "auto"}
    assert plain_certified(*tensors, **run) is not None
    assert plain_certified(*tensors, **(run | {"method": "polynomial"})) is None
    assert plain_certified(*tensors, **run, windows=3) is not None
    assert plain_certified(*tensors, **(run | {"method": "polynomial"}), windows=3) is None
    for tolerance in (None, 0.0, -1.0, math.nan, math.inf, "1", True, torch.tensor(1e-3)):
        assert plain_certified(*tensors, **(run | {"tolerance": tolerance})) is None
    assert plain_certified(*tensors, **(run | {"tolerance": 1e-9})) is None, "float64 is needed"
    assert plain_certified(query.requires_grad_(), [k1, k2], [v1, v2], **run) is None
    query = query.detach()
    half = [x.to(torch.bfloat16) for x in (query, k1, k2, v1, v2)]
    assert plain_certified(half[0], half[1:3], half[3:], **run) is None
    four, *sets = torch.rand(5, 4, 7, 4)
    two = [x[:2] for x in sets]  # the heads after them are finite, too
    assert plain_certified(four, two[:2], two[2:], **run, enable_gqa=True) is None
    long = torch.rand(5, 1, 2000, 4)
    assert plain_certified(long[0], [long[1], long[2]], [long[3], long[4]], **run) is None


def test_entries_that_need_more_than_float32_are_left_to_the_checks():
    query, key, k2, v1, v2 = torch.zeros(5, 2, 7, 4)
    v1 += 1.0
    v2 += 1.0
    run = {"tolerance": 1e-3, "method": "auto"}
    query[..., 0], key[..., 1] = 2.0**50, 2.0**50  # each coordinate of the scores is in range, but not all products
    assert plain_certified(query, [key, k2], [v1, v2], **run) is None
    assert sx.certified_attention(query, [key, k2], [v1, v2], **run).keeps == ("output",)
    query[..., 0] = 0.0
    assert plain_certified(query, [key, k2], [v1, v2], **run) is not None
    v1[0], v2[1] = 2.0**-40, 2.0**-40  # each product is in range, but not the least magnitudes of both sets
    assert plain_certified(query, [key, k2], [v1, v2], **run) is None
    v2[1] = 1.0
    assert plain_certified(query, [key, k2], [v1, v2], **run) is not None
    k2[0, 3, 2] = math.nan
    assert plain_certified(query, [key, k2], [v1, v2], **run) is None
    with pytest.raises(sx.SeparatrixError, match=r"keys\[1\]"):
        sx.certified_attention(query, [key, k2], [v1, v2], **run)


def test_threads_of_another_rounding_mode_are_refused(monkeypatch):
    (query, keys, values), _ = draw(3)
    refused = sx.SeparatrixError("rounding mode")

    def refuse():
        raise refused

    monkeypatch.setattr("separatrix.attention.plain_certified.require_ieee_arithmetic", refuse)
    with pytest.raises(sx.SeparatrixError, match="rounding mode"):
        plain_certified(query, keys, values, tolerance=1e-2, method="auto")
    monkeypatch.setattr("separatrix.attention.plain_certified.float32_products_are_float32", lambda: False)
    assert plain_certified(query, keys, values, tolerance=1e-2, method="auto") is None
