"""The Triton kernels, in the interpreter, against the definition: outputs and gradients at small, awkward sizes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from separatrix.attention import reference
from separatrix.attention.call import Call, check_call
from separatrix.attention.exact import backend, guarded, triton
from separatrix.attention.exact.triton import configurations, description
from separatrix.attention.exact.triton.configurations import Configuration
from tests.contracts.interpreter import interpreted, needs_triton  # noqa: F401

pytestmark = [needs_triton, pytest.mark.usefixtures("interpreted"), pytest.mark.timeout(1200)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 16, so that short sequences have several blocks, and loops without comparisons in every dtype."""
    small = (Configuration(16, 16, 4, 1),) * len(configurations.WIDTHS)
    shipped = dict.fromkeys(configurations.SHIPPED, small)
    monkeypatch.setattr(configurations, "SHIPPED", shipped)
    monkeypatch.setattr(description, "peeled", lambda call, precision: not call.masks)


def drawn(seed, query_length, lengths, d, d_v, heads=1, shared=1, dtype=torch.float64, size=1.0):
    generator = torch.Generator().manual_seed(seed)

    def some(*shape):
        return (size * (2 * torch.rand(*shape, dtype=torch.float64, generator=generator) - 1)).to(dtype)

    keys = [some(heads, length, d) for length in lengths]
    values = [some(heads, length, d_v) for length in lengths]
    return some(heads * shared, query_length, d), keys, values, generator


CASES = {
    "all": ((5, [2, 19], 5, 3), {}),
    "the first set is the inner one": ((3, [18, 2], 2, 17), {}),
    "causal": ((18, [3, 18], 3, 2), {"is_causal": True, "query_offset": 1}),
    "causal, later queries": ((3, [4, 20], 3, 2), {"is_causal": True, "query_offset": 15}),
    "causal, earlier queries": ((6, [3, 4], 1, 1), {"is_causal": True, "query_offset": -4}),
    "windows": ((20, [19, 21], 3, 2), {"windows": [2, 5]}),
    "windows, later queries": ((17, [5, 9], 3, 2), {"windows": [3, 30], "query_offset": 2}),
    "a window, and causality": ((19, [3, 19], 3, 2), {"is_causal": True, "windows": [None, 4], "query_offset": 1}),
    "causal, whole blocks": ((20, [30, 50], 3, 2), {"is_causal": True, "query_offset": 20}),
    "windows, whole blocks": ((20, [40, 60], 3, 2), {"windows": [2, 40], "query_offset": 30}),
    "windows, queries within all prefixes": ((40, [60, 60], 3, 2), {"windows": [2, 40], "query_offset": 10}),
    "windows, queries before a whole block within": ((40, [40, 40], 3, 2), {"windows": [18, 40]}),
    "queries beyond the last inner key": ((40, [60, 20], 3, 2), {"windows": [2, 10]}),
    "inner keys before all windows": ((3, [60, 60], 3, 2), {"windows": [2, 20], "query_offset": 50}),
    "causal, a block of earlier queries": ((40, [3, 40], 3, 2), {"is_causal": True, "query_offset": -20}),
    "no prefix windows, whole blocks": ((40, [2, 60], 3, 2), {"windows": [None, 40], "query_offset": 10}),
    "a window on the prefix": ((18, [18, 5], 3, 2), {"windows": [2, None], "query_offset": 1}),
    "windows that end before any key": ((4, [3, 3], 2, 2), {"windows": [2, 2], "query_offset": 40}),
    "order 4": ((3, [2, 17, 3], 2, 2), {}),
    "order 4, causal": ((5, [3, 5, 2], 2, 2), {"is_causal": True, "query_offset": -1}),
    "order 4, a window on one prefix": ((3, [2, 3, 4], 2, 1), {"windows": [3, None, 3], "query_offset": 2}),
    "order 4, windows": ((17, [3, 5, 18], 2, 3), {"windows": [2, None, 4], "is_causal": True, "query_offset": 1}),
    "order 4, whole blocks": ((17, [1, 18, 34], 2, 2), {"is_causal": True, "query_offset": 16}),
    "order 4, windows, queries within all prefixes": (
        (20, [31, 32, 36], 2, 2),
        {"windows": [2, 1, 30], "query_offset": 10},
    ),
    "order 4, causal, a window on one prefix, whole blocks": (
        (18, [19, 6, 34], 2, 2),
        {"is_causal": True, "windows": [1, None, 40], "query_offset": 1},
    ),
    "order 5": ((2, [2, 1, 17, 3], 2, 3), {}),
    "order 5, windows": ((3, [3, 2, 2, 4], 2, 1), {"windows": [2, None, 3, 3], "query_offset": 2}),
    "order 5, causal": ((2, [3, 2, 4, 1], 1, 2), {"is_causal": True, "query_offset": 1}),
    "order 7": ((2, [2, 1, 1, 3, 2, 1], 2, 2), {"windows": [None, 1, None, None, 2, None]}),
}


def checked(case, masked, dtype, size=1.0, seed=0):
    """The call of a case, its output and gradients by the kernels, and those by the definition, in float64."""
    shape, options = CASES[case]
    query, keys, values, generator = drawn(seed, *shape, dtype=dtype, size=size)
    options = dict(options, scale=1.3)
    if masked:
        options["key_masks"] = [torch.rand(1, key.shape[1], generator=generator) < 0.6 for key in keys]
        for mask in options["key_masks"]:
            mask[:, -1] = True
    leaves = [x.double().requires_grad_() for x in (query, *keys, *values)]
    sets = len(keys)
    out, lse = reference.tensor_attention(leaves[0], leaves[1 : 1 + sets], leaves[1 + sets :], **options)
    empty = lse == -math.inf
    grad_out = torch.rand(out.shape, dtype=out.dtype, generator=generator).to(dtype)
    grad_lse = torch.rand(lse.shape, dtype=lse.dtype, generator=generator)
    loss = (out * grad_out).sum() + (lse.masked_fill(empty, 0.0) * grad_lse).sum()
    expected = (out.detach(), lse.detach(), *torch.autograd.grad(loss, leaves))
    call = check_call(query, keys, values, **options)
    assert backend.exact_backend(call) is triton
    found_out, found_lse = triton.forward(call)
    by_query, by_keys, by_values = triton.backward(call, found_out, found_lse, grad_out, grad_lse.to(found_lse.dtype))
    return (found_out, found_lse, by_query, *by_keys, *by_values), expected


def agree(found, expected, error):
    empty = expected[1] == -math.inf
    assert torch.equal(found[1] == -math.inf, empty)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        size = max(1.0, other[other.isfinite()].abs().max().item() if other.isfinite().any() else 0.0)
        assert bool(((one == other) | ((one - other).abs() <= error * size)).all())


@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("case", CASES)
def test_the_kernels_compute_the_definition_and_its_gradients(case, masked):
    agree(*checked(case, masked, torch.float64), 1e-13)


@pytest.mark.parametrize("case", [case for case in CASES if "whole" in case or "within" in case])
def test_loops_without_comparisons_have_the_same_bits(case, monkeypatch):
    """Blocks without masked scores give the same bits as loops with comparisons, for outputs and gradients."""
    peeled, _ = checked(case, False, torch.float64)
    monkeypatch.setattr(description, "peeled", lambda call, precision: False)
    plain, _ = checked(case, False, torch.float64)
    assert all(torch.equal(x, y) for x, y in zip(peeled, plain, strict=True))


def transposed_agree(masked=True):
    """Tensors and masks that are not contiguous give the same bits as contiguous ones."""
    query, keys, values, generator = drawn(3, 5, [6, 19], 3, 2, heads=2, shared=2)
    options = {"key_masks": [torch.rand(2, length, generator=generator) < 0.6 for length in (6, 19)]} if masked else {}
    results = []
    for place in (lambda x: x, lambda x: x.transpose(0, 1).contiguous().transpose(0, 1)):
        plain = check_call(query[:2], keys, values, **{name: [place(x) for x in xs] for name, xs in options.items()})
        sets = (tuple(place(x) for x in sets) for sets in (keys, values))
        call = Call(place(query), *sets, plain.masks, plain.positions, plain.scale)
        out, lse = triton.forward(call)
        by_query, by_keys, by_values = triton.backward(call, out, lse, place(out), lse)
        results.append((out, lse, by_query, *by_keys, *by_values))
    assert all(torch.equal(x, y) for x, y in zip(*results, strict=True))
    assert all(x.isfinite().all() for x in results[0])


@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
def test_tensors_that_are_not_contiguous(masked):
    transposed_agree(masked)


@pytest.mark.parametrize("case", ["all", "windows", "causal"])
@pytest.mark.parametrize(
    ("dtype", "error"), [(torch.float32, 2e-6), (torch.bfloat16, 2e-2), (torch.float16, 3e-3)], ids=str
)
def test_other_types(case, dtype, error):
    """Half types round the rows of products and the weights to their precision, and sum in float32."""
    found, expected = checked(case, True, dtype)
    assert [x.dtype for x in found] == [dtype, torch.float32, *[dtype] * 5]
    agree(found, expected, error)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_large_scores_need_their_maximum_subtracted(dtype):
    """Scores of hundreds, of both signs: 2^s alone would overflow or underflow float32."""
    found, expected = checked("all", False, dtype, size=9.0)
    assert expected[1].max() > 150
    agree(found, expected, 1e-11 if dtype == torch.float64 else 1e-3)


@pytest.mark.parametrize("of_queries", [False, True], ids=["a mask of keys", "a mask of each head of queries"])
@pytest.mark.parametrize(
    ("lengths", "options"),
    [([2, 17], {}), ([2, 17], {"windows": [2, 5]}), ([2, 1, 7], {})],
    ids=["all", "windows", "order 4"],
)
def test_heads_that_share_keys(lengths, options, of_queries):
    """Two query heads share a key head: the kernel sums their gradients, for incoming gradients of any size."""
    query, keys, values, generator = drawn(3, 5, lengths, 4, 3, heads=2, shared=2)
    masks = tuple(torch.rand(4 if of_queries else 2, key.shape[1], generator=generator) < 0.7 for key in keys)
    for mask in masks:
        mask[:, -1] = True
    plain = check_call(query, [k.repeat_interleave(2, 0) for k in keys], [v.repeat_interleave(2, 0) for v in values])
    windows = replace(plain.positions, windows=tuple(options.get("windows", plain.positions.windows)))
    shared = Call(query, tuple(keys), tuple(values), masks, windows, 1.0)
    spread = shared.spread()
    out, lse = triton.forward(shared)
    expected = reference.tensor_attention(
        query, list(spread.keys), list(spread.values), key_masks=list(spread.masks), scale=1.0, **options
    )
    assert (out - expected[0]).abs().max() <= 1e-14
    grad_out = torch.rand(out.shape, dtype=out.dtype, generator=generator)
    grad_out *= torch.tensor([1e-6, 1e3, 1e-9, 0.0], dtype=out.dtype).reshape(4, 1, 1)
    given = (out, lse, grad_out, torch.zeros_like(lse))
    by_query, by_keys, by_values = triton.backward(shared, *given)
    other_query, other_keys, other_values = triton.backward(spread, *given)
    assert torch.allclose(by_query, other_query, rtol=1e-13, atol=0)
    for found, other in zip((*by_keys, *by_values), (*other_keys, *other_values), strict=True):
        summed = other.unflatten(0, (2, 2)).sum(1)
        size = summed.abs().amax((1, 2), keepdim=True)
        assert bool(((found - summed).abs() <= 1e-13 * size).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_masked_entries_may_be_anything(dtype):
    query, keys, values, _ = drawn(4, 4, [3, 17], 3, 2, dtype=dtype)
    masks = [torch.arange(n) % 2 == 0 for n in (3, 17)]
    grad = torch.ones(1, 4, 2, dtype=dtype)

    def run(filled):
        hidden = [
            [x.masked_fill(~mask.unsqueeze(-1), filled) for x, mask in zip(sets, masks, strict=True)]
            for sets in (keys, values)
        ]
        call = check_call(query, *hidden, key_masks=masks)
        assert triton.size_of(call).near_one
        out, lse = guarded.forward(call)
        by_query, by_keys, by_values = guarded.backward(call, out, lse, grad, torch.zeros_like(lse))
        return out, lse, by_query, *by_keys, *by_values

    for found, expected in zip(run(math.nan), run(0.0), strict=True):
        assert torch.equal(found, expected)


def test_float16_that_leaves_its_range_is_computed_in_float32():
    """A row of query times prefix key of 2^18 overflows float16, although the scores are small."""
    query, keys, values, _ = drawn(5, 3, [2, 5], 4, 2, dtype=torch.float16)
    query, keys = query * 2.0**9, [keys[0] * 2.0**9, keys[1] * 2.0**-14]
    call = check_call(query, keys, values, scale=0.5)
    assert not triton.size_of(call).moderate
    out, lse = guarded.forward(call)
    wide = [x.double() for x in call.tensors]
    expected, expected_lse = reference.tensor_attention(wide[0], wide[1:3], wide[3:], scale=0.5)
    assert (out - expected).abs().max() <= 2.0**-11
    assert (lse - expected_lse).abs().max() <= 1e-5


def test_weights_that_float16_cannot_hold_keep_their_gradients():
    """Weights of 2^-5 times differences of 2^-24: float16 underflows below 2^-24, so weights are multiplied by 2^14."""
    query, keys = torch.ones(1, 1, 1).half(), [torch.ones(1, 1, 1).half(), torch.zeros(1, 32, 1).half()]
    values = [torch.full((1, 1, 1), 2.0**-7).half(), torch.full((1, 32, 1), 2.0**-7).half()]
    values[1][0, ::2] += 2.0**-17
    call = check_call(query, keys, values)
    out, lse = triton.forward(call)
    # The output is set to 0, and the gradient of the log-sum-exp leaves 2^12 (v_1 v_2 - 2^-14) times each weight.
    _, by_keys, _ = triton.backward(call, out.zero_(), lse, torch.full_like(out, 2.0**12), torch.full_like(lse, -0.25))
    assert torch.allclose(by_keys[1].flatten().float() * 2.0**17, torch.tensor([1.0, 0.0]).repeat(16), atol=0.02)


def test_the_same_bits_every_time():
    for first, second in zip(*(checked("windows", True, torch.float32)[0] for _ in range(2)), strict=True):
        assert torch.equal(first, second)


@pytest.mark.parametrize("case", ["causal, whole blocks", "windows, whole blocks", "order 5", "windows"])
def test_blocks_without_comparisons_have_the_same_bits(case):
    """A call with masks compares positions in every block; a call without masks only where a position may be hidden."""
    shape, options = CASES[case]
    query, keys, values, generator = drawn(7, *shape, dtype=torch.float32)
    grad = torch.rand(*query.shape[:2], shape[3], generator=generator)

    def run(**masks):
        call = check_call(query, keys, values, **options, **masks)
        assert bool(call.masks) == bool(masks)
        out, lse = triton.forward(call)
        by_query, by_keys, by_values = triton.backward(call, out, lse, grad, torch.zeros_like(lse))
        return out, lse, by_query, *by_keys, *by_values

    masked = run(key_masks=[torch.ones(1, key.shape[1], dtype=torch.bool) for key in keys])
    for with_masks, without in zip(masked, run(), strict=True):
        assert torch.equal(with_masks, without)


def test_long_sums_keep_the_count_of_roundings():
    """The bound holds in the worst case for sums: equal weights, and values whose products are all rounded up."""
    query, keys = torch.zeros(1, 1, 1), [torch.zeros(1, 5, 1), torch.zeros(1, 70, 1)]
    for value in (1 + 2.0**-23, 0.7):
        values = [torch.full((1, 5, 1), value), torch.full((1, 70, 1), value)]
        call = check_call(query, keys, values)
        out, _ = triton.forward(call)
        gamma = triton.summation(call, torch.float32).gamma(torch.float32)
        exact = float(torch.tensor(value).double()) ** 2
        assert abs(out.item() - exact) <= 2 * gamma * exact
        assert gamma < 130 * 2.0**-24


def test_positions_decide_which_tiles_are_visited():
    """A NaN at a position that no query may attend does not reach any output."""
    query, keys, values, _ = drawn(6, 20, [20, 20], 3, 2)
    expected = triton.forward(check_call(query[:, :4], keys, values, windows=[2, 3]))
    keys[0][0, 16:], values[1][0, 16:] = math.nan, math.nan
    found = triton.forward(check_call(query[:, :4], keys, values, windows=[2, 3]))
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
